//! The settings with which the program is loaded, as bytes (`struct settings` of bpf/classify.h), and their parser.
//! Everything about an attached program is read back from the kernel.

use std::iter::repeat;

pub use crate::constants::CUTS_MAX;
use sched::policy::ClientShareSpec;
use units::{Nanos, Rate};

use super::{Classes, Clients, Cuts};
use crate::constants::{
    BAND_DATA_FIRST, BANDS_MAX, CUT_NONE, CUT_PLACES, CUTS_AT, LAYOUT, PORT_WORDS, PORTS_AT, PRIORITIES_AT,
    SETTINGS_BYTES, SHARE_AT,
};
use crate::netlink::{u32_at, u64_at};
use crate::tree::{Before, RESTORABLE};

/// The order of urgency of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Least attained service: by the bytes of the response sent so far. The response itself is not parsed.
    Las,
    /// Preemptive shortest job first: by the size of the response.
    Psjf,
    /// Shortest remaining processing time: by the remaining bytes of the response.
    Srpt,
    /// Shortest remaining response time: by the microseconds that the connection's path needs for the remaining bytes.
    Srrt,
}

impl Policy {
    pub const ALL: [Policy; 4] = [Policy::Las, Policy::Psjf, Policy::Srpt, Policy::Srrt];

    pub fn name(self) -> &'static str {
        match self {
            Policy::Las => "las",
            Policy::Psjf => "psjf",
            Policy::Srpt => "srpt",
            Policy::Srrt => "srrt",
        }
    }

    /// Returns the number of this policy in the program.
    pub(super) fn number(self) -> u32 {
        Policy::ALL.iter().position(|policy| *policy == self).unwrap_or(0) as u32
    }

    /// Returns the unit of the value by which packets are ordered.
    pub fn unit(self) -> &'static str {
        if self == Policy::Srrt { "microseconds" } else { "bytes" }
    }
}

/// The property of a packet that identifies its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientBy {
    #[default]
    Address,
    /// The packet's mark (`skb->mark`) if it is not 0, else its address.
    Mark,
    /// The source address in the PROXY header of the connection if it has one, else the packet's address.
    Proxy,
}

impl ClientBy {
    pub const ALL: [ClientBy; 3] = [ClientBy::Address, ClientBy::Mark, ClientBy::Proxy];

    pub fn name(self) -> &'static str {
        match self {
            ClientBy::Address => "address",
            ClientBy::Mark => "mark",
            ClientBy::Proxy => "proxy",
        }
    }

    fn flags(self) -> u32 {
        match self {
            ClientBy::Address => 0,
            ClientBy::Mark => BY_MARK,
            ClientBy::Proxy => BY_PROXY,
        }
    }

    fn of_flags(flags: u32) -> ClientBy {
        ClientBy::ALL.into_iter().rev().find(|by| flags & by.flags() == by.flags()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub policy: Policy,
    pub made_clsact: bool,
    pub made_tree: bool,
    /// True if packets to the ports are ordered too.
    pub has_uploads: bool,
    /// The cut points, increasing, at most [`CUTS_MAX`]; in bytes, or in microseconds for `srrt`.
    pub cuts: Vec<u64>,
    /// For each band, the value of `skb->priority`.
    pub priorities: [u32; BANDS_MAX],
    /// The ports, in increasing order.
    pub ports: Vec<u16>,
    /// The sharing of the link; `None` if clients do not share it.
    pub share: Option<Share>,
    pub classes: Classes,
    /// The state that attaching's tree has replaced.
    pub before: Before,
}

/// The sharing of the link between clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The bytes, above 0, by which a client may be ahead of its share before it moves behind the others.
    pub allowance_bytes: u64,
    pub link_bytes_per_s: u64,
    pub v4_bits: u8,
    pub v6_bits: u8,
    pub client_by: ClientBy,
    /// The first band for clients that are further ahead. The next field is the number of such bands.
    pub behind_band: u8,
    pub behind_bands: u8,
}

impl Share {
    /// Returns the sharing for a link of this rate with this many bands for responses; `None` if clients do not share
    /// the link.
    pub fn of(clients: Clients, rate: Rate, cuts: usize, data_bands: u8) -> Option<Share> {
        let Clients { share, v4_bits, v6_bits, by: client_by } = clients;
        let link_bytes_per_s = rate.bytes_in(Nanos::from_secs(1));
        let allowance_bytes = share.of_link(rate_of(link_bytes_per_s))?.allowance_bytes;
        // The bands after the band of the largest responses, if there are more.
        let data_bands = usize::from(data_bands).max(1);
        let first = (cuts + 1).min(data_bands - 1);
        let (behind_band, behind_bands) = ((BAND_DATA_FIRST + first) as u8, (data_bands - first) as u8);
        Some(Share { allowance_bytes, link_bytes_per_s, v4_bits, v6_bits, client_by, behind_band, behind_bands })
    }

    fn to_bytes(share: Option<Share>) -> Vec<u8> {
        let Some(Share { allowance_bytes, link_bytes_per_s, v4_bits, v6_bits, behind_band, behind_bands, .. }) = share
        else {
            return vec![0; CUTS_AT - SHARE_AT];
        };
        let longs = [allowance_bytes, link_bytes_per_s].into_iter().flat_map(u64::to_ne_bytes);
        longs
            .chain(
                [v4_bits, v6_bits, behind_band, behind_bands]
                    .into_iter()
                    .flat_map(|bits| u32::from(bits).to_ne_bytes()),
            )
            .collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Share> {
        let bits = |at| u32_at(bytes, at).and_then(|bits| u8::try_from(bits).ok());
        Some(Share {
            allowance_bytes: u64_at(bytes, SHARE_AT).filter(|bytes| *bytes > 0)?,
            link_bytes_per_s: u64_at(bytes, SHARE_AT + 8)?,
            v4_bits: bits(SHARE_AT + 16)?,
            v6_bits: bits(SHARE_AT + 20)?,
            client_by: ClientBy::of_flags(u32_at(bytes, FLAGS_AT)?),
            behind_band: bits(SHARE_AT + 24)?,
            behind_bands: bits(SHARE_AT + 28)?,
        })
    }
}

impl Settings {
    /// Returns the sharing that was requested; `None` if clients do not share the link.
    pub fn clients(&self) -> Option<Clients> {
        let Share { allowance_bytes, link_bytes_per_s, v4_bits, v6_bits, client_by: by, .. } = self.share?;
        let is_so = |share: &ClientShareSpec| {
            share.of_link(rate_of(link_bytes_per_s)).is_some_and(|share| share.allowance_bytes == allowance_bytes)
        };
        let named = [ClientShareSpec::On, ClientShareSpec::Strict].into_iter().find(is_so);
        let share = named.unwrap_or(ClientShareSpec::Allowance(allowance_bytes));
        Some(Clients { share, v4_bits, v6_bits, by })
    }

    /// Returns the cut points that were requested, if they can be recovered.
    pub fn wanted_cuts(&self) -> Cuts {
        let usual = Cuts::Usual.resolve(self.policy, self.cuts.len() as u8 + 1, None);
        if usual.is_ok_and(|usual| usual == self.cuts) { Cuts::Usual } else { Cuts::Given(self.cuts.clone()) }
    }
}

/// Returns a link's rate from the program's value, which is in whole bytes per second.
fn rate_of(bytes_per_s: u64) -> Option<Rate> {
    bytes_per_s.checked_mul(8).and_then(Rate::from_bits_per_s)
}

const MADE_CLSACT: u32 = 1;
const MADE_TREE: u32 = 2;
const UPLOADS: u32 = 4;
const BY_MARK: u32 = 256;
const BY_PROXY: u32 = 512;
const FLAGS_AT: usize = 8;
/// The bit positions, in the flags, of two numbers that the program does not read: the previous queue (its index in
/// `RESTORABLE`, from 1) and the previous number of segments.
const QUEUE_SHIFT: u32 = 4;
const QUEUE_MASK: u32 = 0xf;
const SEGMENTS_SHIFT: u32 = 16;
const _: () = assert!(RESTORABLE.len() < QUEUE_MASK as usize);

fn before_to_flags(before: Before) -> u32 {
    let is = |kind: &&str| before.queue == Some(*kind);
    let queue = RESTORABLE.iter().position(is).map_or(0, |place| place as u32 + 1);
    (queue << QUEUE_SHIFT) | (u32::from(before.segments) << SEGMENTS_SHIFT)
}

fn before_of_flags(flags: u32) -> Before {
    let place = (flags >> QUEUE_SHIFT & QUEUE_MASK).checked_sub(1);
    let queue = place.and_then(|place| RESTORABLE.get(place as usize).copied());
    Before { segments: (flags >> SEGMENTS_SHIFT) as u16, queue }
}

impl Settings {
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.cuts.len() <= CUTS_MAX, "{} cuts", self.cuts.len());
        let flags = u32::from(self.made_clsact) * MADE_CLSACT
            + u32::from(self.made_tree) * MADE_TREE
            + u32::from(self.has_uploads) * UPLOADS
            + self.share.map_or(0, |share| share.client_by.flags())
            + before_to_flags(self.before);
        let words = [LAYOUT, self.policy.number(), flags, self.cuts.len() as u32];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(Share::to_bytes(self.share));
        let cuts = self.cuts.iter().map(|cut| CUT_NONE.min(*cut)).chain(repeat(CUT_NONE)).take(CUT_PLACES);
        bytes.extend(cuts.flat_map(u64::to_ne_bytes));
        bytes.extend(self.priorities.iter().flat_map(|priority| priority.to_ne_bytes()));
        bytes.extend(self.classes.to_bytes());
        let mut words = [0u64; PORT_WORDS];
        for port in &self.ports {
            words[usize::from(*port) / 64] |= 1 << (port % 64);
        }
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(self.classes.text().bytes());
        bytes.resize(SETTINGS_BYTES, 0);
        bytes
    }

    /// Parses settings. Returns `None` if another version of weir wrote them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Settings> {
        if bytes.len() != SETTINGS_BYTES || u32_at(bytes, 0)? != LAYOUT {
            return None;
        }
        let flags = u32_at(bytes, FLAGS_AT)?;
        let cuts = (u32_at(bytes, 12)? as usize).min(CUTS_MAX);
        let mut priorities = [0; BANDS_MAX];
        for (band, priority) in priorities.iter_mut().enumerate() {
            *priority = u32_at(bytes, PRIORITIES_AT + band * 4)?;
        }
        let is_wanted = |port: &u16| {
            u64_at(bytes, PORTS_AT + usize::from(*port) / 64 * 8).is_some_and(|word| word >> (port % 64) & 1 == 1)
        };
        Some(Settings {
            policy: *Policy::ALL.get(u32_at(bytes, 4)? as usize)?,
            made_clsact: flags & MADE_CLSACT != 0,
            made_tree: flags & MADE_TREE != 0,
            has_uploads: flags & UPLOADS != 0,
            cuts: (0..cuts).map(|at| u64_at(bytes, CUTS_AT + at * 8)).collect::<Option<_>>()?,
            priorities,
            ports: (0..=u16::MAX).filter(is_wanted).collect(),
            share: Share::from_bytes(bytes),
            classes: Classes::from_bytes(bytes)?,
            before: before_of_flags(flags),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wanted_is_read_back() {
        // A rate that was found is not a whole number of bytes.
        let rates = ["9500kbit", "94123457bit"].map(|rate| rate.parse::<Rate>().unwrap());
        let [on, strict, off, given] =
            [ClientShareSpec::On, ClientShareSpec::Strict, ClientShareSpec::Off, ClientShareSpec::Allowance(77_777)];
        let shares =
            [(on, ClientBy::Address), (strict, ClientBy::Mark), (given, ClientBy::Proxy), (off, ClientBy::Mark)];
        for ((share, by), rate) in shares.into_iter().flat_map(|share| rates.map(|rate| (share, rate))) {
            let clients = Clients { share, v4_bits: 24, v6_bits: 56, by };
            let usual = Cuts::Usual.resolve(Policy::Psjf, 13, None).unwrap();
            for (cuts, wanted) in [(usual, Cuts::Usual), (vec![7, 70], Cuts::Given(vec![7, 70]))] {
                let settings = Settings {
                    policy: Policy::Psjf,
                    made_clsact: false,
                    made_tree: true,
                    has_uploads: false,
                    share: Share::of(clients, rate, cuts.len(), 13),
                    cuts,
                    priorities: [0; BANDS_MAX],
                    ports: vec![8080],
                    classes: Classes::default(),
                    before: Before::default(),
                };
                let found = settings.clients();
                assert_eq!(found, (share != off).then_some(clients));
                assert_eq!(settings.wanted_cuts(), wanted);
            }
        }
    }

    #[test]
    fn settings_read_back() {
        let settings = Settings {
            policy: Policy::Srrt,
            made_clsact: false,
            made_tree: true,
            has_uploads: true,
            cuts: vec![1000, CUT_NONE],
            priorities: std::array::from_fn(|band| band as u32 * 7),
            ports: vec![1, 63, 64, 443, 65535],
            share: Some(Share {
                allowance_bytes: 3_000_000,
                link_bytes_per_s: 1 << 40,
                v4_bits: 24,
                v6_bits: 128,
                client_by: ClientBy::Mark,
                behind_band: 12,
                behind_bands: 4,
            }),
            classes: Classes::default(),
            before: Before { segments: 65_535, queue: Some("sfq") },
        };
        let bytes = settings.to_bytes();
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(Settings::from_bytes(&bytes), Some(settings.clone()));
        let unshared = Settings { share: None, before: Before { segments: 0, queue: None }, ..settings };
        assert_eq!(Settings::from_bytes(&unshared.to_bytes()), Some(unshared));
        assert_eq!(Settings::from_bytes(&bytes[1..]), None);
        assert_eq!(Settings::from_bytes(&[9; SETTINGS_BYTES]), None);
    }
}
