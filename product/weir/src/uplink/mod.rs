//! `weir uplink`: creates, removes and shows the tree of bands at an interface, and lists the kernel features that it
//! uses.

mod doctor;
mod show;

use std::io::Write;

use ::uplink::tree::{self, Change, Kind, Overhead, Plan, Tree};
use ::uplink::{Error, Interface, follow};
use clap::{Subcommand, ValueEnum};
use cli::Failure;
use serde_json::{Value, json};
use units::{Rate, Share};

#[cfg(feature = "bpf")]
pub use show::bands_as_json;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir uplink up eth0 --rate 10mbit
  weir uplink show eth0 --watch
  weir uplink down eth0")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create priority bands on an interface; again with the same flags changes nothing
    Up(Up),
    /// Remove the bands and restore what they replaced
    Down(Down),
    /// Print each band: packets, bytes, drops, backlog
    Show(show::Args),
    /// List the kernel features that `uplink` and `attach` use, and the missing ones
    Doctor(doctor::Args),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weir uplink up eth0 --rate 10mbit

Give a rate a little below that of the line. Needs root or CAP_NET_ADMIN.")]
struct Up {
    /// Interface, for example eth0
    interface: String,
    /// Rate of the uplink, for example 10mbit or 1gbit
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    #[arg(long, value_name = "LINE", value_enum, help = OVERHEAD_HELP, verbatim_doc_comment, hide_possible_values = true)]
    overhead: Option<OverheadName>,
    /// Number of bands: one for control packets, one for other traffic, the rest for
    /// responses; at most 15 with htb, 16 with prio [default: the maximum]
    #[arg(long, value_name = "N", verbatim_doc_comment)]
    bands: Option<u8>,
    /// Queueing discipline: htb, or prio (no shares: one bulk transfer of other traffic
    /// stops every response) [default: what is there, else htb]
    #[arg(long, value_name = "NAME", value_enum, verbatim_doc_comment, hide_possible_values = true)]
    qdisc: Option<Qdisc>,
    #[arg(long, value_name = "N", help = format!("Maximum packets that wait in each band [default: {}]", tree::PACKETS_PER_BAND))]
    packets: Option<u32>,
    /// Guaranteed share of the rate for the control band and for each band of larger
    /// responses, and 25 times as much as for one of smaller; htb only [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = share, verbatim_doc_comment)]
    share: Option<Share>,
    /// Guaranteed share of the rate for other traffic (ssh, DNS, other ports), which also
    /// gets what responses leave; htb only [default: 20%]
    #[arg(long, value_name = "PERCENT", value_parser = other_share, verbatim_doc_comment)]
    other_share: Option<Share>,
    /// Replace a queueing discipline that weir did not make; `weir uplink down` restores it
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub const OVERHEAD_HELP: &str = "\
What the line adds to each packet, which then counts against the rate: ethernet, docsis
(cable), pppoe (VDSL, fibre), atm (ADSL) or none [default: none]";

/// [`tree::Overhead`] as a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OverheadName {
    None,
    Ethernet,
    Docsis,
    Pppoe,
    Atm,
}

impl From<OverheadName> for Overhead {
    fn from(name: OverheadName) -> Overhead {
        match name {
            OverheadName::None => Overhead::None,
            OverheadName::Ethernet => Overhead::Ethernet,
            OverheadName::Docsis => Overhead::Docsis,
            OverheadName::Pppoe => Overhead::Pppoe,
            OverheadName::Atm => Overhead::Atm,
        }
    }
}

fn share(text: &str) -> Result<Share, String> {
    text.parse().map_err(|_| "expected a percentage from 0% to 100%, for example 0.5%".to_string())
}

/// Parses a share above zero, because with a share of zero other traffic could stall.
fn other_share(text: &str) -> Result<Share, String> {
    let share = share(text).ok().filter(|share| share.permille() > 0);
    share.ok_or_else(|| "expected a percentage from 0.1% to 100%, for example 20%".to_string())
}

impl Up {
    fn has_shares(&self) -> bool {
        self.share.is_some() || self.other_share.is_some()
    }
}

#[derive(clap::Args)]
#[command(after_help = "Example: weir uplink down eth0")]
struct Down {
    /// Interface, for example eth0
    interface: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Qdisc {
    Prio,
    Htb,
}

pub fn main(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Up(args) => up(&args),
        Command::Down(args) => down(&args),
        Command::Show(args) => show::main(&args),
        Command::Doctor(args) => doctor::main(&args),
    }
}

fn up(args: &Up) -> Result<(), Failure> {
    let interface = Interface::by_name(&args.interface)?;
    let (change, why) = make(&interface, args)?;
    // A follower ends here, because the rate is configured.
    follow::forget(&interface)?;
    let gone = || Failure::Failed(format!("another program removed the tree on {}; run this again", interface.name));
    let tree = tree::find(&interface)?.ok_or_else(gone)?;
    warn_of_prio(&tree);
    if args.json {
        let Value::Object(mut object) = described(&tree) else { unreachable!("a tree is an object") };
        object.insert("change".into(), said(change).into());
        object.insert("why".into(), why.into());
        return print(&format!("{}\n", Value::Object(object)));
    }
    print(&format!("weir: {}: {} ({}; {why})\n", interface.name, heading(&tree), said(change)))
}

/// Creates the tree. Returns the change, and the reason for the kind of qdisc.
fn make(interface: &Interface, args: &Up) -> Result<(Change, String), Error> {
    let overhead = args.overhead.map_or(Overhead::None, Overhead::from);
    let framing = tree::framing(interface, overhead)?;
    let up = |kind: Kind| tree::up(interface, &Plan { framing, ..plan(args, kind) }, args.replace);
    let asked = args.qdisc.map(|qdisc| match qdisc {
        Qdisc::Prio => Kind::Prio,
        Qdisc::Htb => Kind::Htb,
    });
    if let Some(kind) = asked {
        return Ok((up(kind)?, "as requested".to_string()));
    }
    // An incomplete tree is made again, as htb.
    let there = tree::find(interface).ok().flatten().map(|tree| tree.plan.kind);
    let kind = match there {
        Some(Kind::Prio) if args.has_shares() => Kind::Htb,
        kind => kind.unwrap_or(Kind::Htb),
    };
    let why = if there == Some(kind) { "the kind in place" } else { "htb, which guarantees shares" };
    // Without a kind, `--bands 16` means the maximum.
    let has_fewer = kind == Kind::Htb && args.bands.is_some_and(|bands| bands > kind.bands_max());
    let fewer = if has_fewer { " and has no more bands" } else { "" };
    Ok((up(kind)?, format!("{why}{fewer}")))
}

fn plan(args: &Up, kind: Kind) -> Plan {
    let usual = Plan::new(kind, args.rate);
    let bands = args.bands.unwrap_or(usual.bands);
    // More bands than any kind supports are always a mistake.
    let is_clipped = args.qdisc.is_none() && bands <= Kind::Prio.bands_max();
    Plan {
        bands: if is_clipped { bands.min(usual.bands) } else { bands },
        packets_per_band: args.packets.unwrap_or(usual.packets_per_band),
        share_permille: args.share.map_or(usual.share_permille, Share::permille),
        other_share_permille: args.other_share.map_or(usual.other_share_permille, Share::permille),
        ..usual
    }
}

/// Warns on standard error of a tree of `prio`.
pub fn warn_of_prio(tree: &Tree) {
    if tree.plan.kind == Kind::Prio {
        let name = &tree.interface.name;
        eprintln!(
            "weir: warning: {name}: prio has no guaranteed shares: one bulk transfer of other traffic stops every response; \
             `weir uplink up {name} --rate {} --qdisc htb` guarantees them",
            tree.plan.rate
        );
    }
}

fn down(args: &Down) -> Result<(), Failure> {
    let interface = Interface::by_name(&args.interface)?;
    // This comes first, so that a follower does not find the bands gone.
    follow::forget(&interface)?;
    let removed = tree::down(&interface)?;
    let name = &interface.name;
    match (args.json, removed) {
        (true, _) => print(&format!("{}\n", json!({ "interface": name, "removed": removed }))),
        (false, true) => print(&format!("weir: {name}: removed\n")),
        (false, false) => print(&format!("weir: {name}: there was no tree\n")),
    }
}

fn said(change: Change) -> &'static str {
    match change {
        Change::Made => "made",
        Change::Rates => "rates changed",
        Change::Rebuilt => "made anew",
        Change::Nothing => "unchanged",
    }
}

/// Formats `15 bands of htb at 10mbit, ...`.
fn heading(tree: &Tree) -> String {
    let Plan { kind, rate, bands, packets_per_band, .. } = &tree.plan;
    let shares = shares(&tree.plan).map_or(String::new(), |shares| format!(", {shares}"));
    let rate = format!("{rate}{}", added(&tree.plan));
    format!("{bands} bands of {} at {rate}, {packets_per_band} packets each{shares}", kind.name())
}

/// Formats ` with 24 bytes more a packet`; empty if the line adds no bytes.
pub fn added(plan: &Plan) -> String {
    plan.framing.said().map_or(String::new(), |said| format!(" with {said}"))
}

/// Describes the guaranteed shares of the bands; `None` for a kind without shares.
pub fn shares(plan: &Plan) -> Option<String> {
    let percent = |permille: u16| f64::from(permille) / 10.0;
    let (each, other) = (percent(plan.share_permille), percent(plan.other_share_permille));
    (plan.kind == Kind::Htb)
        .then(|| format!("guaranteed {each} % for each band of larger responses and {other} % for other traffic"))
}

fn described(tree: &Tree) -> Value {
    json!({
        "interface": tree.interface.name,
        "kind": tree.plan.kind.name(),
        "rate_bits_per_s": tree.plan.rate.bits_per_s(),
        "overhead_bytes": tree.plan.framing.overhead_bytes,
        "packet_bytes_min": tree.plan.framing.least_bytes,
        "has_atm_cells": tree.plan.framing.is_atm,
        "band_count": tree.plan.bands,
        "packets_per_band": tree.plan.packets_per_band,
        "share_permille": tree.plan.share_permille,
        "other_share_permille": tree.plan.other_share_permille,
    })
}

/// Prints to standard output, whose reader may have closed the pipe.
pub fn print(text: &str) -> Result<(), Failure> {
    print_again(text).map(|_| ())
}

/// Prints to standard output. Returns false if the reader has closed the pipe, in which case repeated printing ends.
pub fn print_again(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        outcome => outcome.map(|()| true).map_err(|error| Failure::Failed(format!("cannot print: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help states the defaults as text.
    #[test]
    fn the_defaults_of_the_help_are_those_of_the_tree() {
        let parsed = [share("0.5%"), other_share("20%")].map(|share| share.unwrap().permille());
        assert_eq!(parsed, [tree::SHARE_PERMILLE, tree::OTHER_SHARE_PERMILLE]);
        assert!(share("5").is_err() && other_share("0%").is_err() && share("0%").is_ok());
    }
}
