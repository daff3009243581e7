//! `weir attach`: size-aware order for a server that is already there and knows nothing of it.

mod show;

use ::uplink::classify::{self, Classify, Clients, Cuts, Policy, Promotion, Target};
use ::uplink::tree::{self, Kind};
use ::uplink::{Error, Interface};
use clap::ValueEnum;
use cli::Failure;
use serde_json::json;
use server::{ClientPrefix, ClientShareSpec};
use units::Rate;

const AFTER_HELP: &str = "\
Examples:
  weir attach eth0 --port 80,443 --rate 10mbit
  weir attach --list
  weir attach --detach eth0

Needs root or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; `weir uplink doctor` lists the missing pieces.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Interface that the responses leave through, for example eth0
    #[arg(required_unless_present_any = ["list", "detach"], conflicts_with_all = ["list", "detach"])]
    interface: Option<String>,
    /// Ports of the server
    #[arg(long = "port", value_name = "PORT,...", default_value = "80,443", value_parser = ports)]
    ports: Ports,
    /// Rate of the uplink, for example 10mbit or 1gbit
    /// [default: the rate of the bands made by `weir uplink up`]
    #[arg(long, value_name = "RATE", verbatim_doc_comment)]
    rate: Option<Rate>,
    /// Order of responses: las (fewest bytes sent first), psjf (smallest), srpt (fewest bytes
    /// left), srrt (least time left) [default: psjf into bands, srpt into ranked]
    #[arg(long, value_name = "NAME", value_enum, verbatim_doc_comment, hide_possible_values = true)]
    policy: Option<PolicyName>,
    /// Order by priority bands or by the ranked qdisc
    /// [default: what is on the interface, else bands]
    #[arg(long, value_name = "NAME", value_enum, verbatim_doc_comment)]
    into: Option<Into>,
    /// Largest size in each band but the last, for example 4KiB,64KiB (srrt: microseconds), or
    /// `learned` from the responses seen so far [default: sizes for any site]
    #[arg(long, value_name = "SIZE,...", value_parser = cuts, verbatim_doc_comment)]
    cuts: Option<Cuts>,
    /// When a connection moves to a better band: when-empty (none of its packets is queued)
    /// or plain (at once)
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "when-empty",
        verbatim_doc_comment,
        hide_possible_values = true
    )]
    promotion: PromotionName,
    /// Whether clients share the uplink: one that has had much more than its share stands
    /// behind the others; on, off, strict, or how much more, for example 20MB
    #[arg(long, value_name = "SHARE", default_value = "on", verbatim_doc_comment)]
    client_share: ClientShareSpec,
    /// Leading bits of an IPv4 and of an IPv6 address that are of one client
    #[arg(long, value_name = "V4,V6", default_value = "32,56")]
    client_prefix: ClientPrefix,
    /// Replace a queueing discipline that weir did not make; --detach restores it
    #[arg(long)]
    replace: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// List attached classifiers with their counters
    #[arg(long, conflicts_with = "detach")]
    list: bool,
    /// Remove the classifier from this interface, and the bands if it made them
    #[arg(long, value_name = "INTERFACE")]
    detach: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Las,
    Psjf,
    Srpt,
    Srrt,
}

#[derive(Clone, Copy, ValueEnum)]
enum Into {
    Bands,
    Ranked,
}

#[derive(Clone, Copy, ValueEnum)]
enum PromotionName {
    WhenEmpty,
    Plain,
}

/// One value for clap, which would take a plain list for several.
#[derive(Clone)]
struct Ports(Vec<u16>);

pub fn main(args: Args) -> Result<(), Failure> {
    if args.list {
        return show::list(&classify::list()?, args.json);
    }
    if let Some(name) = &args.detach {
        return detach(&Interface::by_name(name)?, args.json);
    }
    let interface = Interface::by_name(args.interface.as_deref().unwrap_or_default())?;
    let wanted = wanted(&args, &interface)?;
    if args.dry_run {
        return show::preview(&interface, &classify::preview(&interface, &wanted)?, args.json);
    }
    let attached = classify::attach(&interface, &wanted)?;
    let tree = tree::find(&interface)?;
    if let Some(tree) = &tree {
        crate::uplink::warn_of_prio(tree);
    }
    show::attached(&interface, &attached, tree.as_ref(), args.json)
}

fn detach(interface: &Interface, json: bool) -> Result<(), Failure> {
    let name = &interface.name;
    if !classify::detach(interface)? {
        return Err(Failure::Failed(format!("{name} has no classifier of weir; run `weir attach --list`")));
    }
    match json {
        true => crate::uplink::print(&format!("{}\n", json!({ "interface": name, "detached": true }))),
        false => crate::uplink::print(&format!("weir: {name}: detached\n")),
    }
}

fn wanted(args: &Args, interface: &Interface) -> Result<Classify, Error> {
    let target = args.into.map(|into| match into {
        Into::Bands => Target::Bands,
        Into::Ranked => Target::Ranked,
    });
    let is_ranked = || matches!(tree::find(interface), Ok(Some(tree)) if tree.plan.kind == Kind::Ranked);
    let policy = match args.policy {
        Some(PolicyName::Las) => Policy::Las,
        Some(PolicyName::Psjf) => Policy::Psjf,
        Some(PolicyName::Srpt) => Policy::Srpt,
        Some(PolicyName::Srrt) => Policy::Srrt,
        // What measured best: bands by remaining size gain nothing where a connection may not overtake itself.
        None if target.map_or_else(is_ranked, |target| target == Target::Ranked) => Policy::Srpt,
        None => Policy::Psjf,
    };
    let [v4_bits, v6_bits] = args.client_prefix.bits();
    Ok(Classify {
        ports: args.ports.0.clone(),
        policy,
        promotion: match args.promotion {
            PromotionName::WhenEmpty => Promotion::WhenEmpty,
            PromotionName::Plain => Promotion::Plain,
        },
        cuts: args.cuts.clone().unwrap_or(Cuts::Usual),
        target,
        rate: args.rate,
        clients: Some(Clients { share: args.client_share, v4_bits, v6_bits }),
        replace: args.replace,
    })
}

fn ports(text: &str) -> Result<Ports, String> {
    let port = |word: &str| word.trim().parse().ok().filter(|port| *port != 0);
    let ports: Option<Vec<u16>> = text.split(',').map(port).collect();
    ports.map(Ports).ok_or_else(|| "expected ports from 1 to 65535 separated by commas, for example 80,443".to_string())
}

fn cuts(text: &str) -> Result<Cuts, String> {
    if text == "learned" {
        return Ok(Cuts::Learned);
    }
    let sizes: Result<Vec<u64>, _> = text.split(',').map(|word| units::parse_size(word.trim())).collect();
    let sizes = sizes.map_err(|error| error.to_string())?;
    if !sizes.is_sorted_by(|one, next| one < next) {
        return Err("expected increasing sizes, for example 4KiB,64KiB,1MiB".to_string());
    }
    Ok(Cuts::Given(sizes))
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
        assert_eq!(cuts("4KiB,1MB"), Ok(Cuts::Given(vec![4096, 1_000_000])));
        assert_eq!(cuts("learned"), Ok(Cuts::Learned));
        for wrong in ["", "1,1", "2,1", "x"] {
            assert!(cuts(wrong).is_err(), "{wrong}");
        }
    }
}
