//! `weir uplink`: the tree of bands at an interface, made, removed and watched; and what this machine has for it.

mod doctor;
mod show;

use std::io::Write;

use ::uplink::tree::{self, Change, Kind, Plan, Tree};
use ::uplink::{Error, Interface};
use clap::{Subcommand, ValueEnum};
use cli::Failure;
use serde_json::{Value, json};
use units::Rate;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put the tree of bands at an interface; the same again changes nothing.
    Up(Up),
    /// Remove the tree and put back what it replaced.
    Down(Down),
    /// Print each band: packets, bytes, drops, and what waits.
    Show(show::Args),
    /// List what this machine offers for the kernel side and what each missing piece would need.
    Doctor(doctor::Args),
}

#[derive(clap::Args)]
struct Up {
    /// The interface, by name.
    interface: String,
    /// Rate of the uplink, as tc writes it (10mbit, 1gbit).
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Bands: one for control, one for what nobody classified, the others for responses; without it as many as there
    /// can be (prio 16, htb 8).
    #[arg(long, value_name = "N")]
    bands: Option<u8>,
    /// What orders the packets; without it prio where this kernel has it, else htb.
    #[arg(long, value_enum)]
    qdisc: Option<Qdisc>,
    #[arg(long, value_name = "N", help = format!("Packets that may wait in each band; without it {}", tree::PACKETS_PER_BAND))]
    packets: Option<u32>,
    /// Thousandths of the rate that each band of htb is guaranteed.
    #[arg(long, value_name = "PERMILLE", default_value_t = 0)]
    share: u16,
    /// Take the place of a queueing discipline that weir did not make; `weir uplink down` puts it back.
    #[arg(long)]
    replace: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Up {
    /// Does it say anything that only a tree of bands can have?
    fn is_of_bands(&self) -> bool {
        self.bands.is_some() || self.packets.is_some() || self.share > 0
    }
}

#[derive(clap::Args)]
struct Down {
    /// The interface, by name.
    interface: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Qdisc {
    Prio,
    Htb,
    Ranked,
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
    if matches!(args.qdisc, Some(Qdisc::Ranked)) && args.is_of_bands() {
        return Err(Failure::Usage("--bands, --packets and --share: ranked has no bands, leave them out".to_string()));
    }
    let interface = Interface::by_name(&args.interface)?;
    let (change, why) = make(&interface, args)?;
    let gone = || Failure::Failed(format!("the tree on {} was removed as soon as it was made", interface.name));
    let tree = tree::find(&interface)?.ok_or_else(gone)?;
    if args.json {
        let Value::Object(mut object) = described(&tree) else { unreachable!("a tree is an object") };
        object.insert("change".into(), said(change).into());
        object.insert("why".into(), why.into());
        return print(&format!("{}\n", Value::Object(object)));
    }
    print(&format!("weir: {}: {} ({}; {why})\n", interface.name, heading(&tree), said(change)))
}

/// Makes the tree, and says why of this kind.
fn make(interface: &Interface, args: &Up) -> Result<(Change, String), Error> {
    let up = |kind: Kind| tree::up(interface, &plan(args, kind), args.replace);
    // Who asks for bands and not for a kind gets as many of them as there can be here.
    let fewer = match args.bands {
        Some(bands) if bands > Kind::Htb.bands_max() => ", and has no more bands",
        _ => "",
    };
    let asked = args.qdisc.map(|qdisc| match qdisc {
        Qdisc::Prio => Kind::Prio,
        Qdisc::Htb => Kind::Htb,
        Qdisc::Ranked => Kind::Ranked,
    });
    if let Some(kind) = asked {
        return Ok((up(kind)?, "as asked for".to_string()));
    }
    // A guaranteed share is something only htb has.
    if args.share > 0 {
        return Ok((up(Kind::Htb)?, "htb for the guaranteed shares".to_string()));
    }
    // A tree that is not whole is made anew, of whatever kind.
    if let Ok(Some(tree)) = tree::find(interface)
        && !(tree.plan.kind == Kind::Ranked && args.is_of_bands())
    {
        let fewer = if tree.plan.kind == Kind::Htb { fewer } else { "" };
        return Ok((up(tree.plan.kind)?, format!("the kind that is there{fewer}")));
    }
    match up(Kind::Prio) {
        Ok(change) => Ok((change, "prio, the most bands".to_string())),
        Err(error) if error.is_missing() => Ok((up(Kind::Htb)?, format!("htb, as this kernel has no prio{fewer}"))),
        Err(error) => Err(error),
    }
}

fn plan(args: &Up, kind: Kind) -> Plan {
    let usual = Plan::new(kind, args.rate);
    let bands = args.bands.unwrap_or(usual.bands);
    // More than any kind has is a mistake wherever it is made.
    let is_clipped = args.qdisc.is_none() && args.share == 0 && bands <= Kind::Prio.bands_max();
    Plan {
        bands: if is_clipped { bands.min(usual.bands) } else { bands },
        packets_per_band: args.packets.unwrap_or(usual.packets_per_band),
        share_permille: args.share,
        ..usual
    }
}

fn down(args: &Down) -> Result<(), Failure> {
    let interface = Interface::by_name(&args.interface)?;
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

/// `8 bands of htb at 10mbit, ...`.
fn heading(tree: &Tree) -> String {
    let Plan { kind, rate, bands, packets_per_band, share_permille } = &tree.plan;
    if *kind == Kind::Ranked {
        return format!("ranked by flow at {rate}");
    }
    let kind = kind.name();
    format!("{bands} bands of {kind} at {rate}, {packets_per_band} packets each, {share_permille}/1000 guaranteed")
}

fn described(tree: &Tree) -> Value {
    json!({
        "interface": tree.interface.name,
        "kind": tree.plan.kind.name(),
        "rate_bits_per_s": tree.plan.rate.bits_per_s(),
        "band_count": tree.plan.bands,
        "packets_per_band": tree.plan.packets_per_band,
        "share_permille": tree.plan.share_permille,
    })
}

/// To standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|error| Failure::Failed(format!("cannot print: {error}"))),
    }
}
