//! `weir attach`: orders the responses of a running server by size, without changing the server.

pub mod apply;
mod classes;
pub mod figures;
mod follow;
mod prometheus;
mod rate;
mod saved;
mod show;
mod trial;
mod wake;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::uplink::classify::{self, Classify, ClientBy, Clients, Cuts, Hook, Policy, Settings};
use ::uplink::follow as line;
use ::uplink::tree::{self, Overhead, Tree};
use ::uplink::{Error, Interface};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cli::Failure;
use config::ClientPrefix;
use serde_json::json;
use server::ClientShareSpec;
use units::Rate;

use crate::uplink::{OVERHEAD_HELP, OverheadName};
use prometheus::Format;
use rate::{AttachRate, Wish};
use saved::File;
pub use show::{is_open, rate_of, rate_said, said};

/// The default ports of a server.
const PORTS: [u16; 2] = [80, 443];
/// The flags for attaching, which have no meaning with `--list` and `--detach`.
const ATTACH_FLAGS: [&str; 16] = [
    "interface",
    "ports",
    "uploads",
    "rate",
    "overhead",
    "policy",
    "cuts",
    "client_share",
    "client_prefix",
    "client_by",
    "replace",
    "no_watch",
    "trial",
    "dry_run",
    "prometheus",
    "openmetrics",
];
const AFTER_HELP: &str = "\
Examples:
  weir attach eth0
  weir attach eth0 --port 80,443 --rate 9500kbit --save
  weir attach eth0 --rate 9500kbit --try 60s
  weir attach --list
  weir attach --list --prometheus=/var/lib/prometheus/node-exporter/weir.prom
  weir attach --detach eth0

Without a rate it stays and follows the line; ctrl-c ends that, and the order stays. With
--save it returns, and weir-attach@eth0.service follows. An attach again keeps what it is not
told. Needs root or CAP_SYS_ADMIN,
CAP_NET_ADMIN and a writable /run/weir; `weir uplink doctor eth0` lists the missing pieces.";

#[derive(Debug, Default, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Interface that the responses leave through, for example eth0
    #[arg(required_unless_present_any = ["list", "detach"])]
    interface: Option<String>,
    /// Ports of the server [default: 80,443]
    #[arg(long = "port", value_name = "PORT,...", value_parser = ports)]
    ports: Option<Ports>,
    /// Also order what goes to these ports, on a router the uploads of the hosts behind it
    /// [default: off]
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        value_parser = on_or_off,
        verbatim_doc_comment
    )]
    uploads: Option<bool>,
    /// Rate of the uplink, for example 10mbit or 1gbit; auto finds and follows it
    /// [default: the rate that the bands were given, else auto]
    #[arg(long, value_name = "RATE", verbatim_doc_comment)]
    rate: Option<AttachRate>,
    #[arg(long, value_name = "LINE", value_enum, help = OVERHEAD_HELP, verbatim_doc_comment, hide_possible_values = true)]
    overhead: Option<OverheadName>,
    /// Order of responses: las (fewest bytes sent first), psjf (smallest), srpt (fewest bytes
    /// left), srrt (least time left) [default: psjf]
    #[arg(long, value_name = "NAME", value_parser = policies(), verbatim_doc_comment, hide_possible_values = true)]
    policy: Option<Policy>,
    /// Largest size in each band but the last, for example 4KiB,64KiB (srrt: microseconds), or
    /// `learned` from the responses seen so far [default: sizes for any site]
    #[arg(long, value_name = "SIZE,...", value_parser = cuts, verbatim_doc_comment)]
    cuts: Option<ToldCuts>,
    /// Sharing between clients: one far ahead of its share waits for the others;
    /// on, off, strict, or how far ahead, for example 20MB [default: on]
    #[arg(long, value_name = "SHARE", verbatim_doc_comment)]
    client_share: Option<ClientShareSpec>,
    /// Number of leading bits of an IPv4 and of an IPv6 address that identify a client
    /// [default: 32,56]
    #[arg(long, value_name = "V4,V6", verbatim_doc_comment)]
    client_prefix: Option<ClientPrefix>,
    /// Identity of a client: its address; mark, that of its packets; or proxy, the source in the
    /// PROXY header of its connection. Without mark or header, the address [default: address]
    #[arg(long, value_name = "WHAT", value_parser = client_bys(), verbatim_doc_comment, hide_possible_values = true)]
    client_by: Option<ClientBy>,
    /// Replace a queueing discipline that weir did not make; --detach restores it
    #[arg(long)]
    replace: bool,
    /// Do not watch after the attach, for up to nine seconds, whether responses are ordered, and
    /// do not stay to follow the line
    #[arg(long, verbatim_doc_comment)]
    no_watch: bool,
    /// Measure for this time, such as 60s, whether the order helps, and leave the interface as
    /// it was
    #[arg(
        long = "try",
        value_name = "TIME",
        value_parser = units::parse_duration,
        conflicts_with_all = ["save", "dry_run", "no_watch"],
        verbatim_doc_comment
    )]
    trial: Option<Duration>,
    /// Also write the attach to a file from which `weir apply` makes it again; with --detach,
    /// remove it there [default: /etc/weir/attach.toml]
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = saved::FILE,
        conflicts_with = "dry_run",
        verbatim_doc_comment
    )]
    save: Option<PathBuf>,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// List attached classifiers with their counters
    #[arg(long, conflicts_with_all = listed_without())]
    list: bool,
    /// With --list, print the counters in the text format of Prometheus, or write them to a
    /// file, for the textfile collector of node_exporter
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        requires = "list",
        conflicts_with_all = ["interface", "json"],
        verbatim_doc_comment
    )]
    prometheus: Option<Option<PathBuf>>,
    /// The same as OpenMetrics 1.0
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        requires = "list",
        conflicts_with_all = ["interface", "json", "prometheus"]
    )]
    openmetrics: Option<Option<PathBuf>>,
    /// Remove the classifier from this interface, and the bands if it made them
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ATTACH_FLAGS)]
    detach: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The cut points given on the command line, and the first one that has a unit of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToldCuts {
    cuts: Cuts,
    in_bytes: Option<String>,
}

/// A list of ports as a type of its own, because clap treats a `Vec` as a repeated flag.
#[derive(Debug, Clone)]
struct Ports(Vec<u16>);

/// The flags that have no meaning with `--list`.
fn listed_without() -> impl Iterator<Item = &'static str> {
    ATTACH_FLAGS.into_iter().filter(|flag| !["prometheus", "openmetrics"].contains(flag)).chain(["save", "detach"])
}

pub fn main(args: Args) -> Result<(), Failure> {
    if args.list {
        return list(&args);
    }
    if let Some(name) = &args.detach {
        return detach(name, args.save.as_deref(), args.json);
    }
    let interface = Interface::by_name(args.interface.as_deref().unwrap_or_default())?;
    if let Some(time) = args.trial {
        return trial::main(&args, &interface, time);
    }
    let wish = Wish::of(args.rate, &interface)?;
    let wanted = wanted(&args, &interface, wish)?;
    let warn = || classify::warnings(&interface).iter().for_each(|said| eprintln!("weir: warning: {said}"));
    if args.dry_run {
        let preview = classify::preview(&interface, &wanted)?;
        warn();
        return show::preview(&interface, &preview, wish.is_followed(), args.json);
    }
    let file = args.save.as_deref().map(File::open).transpose()?;
    let attached = line::changing(&interface).and_then(|_changing| attach(&interface, &wanted, wish))?;
    warn();
    let tree = tree::find(&interface)?;
    match (&file, &tree) {
        (Some(file), Some(tree)) => save(file, &args, &attached, wish, tree)?,
        (Some(_), None) => return Err(without_bands(&interface.name)),
        (None, _) => warn_of_saved(&interface.name),
    }
    if let Some(tree) = &tree {
        crate::uplink::warn_of_prio(tree);
    }
    let watch = || if args.no_watch || wish.is_followed() { Ok(None) } else { classify::watch(&interface).map(Some) };
    show::attached(&interface, Hook::of_new(&interface)?, &attached, tree.as_ref(), args.json, watch)?;
    match wish.is_followed() {
        true => stay(&args, &interface),
        false => Ok(()),
    }
}

fn list(args: &Args) -> Result<(), Failure> {
    let (all, lost) = (figures::all()?, classify::lost()?);
    let (file, format) = match (&args.prometheus, &args.openmetrics) {
        (Some(file), _) => (file, Format::Prometheus),
        (None, Some(file)) => (file, Format::OpenMetrics),
        (None, None) => return show::list(&all, &lost, args.json),
    };
    let text = prometheus::text(&all, &lost, format);
    match file {
        None => crate::uplink::print(&text),
        Some(file) => prometheus::write(file, &text),
    }
}

/// Attaches the classifier, and records whether the rate is followed.
fn attach(interface: &Interface, wanted: &Classify, wish: Wish) -> Result<Settings, Error> {
    let is_marked = match wish {
        // A follower ends by this, before the rate is set; what would be refused ends none.
        Wish::Told(_) => {
            classify::preview(interface, wanted)?;
            line::forget(interface)?;
            false
        }
        Wish::AsIs => false,
        Wish::Follow(_) => {
            line::can_follow()?;
            line::mark(interface)?
        }
    };
    classify::attach(interface, wanted).inspect_err(|_| {
        if is_marked {
            // The first error is the one to report.
            let _ = line::forget(interface);
        }
    })
}

/// Follows the line, or prints which process already does.
fn stay(args: &Args, interface: &Interface) -> Result<(), Failure> {
    let name = &interface.name;
    if args.no_watch || args.save.is_some() {
        let who = match line::read(interface).and_then(|followed| followed.process) {
            Some(process) => format!("process {process} follows the line"),
            None if args.save.is_some() => format!("`systemctl enable --now weir-attach@{name}` follows the line"),
            None => format!("nobody follows the line: `weir attach {name}` does"),
        };
        eprintln!("weir: {name}: {who}");
        return Ok(());
    }
    match follow::Following::begin(interface)? {
        Ok(following) => follow::stay(interface, following, true, args.json),
        Err(process) => {
            eprintln!("weir: {name}: process {process} follows the line already");
            Ok(())
        }
    }
}

/// Writes the attach that was made to the file.
fn save(file: &File, args: &Args, attached: &Settings, wish: Wish, tree: &Tree) -> Result<(), Failure> {
    let name = &tree.interface.name;
    let replaces = args.replace || file.of(name).is_some_and(|saved| saved.args.replace);
    let rate = (!wish.is_followed()).then(|| wish.rate().unwrap_or(tree.plan.rate));
    let words = saved::words(attached, rate, tree::overhead(tree)?, replaces);
    file.put(name, Some(&words)).map_err(|failure| {
        let said = failure.into_text();
        Failure::Failed(format!("{name} is attached, but not saved: {said}; weir attach --detach {name} removes it"))
    })
}

/// Returns the failure of an attach whose bands disappeared before it was saved.
fn without_bands(name: &str) -> Failure {
    let said = "lost its bands while it was attached, and is not saved: another program replaces its queue";
    Failure::Failed(format!("{name} {said}; see `weir uplink doctor {name}`"))
}

/// Prints a warning if `weir apply` would undo an attach that is not saved.
fn warn_of_saved(name: &str) {
    if is_saved(name) {
        let file = saved::FILE;
        eprintln!("weir: warning: `weir apply` makes {name} as {file} says; --save writes this attach there");
    }
}

/// Returns whether `weir apply` attaches to this interface.
fn is_saved(name: &str) -> bool {
    File::open(Path::new(saved::FILE)).is_ok_and(|file| file.of(name).is_some())
}

fn detach(name: &str, save: Option<&Path>, json: bool) -> Result<(), Failure> {
    let file = save.map(File::open).transpose()?;
    let saved = file.as_ref().filter(|file| file.of(name).is_some());
    let interface = match Interface::by_name(name) {
        // A table may outlast its interface.
        Err(Error::Refused(_)) if saved.is_some() => None,
        interface => Some(interface?),
    };
    // Until the end, so that `weir apply` attaches nothing between the two, and a follower nothing after them.
    let _changing = interface.as_ref().map(line::changing).transpose()?;
    saved.map_or(Ok(()), |file| file.put(name, None))?;
    let unrecorded = interface.as_ref().map(classify::Unrecorded::of).transpose()?.unwrap_or_default();
    let was_attached = interface.as_ref().map_or(Ok(false), classify::detach).map_err(|error| match saved {
        Some(_) => Failure::Failed(format!(
            "{name} is not saved any more, but stays attached: {error}; run `weir attach --detach {name}` again"
        )),
        None => error.into(),
    })?;
    if !was_attached && saved.is_none() {
        return Err(unattached(name, interface.as_ref()));
    }
    for said in interface.iter().flat_map(|interface| unrecorded.said(interface)) {
        eprintln!("weir: warning: {said}");
    }
    if save.is_none() && is_saved(name) {
        eprintln!("weir: warning: {name} stays in {}: weir attach --detach {name} --save removes it", saved::FILE);
    }
    match json {
        true => crate::uplink::print(&format!("{}\n", json!({ "interface": name, "detached": was_attached }))),
        false => crate::uplink::print(&format!("weir: {name}: detached\n")),
    }
}

/// Returns the failure of a detach where nothing is attached. An interrupted attach may have left its bands.
fn unattached(name: &str, interface: Option<&Interface>) -> Failure {
    let has_bands = interface.is_some_and(|interface| !matches!(tree::find(interface), Ok(None)));
    let cure = match has_bands {
        true => format!("but bands: run `weir uplink down {name}` to remove them"),
        false => "run `weir attach --list`".to_string(),
    };
    Failure::Failed(format!("{name} has no classifier of weir{} {cure}", if has_bands { "," } else { ";" }))
}

/// Describes on one line the effect that attaching would have.
pub fn would(interface: &Interface, rate: Option<Rate>, replace: bool) -> Result<String, Error> {
    let args = Args { rate: rate.map(AttachRate::Told), replace, ..Args::default() };
    let wish = Wish::of(args.rate, interface)?;
    let preview = classify::preview(interface, &wanted(&args, interface, wish)?)?;
    let warnings = classify::warnings(interface).into_iter();
    Ok(warnings.fold(show::would(&preview, wish.is_followed()), |text, warning| format!("{text}; warning: {warning}")))
}

/// Returns the settings to attach with. Settings without a flag are taken from an earlier attach.
fn wanted(args: &Args, interface: &Interface, wish: Wish) -> Result<Classify, Error> {
    let earlier = classify::find(interface)?.and_then(|attached| attached.settings);
    let wanted = wanted_by(args, earlier.as_ref(), wish);
    check_cuts(args, wanted.policy).map_err(Error::Refused)?;
    Ok(wanted)
}

/// Refuses sizes as cut points if the policy orders by time.
fn check_cuts(args: &Args, policy: Policy) -> Result<(), String> {
    match args.cuts.as_ref().and_then(|told| told.in_bytes.as_ref()) {
        Some(size) if policy == Policy::Srrt => {
            Err(format!("--cuts {size}: srrt goes by microseconds: write numbers without a unit, such as 20000,100000"))
        }
        _ => Ok(()),
    }
}

fn wanted_by(args: &Args, earlier: Option<&Settings>, wish: Wish) -> Classify {
    // Bands by remaining size gain nothing, since packets of a connection must keep their order.
    let policy = args.policy.or(earlier.map(|earlier| earlier.policy)).unwrap_or(Policy::Psjf);
    // Cut points of another policy may have another unit.
    let earlier_cuts = earlier.filter(|earlier| earlier.policy == policy).map(|earlier| earlier.wanted_cuts());
    let ports = args.ports.as_ref().map(|ports| ports.0.clone());
    Classify {
        ports: ports.or_else(|| earlier.map(|earlier| earlier.ports.clone())).unwrap_or(PORTS.to_vec()),
        has_uploads: args.uploads.or(earlier.map(|earlier| earlier.has_uploads)).unwrap_or(false),
        policy,
        cuts: args.cuts.as_ref().map(|told| told.cuts.clone()).or(earlier_cuts).unwrap_or(Cuts::Usual),
        rate: wish.rate(),
        is_followed: wish.is_followed(),
        overhead: args.overhead.map(Overhead::from),
        clients: clients(args, earlier),
        classes: earlier.map(|earlier| earlier.classes.clone()).unwrap_or_default(),
        replace: args.replace,
    }
}

fn clients(args: &Args, earlier: Option<&Settings>) -> Option<Clients> {
    let before = earlier.and_then(Settings::clients);
    let usual = if earlier.is_some() { ClientShareSpec::Off } else { ClientShareSpec::On };
    let share = args.client_share.unwrap_or(before.map_or(usual, |before| before.share));
    let bits = args.client_prefix.map(ClientPrefix::bits);
    let bits = bits.or(before.map(|before| [before.v4_bits, before.v6_bits]));
    let [v4_bits, v6_bits] = bits.unwrap_or(ClientPrefix::default().bits());
    let by = args.client_by.or(before.map(|before| before.by)).unwrap_or_default();
    Some(Clients { share, v4_bits, v6_bits, by })
}

fn policies() -> impl TypedValueParser<Value = Policy> {
    let of_name = |name: String| Policy::ALL.into_iter().find(|policy| policy.name() == name);
    PossibleValuesParser::new(Policy::ALL.map(Policy::name)).map(move |name| of_name(name).expect("one of the names"))
}

fn client_bys() -> impl TypedValueParser<Value = ClientBy> {
    let of_name = |name: String| ClientBy::ALL.into_iter().find(|by| by.name() == name);
    PossibleValuesParser::new(ClientBy::ALL.map(ClientBy::name))
        .map(move |name| of_name(name).expect("one of the names"))
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_string()),
    }
}

fn ports(text: &str) -> Result<Ports, String> {
    let port = |word: &str| word.trim().parse().ok().filter(|port| *port != 0);
    let ports: Option<Vec<u16>> = text.split(',').map(port).collect();
    ports.map(Ports).ok_or_else(|| "expected ports from 1 to 65535 separated by commas, for example 80,443".to_string())
}

fn cuts(text: &str) -> Result<ToldCuts, String> {
    if text == "learned" {
        return Ok(ToldCuts { cuts: Cuts::Learned, in_bytes: None });
    }
    let has_unit = |word: &&str| word.contains(|letter: char| letter.is_ascii_alphabetic());
    let in_bytes = text.split(',').map(str::trim).find(has_unit).map(str::to_string);
    let sizes: Result<Vec<u64>, _> = text.split(',').map(|word| units::parse_size(word.trim())).collect();
    let sizes = sizes.map_err(|error| error.to_string())?;
    if !sizes.is_sorted_by(|one, next| one < next) {
        return Err("expected increasing sizes, for example 4KiB,64KiB,1MiB".to_string());
    }
    Ok(ToldCuts { cuts: Cuts::Given(sizes), in_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_wrong_ones_refused() {
        assert_eq!(ports("80, 443").unwrap().0, [80, 443]);
        for wrong in ["", "80,", "0", "65536", "http"] {
            assert!(ports(wrong).is_err_and(|said| said.contains("80,443")), "{wrong}");
        }
        let given = |text: &str| cuts(text).map(|told| (told.cuts, told.in_bytes));
        assert_eq!(given("4KiB,1MB"), Ok((Cuts::Given(vec![4096, 1_000_000]), Some("4KiB".into()))));
        assert_eq!(given("500, 2000"), Ok((Cuts::Given(vec![500, 2000]), None)));
        assert_eq!(given("learned"), Ok((Cuts::Learned, None)));
        for wrong in ["", "1,1", "2,1", "x"] {
            assert!(cuts(wrong).is_err(), "{wrong}");
        }
    }
}
