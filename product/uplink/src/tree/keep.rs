//! Stores the qdisc that an interface had before the tree replaced it, so that `down` can restore it.
//!
//! It is stored in a small file in /run/weir, named after the numbers of the network namespace and of the interface.
//! These numbers are valid for as long as the qdisc itself could exist: after a restart of the machine, both the file
//! and the tree are gone.

use std::fs;
use std::io;

use super::leftovers::{self, path};
use crate::netlink::{Body, NLM_F_CREATE, NLM_F_REPLACE, Socket};
use crate::tc::{Qdisc, RTM_NEWQDISC, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tcm};
use crate::{Counted, Error, Interface};

/// The prefix of the file names.
const KIND: &str = "replaced";

/// The kinds of discipline that can be recreated from the options that the kernel reports, if nothing is below them
/// (Linux 7.2; the kernel does not accept its own report for choke and fq_pie).
pub const RESTORABLE: &[&str] =
    &["bfifo", "cake", "codel", "fq", "fq_codel", "hhf", "pfifo", "pfifo_fast", "pfifo_head_drop", "pie", "sfb", "sfq"];

/// Returns true if this discipline can be restored later.
pub fn is_restorable(qdisc: &Qdisc) -> bool {
    RESTORABLE.contains(&qdisc.kind.as_str())
}

/// Stores the discipline until [`restore`] or [`forget`].
pub fn keep(interface: &Interface, qdisc: &Qdisc) -> Result<(), Error> {
    let options: String = qdisc.options.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{} {:x} {options}", qdisc.kind, qdisc.handle);
    path(KIND, interface).and_then(|path| leftovers::write(&path, interface, &text)).map_err(|error| {
        let (kind, name, folder) = (&qdisc.kind, &interface.name, leftovers::FOLDER);
        Error::other(format!("nothing was changed: the {kind} on {name} cannot be saved in {folder}"), error)
    })
}

/// Returns the discipline stored for this interface.
pub fn kept(interface: &Interface) -> Option<Qdisc> {
    parse(&leftovers::read(&path(KIND, interface).ok()?, interface)?)
}

/// Removes the stored discipline, which will not be restored.
pub fn forget(interface: &Interface) {
    if let Ok(path) = path(KIND, interface) {
        // Usually there is no such file.
        let _ = fs::remove_file(path);
    }
}

/// Restores the discipline at the root.
pub fn restore(netlink: &mut Socket, interface: &Interface, qdisc: &Qdisc) -> io::Result<()> {
    let body = Body::new(&tcm(interface.index, qdisc.handle, TC_H_ROOT))
        .text(TCA_KIND, &qdisc.kind)
        .attribute(TCA_OPTIONS, &qdisc.options);
    netlink.change(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body.bytes())
}

fn parse(text: &str) -> Option<Qdisc> {
    let mut words = text.splitn(3, ' ');
    let (kind, handle, options) = (words.next()?, words.next()?, words.next()?);
    let bytes = options.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let handle = u32::from_str_radix(handle, 16).ok()?;
    let counted = Counted::default();
    Some(Qdisc { kind: kind.to_string(), handle, parent: TC_H_ROOT, options: bytes.collect::<Option<_>>()?, counted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_is_nothing_kept() {
        let qdisc = parse("pfifo 80010000 64000000").unwrap();
        assert_eq!(
            (qdisc.kind.as_str(), qdisc.handle, &qdisc.options[..]),
            ("pfifo", 0x8001_0000, &[100, 0, 0, 0][..])
        );
        assert!(parse("pfifo_fast 80010000 ").unwrap().options.is_empty());
        for broken in ["", "pfifo", "pfifo x 00", "pfifo 1 0x", "pfifo 1 é"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
