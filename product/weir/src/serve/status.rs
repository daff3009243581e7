//! The answers to `weir status` and `weir status --routes`, each a JSON object.

use std::time::{SystemTime, UNIX_EPOCH};

use acme::HostStatus;
use serde_json::{Value, json};
use server::metrics::{Count, Labels, Metrics, SIZES, Times, protocol_name};
use server::{ClassStatus, Counts, Limit, Line, LineStatus, ObjectiveStatus, RouteStatus, STATUS_WAIT_MAX, Server};
use units::Nanos;

use super::gain_of_order::Worth;
use super::under_way;

/// The reader of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Root or the user of the server.
    Operator,
    /// Any process of this machine. Addresses of clients and their requests are left out.
    Anyone,
}

pub fn answer(server: &Server, asker: Asker) -> String {
    let told = match server.status().zip(server.responses()) {
        Some((status, responses)) => json!({
            "classes": status.classes.iter().filter(|class| class.is_told()).map(class).collect::<Vec<_>>(),
            "uplink": status.line.as_ref().map(uplink),
            "wire_bytes": status.wire_bytes,
            "sizes": status.metrics.as_ref().map_or(vec![], of_sizes),
            "order": status.metrics.as_ref().map(|metrics| worth(metrics.times())),
            "under_way": under_way::responses(&responses, asker),
            "clients": match asker {
                Asker::Operator => under_way::clients(&server.busiest(&responses)),
                Asker::Anyone => Value::Null,
            },
            "responses": status.metrics.as_ref().map_or(vec![], |metrics| counted(metrics, &status.classes)),
            "certificates": certificates(server.ordered_certificates(), asker),
        }),
        None => json!({ "error": no_answer() }),
    };
    told.to_string()
}

pub fn routes(server: &Server) -> String {
    let told = match server.ask(|channel| &channel.routes) {
        Some(routes) => json!({
            "routes": routes.top.iter().map(route).collect::<Vec<_>>(),
            "known": routes.count,
        }),
        None => json!({ "error": no_answer() }),
    };
    told.to_string()
}

fn route(route: &RouteStatus) -> Value {
    let sizes = &route.sizes;
    let calibration = &sizes.calibration;
    let percent =
        |count: u64| (calibration.predicted() > 0).then(|| 100.0 * count as f64 / calibration.predicted() as f64);
    json!({
        "route": sizes.route,
        "finished": sizes.finished,
        "aborted": sizes.censored,
        "median_bytes": (sizes.finished > 0).then_some(sizes.median),
        "p99_bytes": (sizes.finished > 0).then_some(sizes.p99),
        "predicted": calibration.predicted(),
        "below_median_percent": percent(calibration.below_median()),
        "below_p99_percent": percent(calibration.below_p99),
        "service_ms": route.service.map(|mean| mean.0 as f64 / 1e6),
    })
}

/// Returns the times, in seconds, of complete responses of a size class. `turns` counts the compared responses that
/// would have ended by now in turns.
fn sizes(times: &Times, size: &str) -> Value {
    let seconds = |time: Nanos| time.0 as f64 / 1e9;
    json!({
        "size": size,
        "responses": times.buckets.iter().sum::<u64>(),
        "took_s": seconds(times.total),
        "compared": times.compared,
        "compared_s": seconds(times.compared_total),
        "turns": times.turns,
        "turns_s": seconds(times.turns_total),
    })
}

/// The gain of the order.
fn worth(times: &[Times]) -> Value {
    let Worth { less, more } = Worth::of(times);
    json!({
        "less_responses": less.responses,
        "less_s": less.seconds,
        "more_responses": more.responses,
        "more_s": more.seconds,
        "text": Worth { less, more }.text(),
    })
}

fn of_sizes(metrics: &Metrics) -> Vec<Value> {
    metrics.times().iter().zip(SIZES).map(|(times, (_, size))| sizes(times, size)).collect()
}

fn counted(metrics: &Metrics, classes: &[ClassStatus]) -> Vec<Value> {
    let row = |(labels, count): (&Labels, &Count)| {
        json!({
            "site": metrics.site_name(labels.site),
            "class": classes.get(usize::from(labels.class)).map_or("", |class| &class.name),
            "protocol": protocol_name(labels.protocol),
            "size": SIZES[usize::from(labels.size)].1,
            "status": labels.status,
            "responses": count.responses,
            "cut": count.cut,
            "bytes": count.bytes,
        })
    };
    metrics.responses().map(row).collect()
}

/// The maximum number of hosts in an answer. The hosts whose certificates expire first are included.
const HOSTS_MAX: usize = 100;

/// Returns the state of certificates by ACME, with instants in seconds since 1970. The text of a failure may contain
/// output of the operator's program, so only an operator gets it.
fn certificates(mut hosts: Vec<HostStatus>, asker: Asker) -> Value {
    let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    hosts.sort_by(|a, b| (a.not_after, &a.name).cmp(&(b.not_after, &b.name)));
    let host = |host: &HostStatus| {
        let failed = host.outlook.as_ref().and_then(|outlook| outlook.failed.as_ref());
        json!({
            "host": host.name,
            "not_after": host.not_after.map(seconds),
            "next_order": host.outlook.as_ref().map(|outlook| seconds(outlook.next_order)),
            "failed_at": failed.map(|failed| seconds(failed.at)),
            "failure": failed.filter(|_| asker == Asker::Operator).map(|failed| &failed.text),
        })
    };
    json!({ "known": hosts.len(), "hosts": hosts.iter().take(HOSTS_MAX).map(host).collect::<Vec<_>>() })
}

fn no_answer() -> String {
    format!(
        "the event loop has not answered within {STATUS_WAIT_MAX:?}, expected at once: see the error log, and run `weir status` again"
    )
}

fn uplink(line: &Line) -> Value {
    let bits = |rate: Option<units::Rate>| rate.map(units::Rate::bits_per_s);
    match line {
        Line::Read { interface, rate } => json!({
            "text": line.to_string(),
            "interface": interface,
            "rate_bits_per_s": bits(*rate),
            "pace_bits_per_s": bits(line.pace()),
            "limit": "shaper",
        }),
        Line::Found(LineStatus { bounds, rate, age, busy_intervals, limit, .. }) => json!({
            "text": line.to_string(),
            "interface": null,
            "rate_bits_per_s": bits(*rate),
            "pace_bits_per_s": bits(line.pace()),
            "limit": limit_name(*limit),
            "age_s": rate.map(|_| age.as_secs_f64()),
            "busy_intervals": busy_intervals,
            "least_bits_per_s": bits(bounds.least),
            "most_bits_per_s": bits(bounds.most),
        }),
    }
}

fn limit_name(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::Unknown => None,
        Limit::Line => Some("line"),
        Limit::Others => Some("others"),
        Limit::Ceiling => Some("ceiling"),
    }
}

fn class(class: &ClassStatus) -> Value {
    json!({
        "name": class.name,
        "in_file": class.is_in_force,
        "responses": class.responses,
        "bytes": class.bytes,
        "running": class.under_way.running,
        "asleep": class.under_way.asleep,
        "asleep_s_max": class.under_way.asleep_for_max.map(|age| age.as_secs_f64()),
        "objective": class.objective.as_ref().map(objective),
    })
}

fn objective(status: &ObjectiveStatus) -> Value {
    let counts = |counts: &Counts| {
        json!({
            "responses": counts.responses,
            "missed": counts.missed,
            "met_percent": counts.missed_share().map(|share| 100.0 * (1.0 - share)),
            "burn": counts.burn(&status.objective),
        })
    };
    json!({
        "text": status.objective.to_string(),
        "last_minute": counts(&status.lately),
        "since_start": counts(&status.total),
    })
}
