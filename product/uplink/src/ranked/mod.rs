//! The ranked qdisc: at an interface's root it sends, of all flows with packets waiting, the one whose next packet has
//! the lowest rank, at the rate of the uplink. `bpf/ranked.bpf.c` says how; this puts it there, adjusts it, reads it.
//!
//! Nothing outlives its use. The kernel knows the discipline's name only while [`install`] runs, by a link that ends with
//! the process however that ends; the qdisc itself holds the programs and their maps, and they go when it or its
//! interface goes. Each installation has a name and maps of its own; the name is the qdisc's kind, so everything is found
//! again from the interface.

#[cfg(feature = "bpf")]
mod kernel;
#[cfg(not(feature = "bpf"))]
#[path = "absent.rs"]
mod kernel;
mod layout;
#[cfg(all(test, feature = "bpf"))]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};

use units::{Nanos, Rate};

pub use layout::{Settings, Stats};

use crate::netlink::{Body, NLM_F_CREATE, NLM_F_REPLACE, Socket};
use crate::tc::{self, Qdisc, RTM_DELQDISC, RTM_NEWQDISC, TC_H_ROOT, TCA_KIND};
use crate::{Error, Interface};

/// Flows that wait at one time, each in a queue of its own; what comes beyond shares one.
pub const FLOWS_MAX_DEFAULT: u32 = 16_384;
/// What one installation may reserve: some 100 bytes of kernel memory to a flow.
const FLOWS_MAX_LIMIT: u32 = 1 << 18;
/// `5745:`, the handle of everything Weir puts at a root.
const ROOT: u32 = 0x5745_0000;
const KIND_PREFIX: &str = "weir_";

/// A ranked qdisc at the root of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked {
    pub interface: Interface,
    /// The name of its kind, which is its alone.
    pub kind: String,
    pub settings: Settings,
}

/// Puts a ranked qdisc at the root of this interface, in the place of what is there. Where one is already there with the
/// same bound on flows it goes on, at this rate, and loses no packet.
pub fn install(interface: &Interface, rate: Rate, flows_max: u32) -> Result<Ranked, Error> {
    if flows_max == 0 || flows_max > FLOWS_MAX_LIMIT {
        return Err(Error::new(format!("ranked with {flows_max} flows: write 1 to {FLOWS_MAX_LIMIT}")));
    }
    let doing = format!("putting the ranked qdisc on {}", interface.name);
    let mut netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
    let before = root_of(&mut netlink, interface)?;
    if let Some(mut there) = before.as_ref().and_then(|root| read(interface, root)).transpose()?
        && there.settings.flows_max == flows_max
    {
        there.set_rate(rate)?;
        return Ok(there);
    }
    let kind = new_kind();
    let settings = Settings::new(rate, flows_max);
    // Until the end of this function.
    let _registered = kernel::register(&kind, &settings)?;
    // The kernel changes no qdisc's kind, it only replaces one by another of another handle.
    if before.is_some_and(|root| root.handle == ROOT) {
        delete(&mut netlink, interface).map_err(|error| Error::kernel(&doing, error))?;
    }
    let body = Body::new(&tc::tcm(interface.index, ROOT, TC_H_ROOT)).text(TCA_KIND, &kind);
    netlink
        .change(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body.bytes())
        .map_err(|error| Error::kernel(&doing, error))?;
    Ok(Ranked { interface: interface.clone(), kind, settings })
}

/// The ranked qdisc of this interface; `None` where there is none.
pub fn find(interface: &Interface) -> Result<Option<Ranked>, Error> {
    let doing = format!("reading the qdiscs of {}", interface.name);
    let mut netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
    root_of(&mut netlink, interface)?.and_then(|root| read(interface, &root)).transpose()
}

/// Takes the ranked qdisc off this interface, with every packet that waits in it; `false` where there is none.
pub fn remove(interface: &Interface) -> Result<bool, Error> {
    let doing = format!("removing the ranked qdisc of {}", interface.name);
    let mut netlink = Socket::open().map_err(|error| Error::kernel(&doing, error))?;
    if !root_of(&mut netlink, interface)?.is_some_and(|root| is_ranked(&root)) {
        return Ok(false);
    }
    delete(&mut netlink, interface).map_err(|error| Error::kernel(&doing, error))?;
    Ok(true)
}

/// Does this kernel have qdiscs in BPF, and this build the program? If not, the error says what is missing.
pub fn available() -> Result<(), Error> {
    kernel::available()
}

impl Ranked {
    /// From the next packet on.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), Error> {
        self.set(Settings { rate, ..self.settings.clone() })
    }

    /// Changes everything but the bound on flows, for which memory was reserved at installation.
    pub fn set(&mut self, settings: Settings) -> Result<(), Error> {
        let settings = Settings { flows_max: self.settings.flows_max, ..settings };
        kernel::write_settings(&self.kind, &settings)?;
        self.settings = settings;
        Ok(())
    }

    /// What was counted since it was installed.
    pub fn stats(&self) -> Result<Stats, Error> {
        kernel::read_stats(&self.kind)
    }
}

impl Settings {
    fn new(rate: Rate, flows_max: u32) -> Settings {
        Settings {
            rate,
            flows_max,
            // Two packets each: what TCP small queues lets a connection have.
            packets_max: flows_max.saturating_mul(2).max(PACKETS_MAX_LEAST),
            flow_packets_max: FLOW_PACKETS_MAX,
            bytes_max: BYTES_MAX,
            late_max: LATE_MAX,
            overhead_bytes: 0,
            guard_permille: GUARD_PERMILLE,
        }
    }
}

const PACKETS_MAX_LEAST: u32 = 4096;
const FLOW_PACKETS_MAX: u32 = 1000;
const BYTES_MAX: u64 = 64 << 20;
/// Timers are tens of microseconds late on an idle machine, and milliseconds on a busy or emulated one.
const LATE_MAX: Nanos = Nanos::from_millis(10);
/// As much as the paced drain gives.
const GUARD_PERMILLE: u32 = 2;

fn is_ranked(root: &Qdisc) -> bool {
    root.handle == ROOT && root.kind.starts_with(KIND_PREFIX)
}

fn root_of(netlink: &mut Socket, interface: &Interface) -> Result<Option<Qdisc>, Error> {
    let qdiscs = tc::qdiscs(netlink, interface.index)
        .map_err(|error| Error::kernel(&format!("reading the qdiscs of {}", interface.name), error))?;
    Ok(qdiscs.into_iter().find(|qdisc| qdisc.parent == TC_H_ROOT))
}

fn read(interface: &Interface, root: &Qdisc) -> Option<Result<Ranked, Error>> {
    is_ranked(root).then(|| {
        let settings = kernel::read_settings(&root.kind)?;
        Ok(Ranked { interface: interface.clone(), kind: root.kind.clone(), settings })
    })
}

fn delete(netlink: &mut Socket, interface: &Interface) -> std::io::Result<()> {
    netlink.change(RTM_DELQDISC, 0, &tc::tcm(interface.index, ROOT, TC_H_ROOT))
}

/// A name nobody has: the kernel takes at most 15 characters.
fn new_kind() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{KIND_PREFIX}{:010x}", random >> 24)
}
