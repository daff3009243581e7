//! The rate of an attach: configured, or found and followed.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ::uplink::follow;
use ::uplink::{Error, Interface, tree};
use server::{Keeper, KeptLine};
use units::{ParseError, Rate};

/// The part of an earlier rate with which an attach begins, in thousandths. The server uses the same part.
const KNOWN_PERMILLE: u32 = 900;
/// The folder in which found rates are stored. It is next to the server's folder, which belongs to another user.
const FOLDER: &str = "weir-attach";

/// The value of `--rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachRate {
    Auto,
    Told(Rate),
}

impl FromStr for AttachRate {
    type Err = String;

    fn from_str(text: &str) -> Result<AttachRate, String> {
        if text == "auto" {
            return Ok(AttachRate::Auto);
        }
        let explain = |error: ParseError| format!("{error}, or auto");
        text.parse().map(AttachRate::Told).map_err(explain)
    }
}

/// The rate to attach with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Told(Rate),
    /// The configured rate of the bands that exist.
    AsIs,
    /// The rate is followed. The bands begin at this rate; `None` leaves them at their present rate.
    Follow(Option<Rate>),
}

impl Wish {
    /// Returns the rate that a command requests: bands with a configured rate keep it, unless the command gives
    /// another.
    pub fn of(rate: Option<AttachRate>, interface: &Interface) -> Result<Wish, Error> {
        match rate {
            Some(AttachRate::Told(rate)) => Ok(Wish::Told(rate)),
            None if has_tree(interface) && follow::read(interface).is_none() => Ok(Wish::AsIs),
            _ => Wish::follow(interface),
        }
    }

    /// Returns the rate that a table of the file requests: followed, unless the table has a rate.
    pub fn of_saved(rate: Option<AttachRate>, interface: &Interface) -> Result<Wish, Error> {
        match rate {
            Some(AttachRate::Told(rate)) => Ok(Wish::Told(rate)),
            _ => Wish::follow(interface),
        }
    }

    fn follow(interface: &Interface) -> Result<Wish, Error> {
        let open = follow::open_rate(interface)?;
        if let Ok(Some(tree)) = tree::find(interface) {
            // A device that learned its speed may have less than the bands were open at.
            return Ok(Wish::Follow((tree.plan.rate > open).then_some(open)));
        }
        let kept = Kept::open(interface).line.map(|line| begun(line.rate, open));
        Ok(Wish::Follow(Some(kept.unwrap_or(open))))
    }

    pub fn is_followed(self) -> bool {
        matches!(self, Wish::Follow(_))
    }

    /// Returns the rate to give the bands; `None` leaves them as they are.
    pub fn rate(self) -> Option<Rate> {
        match self {
            Wish::Told(rate) => Some(rate),
            Wish::AsIs => None,
            Wish::Follow(rate) => rate,
        }
    }
}

/// Returns the rate at which bands begin if `found` was found earlier; at least the minimum rate of a tree.
fn begun(found: Rate, open: Rate) -> Rate {
    let least = Rate::from_bits_per_s(tree::RATE_MIN_BITS_PER_S).unwrap_or(open);
    found.permille(KNOWN_PERMILLE).max(least).min(open)
}

fn has_tree(interface: &Interface) -> bool {
    matches!(tree::find(interface), Ok(Some(_)))
}

/// The rate found earlier on the line, identified by the interface and its gateway, and the folder where it is stored.
pub struct Kept {
    keeper: Result<Keeper, (PathBuf, std::io::Error)>,
    interface: Interface,
    pub line: Option<KeptLine>,
}

impl Kept {
    pub fn open(interface: &Interface) -> Kept {
        let folder =
            crate::serve::state_folder::of_program(FOLDER).unwrap_or_else(|| Path::new("/var/lib").join(FOLDER));
        Kept::open_in(folder, interface)
    }

    fn open_in(folder: PathBuf, interface: &Interface) -> Kept {
        let keeper = Keeper::open(&folder, None).map_err(|error| (folder, error));
        let place = place(interface);
        let lines = keeper.as_ref().map_or(&[][..], |keeper| keeper.lines());
        let line = lines.iter().find(|line| line.place == place && line.age().is_some()).cloned();
        Kept { keeper, interface: interface.clone(), line }
    }

    /// Stores a rate that was confirmed `age` ago, for the current gateway, which may appear only some time after the
    /// machine's start. Returns the reason if it cannot.
    pub fn keep(&self, rate: Rate, age: Duration) -> Result<(), String> {
        match &self.keeper {
            Ok(keeper) => {
                keeper.keep(&place(&self.interface), rate, age).map_err(|error| server::unkept(keeper.path(), &error))
            }
            Err((folder, error)) => Err(server::unkept(folder, error)),
        }
    }
}

fn place(interface: &Interface) -> String {
    let gateway = interface.gateway().ok().flatten().map_or("-".to_string(), |gateway| gateway.to_string());
    format!("{} {gateway}", interface.name)
}

#[cfg(test)]
#[allow(dead_code, reason = "the clients' end is for other tests")]
#[path = "../../tests/serve/common/cable.rs"]
mod cable;

#[cfg(test)]
mod tests {
    use super::cable::{Cable, ip};
    use super::*;

    /// As at the start of a machine, where the route comes after the interface.
    #[test]
    fn a_rate_is_kept_for_the_gateway_of_the_moment() {
        let Some(cable) = Cable::lay() else { return };
        let folder = std::env::temp_dir().join(format!("weir-kept-{}", std::process::id()));
        cable.at_server(|| {
            let uplink = Interface::by_name("uplink").unwrap();
            let kept = Kept::open_in(folder.clone(), &uplink);
            ip("route add default via 198.18.60.2");
            kept.keep("9mbit".parse().unwrap(), Duration::ZERO).unwrap();
            assert!(Kept::open_in(folder.clone(), &uplink).line.is_some());
        });
        let text = std::fs::read_to_string(folder.join("uplink")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(text.contains("\nuplink 198.18.60.2 9000000 "), "{text}");
    }

    #[test]
    fn a_kept_rate_is_one_that_bands_may_have() {
        let begun = |found: &str| begun(found.parse().unwrap(), "1gbit".parse().unwrap()).to_string();
        assert_eq!(["1bit", "10mbit", "900gbit"].map(begun), ["12kbit", "9mbit", "1gbit"]);
    }

    #[test]
    fn a_rate_is_told_or_found() {
        assert_eq!("auto".parse(), Ok(AttachRate::Auto));
        assert_eq!("9500kbit".parse(), Ok(AttachRate::Told("9500kbit".parse().unwrap())));
        let said = "9".parse::<AttachRate>().unwrap_err();
        assert!(said.ends_with(", or auto"), "{said}");
    }
}
