//! Traffic control over netlink: the queueing disciplines and classes of an interface.
//!
//! The attribute numbers and layouts come from linux/rtnetlink.h, linux/pkt_sched.h and linux/gen_stats.h, stable
//! kernel interface.

use std::io;

use crate::netlink::{Socket, attribute, u32_at, u64_at};

pub const RTM_NEWQDISC: u16 = 36;
pub const RTM_DELQDISC: u16 = 37;
pub const RTM_GETQDISC: u16 = 38;
pub const RTM_NEWTCLASS: u16 = 40;
pub const RTM_DELTCLASS: u16 = 41;
pub const RTM_GETTCLASS: u16 = 42;
pub const RTM_NEWTFILTER: u16 = 44;
/// The size of `struct tcmsg`.
pub const TCM_BYTES: usize = 20;
/// The parent of a qdisc or a class at the interface itself.
pub const TC_H_ROOT: u32 = u32::MAX;
/// The parent of the clsact qdisc, which exists in addition to the root and only runs programs.
pub const TC_H_CLSACT: u32 = 0xffff_fff1;
/// The parent of a filter on egress packets.
pub const TC_H_CLSACT_EGRESS: u32 = 0xffff_fff3;
pub const TCA_KIND: u16 = 1;
pub const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

/// A queueing discipline as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    pub kind: String,
    /// The handle; zero if the kernel created the discipline by default.
    pub handle: u32,
    pub parent: u32,
    pub options: Vec<u8>,
    pub counted: Counted,
}

/// The packets and bytes that have left a queue, those lost, and those that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub packets: u64,
    pub bytes: u64,
    pub drops: u64,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
}

impl Counted {
    pub fn plus(self, other: Counted) -> Counted {
        Counted {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            drops: self.drops + other.drops,
            backlog_packets: self.backlog_packets + other.backlog_packets,
            backlog_bytes: self.backlog_bytes + other.backlog_bytes,
        }
    }
}

/// A class of a queueing discipline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    pub id: u32,
    pub parent: u32,
    pub options: Vec<u8>,
}

/// Returns every queueing discipline of this interface, including the kernel's defaults.
pub fn qdiscs(netlink: &mut Socket, interface: u32) -> io::Result<Vec<Qdisc>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETQDISC, &tcm(interface, 0, 0), |reply| {
        if u32_at(reply, 4) == Some(interface) {
            found.extend(qdisc(reply));
        }
    })?;
    Ok(found)
}

/// Returns every class of every queueing discipline of this interface.
pub fn classes(netlink: &mut Socket, interface: u32) -> io::Result<Vec<Class>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETTCLASS, &tcm(interface, 0, 0), |reply| {
        if u32_at(reply, 4) == Some(interface) {
            found.extend(class(reply));
        }
    })?;
    Ok(found)
}

/// Returns a `struct tcmsg`.
pub fn tcm(interface: u32, handle: u32, parent: u32) -> [u8; TCM_BYTES] {
    let mut message = [0; TCM_BYTES];
    message[4..8].copy_from_slice(&interface.to_ne_bytes());
    message[8..12].copy_from_slice(&handle.to_ne_bytes());
    message[12..16].copy_from_slice(&parent.to_ne_bytes());
    message
}

pub fn kind_and_options(reply: &[u8]) -> Option<(String, Vec<u8>)> {
    let fields = reply.get(TCM_BYTES..)?;
    let kind = attribute(fields, TCA_KIND)?;
    let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_string();
    Some((kind, attribute(fields, TCA_OPTIONS).unwrap_or_default().to_vec()))
}

/// Returns the `struct gnet_stats_queue` of a reply: qlen, backlog, drops, requeues, overlimits.
pub fn queue_stats(reply: &[u8]) -> Option<&[u8]> {
    let stats = attribute(reply.get(TCM_BYTES..)?, TCA_STATS2)?;
    attribute(stats, TCA_STATS_QUEUE)
}

fn qdisc(reply: &[u8]) -> Option<Qdisc> {
    let (kind, options) = kind_and_options(reply)?;
    let (handle, parent) = (u32_at(reply, 8)?, u32_at(reply, 12)?);
    Some(Qdisc { kind, handle, parent, options, counted: counted(reply).unwrap_or_default() })
}

fn class(reply: &[u8]) -> Option<Class> {
    let (_, options) = kind_and_options(reply)?;
    Some(Class { id: u32_at(reply, 8)?, parent: u32_at(reply, 12)?, options })
}

fn counted(reply: &[u8]) -> Option<Counted> {
    let stats = attribute(reply.get(TCM_BYTES..)?, TCA_STATS2)?;
    let basic = attribute(stats, TCA_STATS_BASIC)?;
    let queue = attribute(stats, TCA_STATS_QUEUE)?;
    // The 64-bit count is sent only once the 32-bit one has overflowed.
    let packets = attribute(stats, TCA_STATS_PKT64).and_then(|wide| u64_at(wide, 0));
    Some(Counted {
        packets: packets.or_else(|| u32_at(basic, 8).map(u64::from))?,
        bytes: u64_at(basic, 0)?,
        drops: u32_at(queue, 8)?.into(),
        backlog_packets: u32_at(queue, 0)?.into(),
        backlog_bytes: u32_at(queue, 4)?.into(),
    })
}
