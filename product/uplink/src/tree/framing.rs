//! The bytes that a line adds to each packet below the interface. The shaper has to count them to match the line.
//!
//! HTB itself adds them, per class; a qdisc's size table would do the same with a table. They are added once per packet
//! of the network stack, so packets of several segments (above about 20 Mbit/s) are slightly undercounted.

/// A kind of line, named as in CAKE (tc-cake(8)). `Overhead::None` counts packets as they are on the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overhead {
    None,
    /// Ethernet, with preamble, checksum and gap.
    Ethernet,
    /// A cable modem.
    Docsis,
    /// PPPoE over VDSL2 (`pppoe-ptm`) or fibre.
    Pppoe,
    /// ADSL, in cells of 53 bytes; `conservative` of CAKE.
    Atm,
}

/// The overhead of a line as the kernel's parameters, relative to packets on the interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    pub overhead_bytes: u16,
    /// The minimum number of bytes that a packet counts as.
    pub least_bytes: u16,
    pub is_atm: bool,
}

impl Overhead {
    pub const ALL: [Overhead; 5] =
        [Overhead::None, Overhead::Ethernet, Overhead::Docsis, Overhead::Pppoe, Overhead::Atm];

    pub fn name(self) -> &'static str {
        match self {
            Overhead::None => "none",
            Overhead::Ethernet => "ethernet",
            Overhead::Docsis => "docsis",
            Overhead::Pppoe => "pppoe",
            Overhead::Atm => "atm",
        }
    }

    /// Returns the parameters for an interface whose packets have this many header bytes before IP.
    pub fn framing(self, head_bytes: u16) -> Framing {
        let (above_ip, least_bytes) = match self {
            Overhead::None => return Framing::default(),
            Overhead::Ethernet => (38, 84),
            Overhead::Docsis => (18, 64),
            Overhead::Pppoe => (30, 0),
            Overhead::Atm => (48, 0),
        };
        let overhead_bytes = u16::saturating_sub(above_ip, head_bytes);
        Framing { overhead_bytes, least_bytes, is_atm: self == Overhead::Atm }
    }

    /// Returns the kind of line with these parameters; `None` if another program has set them.
    pub fn of(framing: Framing, head_bytes: u16) -> Option<Overhead> {
        Overhead::ALL.into_iter().find(|overhead| overhead.framing(head_bytes) == framing)
    }
}

impl Framing {
    /// Describes the framing, as in `24 bytes a packet, 84 at least`; `None` if packets count unchanged.
    pub fn said(self) -> Option<String> {
        let Framing { overhead_bytes, least_bytes, is_atm } = self;
        let least = if least_bytes > 0 { format!(", {least_bytes} at least") } else { String::new() };
        let cells = if is_atm { ", in ATM cells" } else { "" };
        (self != Framing::default()).then(|| format!("{overhead_bytes} bytes more a packet{least}{cells}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_one_to_one() {
        for head_bytes in [0, 14] {
            for overhead in Overhead::ALL {
                assert_eq!(Overhead::of(overhead.framing(head_bytes), head_bytes), Some(overhead));
            }
        }
        let framing = |overhead: Overhead| overhead.framing(14);
        assert_eq!(framing(Overhead::Ethernet), Framing { overhead_bytes: 24, least_bytes: 84, is_atm: false });
        assert_eq!(framing(Overhead::Atm), Framing { overhead_bytes: 34, least_bytes: 0, is_atm: true });
        // `tc class change` may have set such numbers.
        assert_eq!(Overhead::of(Framing { overhead_bytes: 7, ..Framing::default() }, 14), None);
        assert_eq!(framing(Overhead::None).said(), None);
        assert_eq!(framing(Overhead::Docsis).said().unwrap(), "4 bytes more a packet, 64 at least");
    }
}
