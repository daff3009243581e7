//! Attached classifiers, for people and for programs.

use ::uplink::classify::{self, Attached, ClientBy, Counters, Hook, Lost, Preview, Settings, Share, Verdict};
use ::uplink::follow::{self, Followed};
use ::uplink::tree::{self, Plan, Tree};
use ::uplink::{Counted, Error, Interface};
use cli::Failure;
use serde_json::{Map, Value, json};
use units::Rate;

use super::figures::Figures;
use super::trial::Gain;

/// Prints what was attached and the result of watching it: as text in two steps, or as JSON at the end.
pub fn attached(
    interface: &Interface,
    place: Hook,
    settings: &Settings,
    tree: Option<&Tree>,
    json: bool,
    watch: impl FnOnce() -> Result<Option<Verdict>, Error>,
) -> Result<(), Failure> {
    let (name, plan) = (&interface.name, tree.map(|tree| &tree.plan));
    if json {
        let mut object = described(interface, place, settings);
        object.insert("tree".into(), plan.map_or(Value::Null, described_tree));
        judge(&mut object, name, settings, watch()?);
        return crate::uplink::print(&format!("{}\n", Value::Object(object)));
    }
    let followed = follow::read(interface);
    let is_open = is_open(interface, plan);
    let tree = plan.map_or("no tree".to_string(), heading);
    let searched = followed.and_then(|followed| Some((follow::open_rate(interface).ok()?, followed.status.rate)));
    let at = plan.map_or(String::new(), |plan| at(plan, searched));
    let outcome = outcome(name, settings, &at);
    crate::uplink::print(&format!("{outcome}weir: {name}: {}; {tree}\n", said(place, settings, is_open)))?;
    match watch()? {
        Some(verdict) if verdict.is_bad() => {
            eprintln!("weir: warning: {name}: {}", verdict.said(name, settings).unwrap_or_default());
            Ok(())
        }
        Some(verdict) => match verdict.said(name, settings) {
            Some(said) => crate::uplink::print(&format!("weir: {name}: {said}\n")),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Returns a line that states what the classifier does and how to remove it.
fn outcome(name: &str, settings: &Settings, at: &str) -> String {
    let ports: Vec<String> = settings.ports.iter().map(u16::to_string).collect();
    let (port, ports) = (if ports.len() == 1 { "port" } else { "ports" }, ports.join(", "));
    format!(
        "weir: attached to {name}: small responses from {port} {ports} leave first{at}; undo: weir attach --detach {name}\n"
    )
}

/// Describes the rate of the bands. `searched` is present if the line is followed: the rate of open bands, and the rate
/// found.
fn at(plan: &Plan, searched: Option<(Rate, Option<Rate>)>) -> String {
    let rate = server::mbit(plan.rate);
    match searched {
        Some((open, _)) if plan.rate >= open => {
            " once the line's rate is found: the bands are open until then".to_string()
        }
        Some((_, None)) => format!(" at {rate} until the line's rate is found"),
        Some((_, Some(found))) => format!(" at {rate}, which follows the {} of the line", server::mbit(found)),
        None => format!(" at {}", plan.rate),
    }
}

fn judge(object: &mut Map<String, Value>, name: &str, settings: &Settings, verdict: Option<Verdict>) {
    object.insert("verdict".into(), verdict.map(Verdict::name).into());
    object.insert("verdict_said".into(), verdict.and_then(|verdict| verdict.said(name, settings)).into());
}

pub fn preview(interface: &Interface, preview: &Preview, is_followed: bool, json: bool) -> Result<(), Failure> {
    if json {
        let mut object = described(interface, preview.place, &preview.settings);
        object.insert("tree".into(), described_tree(&preview.tree));
        object.insert("replaces_classifier".into(), preview.is_again.into());
        object.insert("dry_run".into(), true.into());
        object.insert("finds_the_rate".into(), is_followed.into());
        return crate::uplink::print(&format!("{}\n", Value::Object(object)));
    }
    crate::uplink::print(&format!("weir: {}: {}\n", interface.name, would(preview, is_followed)))
}

pub fn would(preview: &Preview, is_followed: bool) -> String {
    let verb = if preview.is_again { "would replace the classifier by" } else { "would attach" };
    let then = if is_followed { "; the rate of the line would be found and followed" } else { "" };
    format!("{verb} {}; {}{then}", said(preview.place, &preview.settings, is_followed), heading(&preview.tree))
}

/// Lists the attached classifiers, and the interfaces that have lost theirs.
pub fn list(all: &[Figures], lost: &[Lost], json: bool) -> Result<(), Failure> {
    if json {
        let lost = lost.iter().map(|lost| json!({ "interface": lost.interface.name, "missing": lost.what }));
        let all: Vec<Value> = all.iter().map(listed).chain(lost).collect();
        return crate::uplink::print(&format!("{}\n", Value::Array(all)));
    }
    if all.is_empty() && lost.is_empty() {
        return crate::uplink::print("weir: nothing is attached\n");
    }
    let lost = lost.iter().map(|lost| format!("{}: {}\n", lost.interface.name, lost.what));
    crate::uplink::print(&all.iter().map(table).chain(lost).collect::<String>())
}

fn table(of: &Figures) -> String {
    let Figures { attached, tree, .. } = of;
    let name = of.name();
    let Some(settings) = &attached.settings else {
        return format!(
            "{name}: a classifier of another version of weir; run `weir attach {name} ...` or `weir attach --detach {name}`\n"
        );
    };
    let is_open = is_open(&attached.interface, tree.as_ref().map(|tree| &tree.plan));
    let mut text = format!("{name}: {}\n", said(attached.place, settings, is_open));
    if let Some(missing) = attached.missing() {
        text += &format!("{name}: {missing}\n");
    } else if let Some(said) = looked_at(attached).and_then(|verdict| said_of(verdict, attached, settings)) {
        text += &format!("{name}: {said}\n");
    }
    text += &format!("{name}: {}\n", rate_of(of));
    if let Some(gain) = &of.gain {
        text += &format!("{name}: {}\n", gain.said());
    }
    if let Some(said) = tree.as_ref().and_then(|tree| tree.plan.framing.said()) {
        text += &format!("{name}: against the rate count {said}\n");
    }
    let head = ["what", "packets", "bytes", "waiting", "lost"];
    text += &format!("{:>5} {:>24} {:>12} {:>16} {:>8} {:>8}\n", "band", head[0], head[1], head[2], head[3], head[4]);
    for (band, held, Counted { packets, bytes, drops, backlog_packets, .. }) in of.held() {
        let what = held.said(settings.policy);
        text += &format!("{band:>5} {what:>24} {packets:>12} {bytes:>16} {backlog_packets:>8} {drops:>8}\n");
    }
    text += &super::classes::listed(&settings.classes, &of.classes);
    text += &totals(settings, &attached.counters);
    // There are no counts unless the sysctl kernel.bpf_stats_enabled is 1.
    if let Some(ns) = attached.facts.run_time_ns.checked_div(attached.facts.runs) {
        text += &format!("{ns} ns per packet over {} packets\n", attached.facts.runs);
    }
    text
}

/// Formats the counters that do not belong to a band.
fn totals(settings: &Settings, counters: &Counters) -> String {
    let mut text = format!(
        "responses {}, sizes read {}, unknown {}; promotions {}, held back {}; no storage {}\n",
        counters.responses,
        counters.sizes_read,
        counters.sizes_unknown,
        counters.promotions,
        counters.held_back,
        counters.no_storage,
    );
    if counters.by_flow > 0 {
        text += &format!(
            "packets ordered by flow {} (without a TCP socket here), {} forwarded among them\n",
            counters.by_flow, counters.forwarded
        );
    }
    if settings.share.is_some() {
        text += &format!("packets of clients ahead of their share {}\n", counters.behind);
    }
    text
}

/// Describes the problem that was seen, with its remedy. While the rate is searched, a missing queue is not a problem.
fn said_of(verdict: Verdict, attached: &Attached, settings: &Settings) -> Option<String> {
    let is_searched = || follow::read(&attached.interface).is_some_and(|followed| followed.process.is_some());
    match verdict {
        Verdict::NoQueue(_) | Verdict::Elsewhere { .. } if is_searched() => None,
        verdict => verdict.said(&attached.interface.name, settings),
    }
}

/// Describes the origin of the rate and the process that follows it.
pub fn rate_said(interface: &Interface) -> String {
    let tree = || tree::find(interface).ok().flatten();
    rate_in_words(&interface.name, follow::read(interface), tree)
}

/// Describes the same for figures that were read earlier.
pub fn rate_of(of: &Figures) -> String {
    rate_in_words(of.name(), of.line.clone(), || of.tree.clone())
}

fn rate_in_words(name: &str, line: Option<Followed>, tree: impl FnOnce() -> Option<Tree>) -> String {
    let Some(Followed { status, process }) = line else {
        return match tree() {
            Some(tree) => format!("rate {}, as given", tree.plan.rate),
            None => "no rate: the bands are gone".to_string(),
        };
    };
    let who = match process {
        Some(process) => format!("followed by process {process}"),
        None => format!("no process follows the line: `weir attach {name}` goes on"),
    };
    format!("{}; {who}", server::Line::Found(status))
}

/// Checks an attached classifier; `None` if it disappears meanwhile.
fn looked_at(attached: &Attached) -> Option<Verdict> {
    classify::look(&attached.interface).ok()
}

/// Returns whether the line's rate is being searched and the bands are open because none has been found.
pub fn is_open(interface: &Interface, plan: Option<&Plan>) -> bool {
    let is_at = |plan: &Plan| follow::open_rate(interface).is_ok_and(|open| plan.rate >= open);
    follow::read(interface).is_some() && plan.is_some_and(is_at)
}

/// Describes the order on one line. While the bands are open, a client's allowance does not depend on the line's rate
/// and is left out.
pub fn said(place: Hook, settings: &Settings, is_open: bool) -> String {
    let ports: Vec<String> = settings.ports.iter().map(u16::to_string).collect();
    let policy = settings.policy.name();
    let share = shared(settings.share, is_open);
    let place = match place {
        Hook::Tcx => "at TCX",
        Hook::Clsact => "at clsact",
    };
    let classes = match settings.classes.all.len() {
        0 => String::new(),
        count => format!("; {count} classes"),
    };
    let uploads = if settings.has_uploads { " and uploads to it" } else { "" };
    format!("{policy} into bands for port {}{uploads}, {place}{share}{classes}", ports.join(","))
}

fn shared(share: Option<Share>, is_open: bool) -> String {
    match share {
        None => "; each response for itself".to_string(),
        Some(share) if is_open => by(share).map_or(String::new(), |by| format!("; clients{by}")),
        Some(share) => {
            let megabytes = share.allowance_bytes as f64 / 1e6;
            let by = by(share).unwrap_or_default();
            format!("; a client{by} {megabytes:.1} MB ahead of its share stands behind the others")
        }
    }
}

/// Describes the property that identifies a client, unless it is the address.
fn by(share: Share) -> Option<String> {
    (share.client_by != ClientBy::Address).then(|| format!(" (by {})", share.client_by.name()))
}

fn heading(plan: &Plan) -> String {
    let shares = crate::uplink::shares(plan).map_or(String::new(), |shares| format!(", {shares}"));
    format!("{} at {}{}{shares}", plan.kind.name(), plan.rate, crate::uplink::added(plan))
}

fn described_tree(plan: &Plan) -> Value {
    json!({ "kind": plan.kind.name(), "rate_bits_per_s": plan.rate.bits_per_s(), "overhead_bytes": plan.framing.overhead_bytes, "band_count": plan.bands })
}

fn described(interface: &Interface, place: Hook, settings: &Settings) -> Map<String, Value> {
    let Value::Object(object) = json!({
        "interface": interface.name,
        "place": place.name(),
        "policy": settings.policy.name(),
        "ports": settings.ports,
        "uploads": settings.has_uploads,
        "cuts": settings.cuts,
        "client_allowance_bytes": settings.share.map(|share| share.allowance_bytes),
        "client_prefix": settings.share.map(|share| [share.v4_bits, share.v6_bits]),
        "client_by": settings.share.map(|share| share.client_by.name()),
        "cuts_unit": settings.policy.unit(),
        "made_tree": settings.made_tree,
        "made_clsact": settings.made_clsact,
    }) else {
        unreachable!("written as an object")
    };
    object
}

fn listed(of: &Figures) -> Value {
    let Figures { attached, line, .. } = of;
    let (counters, facts) = (&attached.counters, &attached.facts);
    let mut object = match &attached.settings {
        Some(settings) => {
            let mut object = described(&attached.interface, attached.place, settings);
            object.insert("classes".into(), super::classes::described(&settings.classes, &of.classes).into());
            judge(&mut object, of.name(), settings, looked_at(attached));
            object
        }
        None => Map::from_iter([("interface".to_string(), of.name().into())]),
    };
    object.insert("bands".into(), crate::uplink::bands_as_json(&of.bands, cuts(attached)).into());
    let line = line.as_ref().map(|followed| super::follow::described(&followed.status, followed.process));
    object.insert("line".into(), line.into());
    object.insert("gain".into(), of.gain.as_ref().map(Gain::described).into());
    object.insert("missing".into(), attached.missing().into());
    object.insert("ordered_packets".into(), of.ordered_packets().into());
    object.insert("responses".into(), counters.responses.into());
    object.insert("sizes_read".into(), counters.sizes_read.into());
    object.insert("sizes_unknown".into(), counters.sizes_unknown.into());
    object.insert("promotions".into(), counters.promotions.into());
    object.insert("held_back".into(), counters.held_back.into());
    object.insert("no_storage".into(), counters.no_storage.into());
    object.insert("by_flow".into(), counters.by_flow.into());
    object.insert("forwarded".into(), counters.forwarded.into());
    object.insert("behind".into(), counters.behind.into());
    object.insert(
        "program".into(),
        json!({
            "id": facts.id,
            "instructions": facts.instructions,
            "verified_instructions": facts.verified_instructions,
            "runs": facts.runs,
            "run_time_ns": facts.run_time_ns,
        }),
    );
    Value::Object(object)
}

fn cuts(attached: &Attached) -> &[u64] {
    attached.settings.as_ref().map_or(&[], |settings| &settings.cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_found_is_not_awaited() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        let at = |searched| at(&Plan::new(tree::Kind::Htb, rate("9mbit")), searched);
        let open = rate("10gbit");
        assert_eq!(at(Some((open, None))), " at 9.00 Mbit/s until the line's rate is found");
        assert_eq!(
            at(Some((open, Some(rate("9500kbit"))))),
            " at 9.00 Mbit/s, which follows the 9.50 Mbit/s of the line"
        );
        assert!(at(Some((rate("9mbit"), None))).starts_with(" once the line's rate is found"));
        assert_eq!(at(None), " at 9mbit");
    }

    /// It named 3000 MB, the allowance at 10 Gbit/s.
    #[test]
    fn the_allowance_of_no_rate_is_not_printed() {
        let share = Share {
            allowance_bytes: 3_000_000_000,
            link_bytes_per_s: 1_250_000_000,
            v4_bits: 32,
            v6_bits: 56,
            client_by: ClientBy::Address,
            behind_band: 5,
            behind_bands: 3,
        };
        assert_eq!(shared(Some(share), true), "");
        assert_eq!(shared(Some(share), false), "; a client 3000.0 MB ahead of its share stands behind the others");
        let share = Share { client_by: ClientBy::Mark, ..share };
        assert_eq!(shared(Some(share), true), "; clients (by mark)");
        assert!(shared(Some(share), false).starts_with("; a client (by mark) 3000.0 MB ahead"));
        assert_eq!([true, false].map(|is_open| shared(None, is_open)), ["; each response for itself"; 2]);
    }
}
