//! Converts the outcome of a run to its manifest, the table and the JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hdrhistogram::Histogram;
use loadgen::Patience;
use record::{JobRecord, Manifest, Outcome, PageRecord, Run};
use report::{CPU_MAX, GroupSummary, LATENESS_P99_MAX, RunSummary};
use serde_json::{Value, json};
use testbed::Load;
use units::Nanos;
use workload::PageTimes;

use super::url::Url;
use super::{Args, Wanted, jobs, machine};
use cli::Failure;

pub(crate) fn manifest(args: &Args, wanted: &Wanted, outcome: &loadgen::Outcome) -> Manifest {
    let client_cpu = outcome.cpu.as_secs_f64() / outcome.elapsed.as_secs_f64().max(1e-9);
    let lateness_p99 = Nanos(outcome.lateness.value_at_quantile(0.99));
    Manifest {
        server: args.server.clone(),
        policy: args.policy.clone(),
        shaping: args.shaping.clone(),
        link_bps: wanted.uplink.bits_per_s(),
        rho: rho(&args.load).unwrap_or(wanted.schedule.rho_measured),
        seed: args.load.seed,
        per_connection: wanted.on_connection(&args.load),
        seconds: wanted.schedule.kept.as_secs_f64(),
        commit: machine::commit(),
        kernel: machine::kernel(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        client_cpu: Some(client_cpu),
        lateness_ns_p99: Some(lateness_p99.0),
        void: void(outcome, wanted, client_cpu, lateness_p99),
        closed: closed(wanted),
        clients: groups(args, wanted),
        environment: environment(args, wanted, outcome),
        ..Manifest::new(&args.name)
    }
}

/// Each page that was begun, with the times at which it was complete, or at which its visitor left or the run ended.
pub(crate) fn pages(outcome: &loadgen::Outcome) -> Vec<PageRecord> {
    let mut came: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for record in outcome.records.iter().filter(|record| record.is_complete()) {
        let (count, bytes) = came.entry(record.client).or_default();
        (*count, *bytes) = (*count + 1, *bytes + record.body_bytes);
    }
    let record = |page: &PageTimes| {
        let (complete, bytes) = came.get(&Some(page.page)).copied().unwrap_or_default();
        let until = |at: Option<Nanos>| at.or(page.left_at).unwrap_or(outcome.elapsed).0;
        PageRecord {
            page: page.page.into(),
            arrival_ns: page.arrival.0,
            requests: page.requests as u64,
            bytes,
            first_view_ns: until(page.first_view_at),
            with_fonts_ns: until(page.with_fonts_at),
            full_ns: until(page.full_at),
            failed: page.requests as u64 - complete,
            left: page.left_at.is_some(),
        }
    };
    outcome.pages.iter().map(record).collect()
}

/// The names of the groups or classes of clients.
fn groups(args: &Args, wanted: &Wanted) -> Vec<String> {
    let groups = wanted.clients.iter().map(|group| &group.name);
    groups.chain(args.load.class.iter().map(|customer| &customer.name)).cloned().collect()
}

/// Describes the clients that send requests only after responses, including those next to an open load.
fn closed(wanted: &Wanted) -> Option<String> {
    let users = wanted.users.iter().map(|users| users.who.clone());
    let clients = wanted.closed.iter().map(|client| {
        let name = &wanted.clients[client.group as usize].name;
        format!("{name}: {} connections of {} bytes", client.connections, client.size_bytes)
    });
    let all: Vec<String> = users.chain(clients).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The requested load, or its mean if it changes.
fn rho(load: &Load) -> Option<f64> {
    match &load.profile {
        Some(profile) => profile.parse().ok().map(|load: workload::LoadProfile| load.mean_rho()),
        None => load.rho,
    }
}

fn environment(args: &Args, wanted: &Wanted, outcome: &loadgen::Outcome) -> BTreeMap<String, String> {
    let load = &args.load;
    let trace = match (&load.trace, load.webstone, load.surge.is_some() || load.users.is_some()) {
        (Some(path), ..) => path.display().to_string(),
        (None, Some(of), _) => format!("WebStone {} of 004", of.name()),
        (None, None, true) => format!("SURGE of {}", jobs::server_model(load).name),
        (None, None, false) if load.pages => "visits of pages of the Web Almanac 2025".into(),
        (None, None, false) => "shipped synthetic".into(),
    };
    let mut environment = BTreeMap::from([
        ("url".into(), wanted.url.to_string()),
        ("trace".into(), trace),
        ("rho_measured".into(), wanted.schedule.rho_measured.to_string()),
        ("stretch".into(), wanted.schedule.stretch.to_string()),
        ("started_unix_ns".into(), outcome.started_unix_ns.to_string()),
        ("elapsed_s".into(), outcome.elapsed.as_secs_f64().to_string()),
        ("connections_peak".into(), outcome.connections_peak.to_string()),
    ]);
    let connections = args.client_connections.map(|most| most.to_string());
    environment.extend(connections.map(|most| ("client_connections".into(), most)));
    environment.extend(load.routes.map(|routes| ("routes".into(), routes.to_string())));
    environment.extend(args.speech().map(|speech| ("protocol".into(), speech)));
    let asked = [("rate_per_s", args.rate.map(|rate| rate.to_string())), ("profile", load.profile.clone())];
    environment.extend(asked.into_iter().filter_map(|(name, value)| Some((name.into(), value?))));
    if let Some(Patience { abort_after, retries }) = wanted.patience {
        environment.insert("abort_after_s".into(), abort_after.as_secs_f64().to_string());
        environment.insert("retries".into(), retries.to_string());
    }
    environment.extend(args.clients.iter().enumerate().map(|(n, text)| (format!("client_{n}"), text.clone())));
    environment
}

/// Returns the reason why the run may not be used: it would have measured the generator, or a server with other files.
fn void(outcome: &loadgen::Outcome, wanted: &Wanted, client_cpu: f64, lateness_p99: Nanos) -> Option<String> {
    let mut reasons: Vec<String> = wrong_answers(&outcome.records, &wanted.url).into_iter().collect();
    reasons.extend(of_generator(outcome, wanted.schedule.jobs.len(), client_cpu, lateness_p99));
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn of_generator(outcome: &loadgen::Outcome, jobs: usize, client_cpu: f64, lateness_p99: Nanos) -> Vec<String> {
    let mut reasons = Vec::new();
    if outcome.interrupted {
        let of = if jobs > 0 { format!(" of {jobs}") } else { String::new() };
        reasons.push(format!("interrupted after {}{of} jobs were submitted", outcome.records.len()));
    }
    if outcome.turned_away > 0 {
        reasons.push(format!(
            "{} jobs found no descriptor or port free on the client: raise `ulimit -Hn` or widen net.ipv4.ip_local_port_range",
            outcome.turned_away
        ));
    }
    if client_cpu > CPU_MAX {
        reasons.push(format!("the load generator used {client_cpu:.2} of a core, more than {CPU_MAX}"));
    }
    if lateness_p99 > LATENESS_P99_MAX {
        let [late, most] = [lateness_p99, LATENESS_P99_MAX].map(Nanos::as_millis_f64);
        reasons.push(format!("requests were submitted {late:.2} ms late at the 99th percentile, more than {most} ms"));
    }
    reasons
}

/// Describes the number of responses that were not the requested file, and the first of them.
fn wrong_answers(records: &[JobRecord], url: &Url) -> Option<String> {
    let mut wrong = records.iter().filter(|record| record.outcome == Outcome::Wrong);
    let first = wrong.next()?;
    let JobRecord { size_bytes, body_bytes, status, .. } = *first;
    let came = match status {
        0 => "what came was not HTTP".into(),
        200 => format!("status 200 came with {body_bytes} bytes"),
        _ => format!("status {status} came"),
    };
    let (count, of) = (1 + wrong.count(), records.len());
    Some(format!(
        "{count} of {of} answers were wrong: {came} for {url}{size_bytes}.bin, and not 200 with {size_bytes} bytes"
    ))
}

/// Checks that the server answered. If it refused every job it was not running, and if every answer was wrong it was
/// not the intended server.
pub(crate) fn check_answered(run: &Run, url: &Url) -> Result<(), Failure> {
    if run.records.iter().all(|record| record.outcome == Outcome::Refused) {
        return Err(Failure::Failed(format!("{url}: every connection was refused")));
    }
    wrong_answers(&run.records, url).map_or(Ok(()), |wrong| Err(Failure::Failed(wrong)))
}

/// Prints the table, or with `json` only one object.
pub(crate) fn print(run: &Run, lateness: &Histogram<u64>, rho_measured: f64, json: bool) -> Result<(), Failure> {
    if run.records.is_empty() {
        return Ok(());
    }
    let summary = RunSummary::of(run);
    let text = match json {
        true => as_json(run, &summary, lateness, rho_measured).to_string() + "\n",
        false => as_table(run, &summary, lateness, rho_measured),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn as_json(run: &Run, this: &RunSummary, lateness: &Histogram<u64>, rho_measured: f64) -> Value {
    let [p50, p99, max] = lateness_ms(lateness);
    json!({
        "name": run.manifest.name,
        "jobs": run.records.len(),
        "outcomes": Value::Object(counts(&run.records).map(|(name, count)| (name.into(), count.into())).collect()),
        "bytes": this.bytes,
        "response_time_ms": this.response_time_ms,
        "beat_wire_time": this.beat_wire_time,
        "lateness_ms": { "p50": p50, "p99": p99, "max": max },
        "client_cpu": run.manifest.client_cpu,
        "rho": run.manifest.rho,
        "rho_measured": rho_measured,
        "link_bps": run.manifest.link_bps,
        "void": run.manifest.void,
        "attempts": attempts(run),
        "groups": this.groups,
        "closed": run.manifest.closed,
        "connections_peak": connections_peak(run),
    })
}

/// Returns the number stored in `environment`.
fn connections_peak(run: &Run) -> Option<u64> {
    run.manifest.environment.get("connections_peak")?.parse().ok()
}

fn attempts(run: &Run) -> u64 {
    run.records.iter().map(|record| u64::from(record.attempts)).sum()
}

fn as_table(run: &Run, this: &RunSummary, lateness: &Histogram<u64>, rho_measured: f64) -> String {
    let time = this.response_time_ms;
    let ended: Vec<String> =
        counts(&run.records).filter(|&(_, count)| count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    let [late_p50, late_p99, late_max] = lateness_ms(lateness);
    let link_mbit = run.manifest.link_bps as f64 / 1e6;
    let attempts = match attempts(run) {
        attempts if attempts > run.records.len() as u64 => format!(", in {attempts} attempts"),
        _ => String::new(),
    };
    let mut text = format!(
        "jobs           {}: {}{attempts}\n\
         load           rho {rho_measured:.3} of {link_mbit} Mbit/s over {:.1} s\n\
         response time  mean {:.2} ms, p50 {:.2}, p90 {:.2}, p99 {:.2}, max {:.2}\n\
         lateness       p50 {late_p50:.3} ms, p99 {late_p99:.3}, max {late_max:.3}\n\
         client         {:.3} of a core\n\
         void           {}\n",
        run.records.len(),
        ended.join(", "),
        run.manifest.seconds,
        time.mean,
        time.p50,
        time.p90,
        time.p99,
        time.max,
        run.manifest.client_cpu.unwrap_or_default(),
        run.manifest.void.as_deref().unwrap_or("no"),
    );
    text.extend(this.groups.iter().map(group_line));
    text
}

fn group_line(group: &GroupSummary) -> String {
    let GroupSummary { name, jobs, completed, response_time_ms: time, per_s } = group;
    let times = format!("mean {:.2} ms, p50 {:.2}, p99 {:.2}", time.mean, time.p50, time.p99);
    format!("{name:<14} {jobs} jobs, {completed} complete, {per_s:.2} per second; response time {times}\n")
}

/// The number of jobs that ended in each way, including zero.
fn counts(records: &[JobRecord]) -> impl Iterator<Item = (&'static str, usize)> {
    let ended = |outcome| records.iter().filter(|record| record.outcome == outcome).count();
    Outcome::ALL.into_iter().map(move |outcome| (outcome.name(), ended(outcome)))
}

fn lateness_ms(lateness: &Histogram<u64>) -> [f64; 3] {
    [0.5, 0.99, 1.0].map(|quantile| Nanos(lateness.value_at_quantile(quantile)).as_millis_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> loadgen::Outcome {
        loadgen::Outcome {
            records: vec![],
            pages: vec![],
            connections_peak: 0,
            lateness: Histogram::new(3).unwrap(),
            cpu: Nanos::ZERO,
            elapsed: Nanos::from_secs(1),
            started_unix_ns: 0,
            turned_away: 0,
            interrupted: false,
        }
    }

    #[test]
    fn a_good_run_is_not_void() {
        assert!(of_generator(&outcome(), 7, CPU_MAX, LATENESS_P99_MAX).is_empty());
    }

    #[test]
    fn the_first_wrong_answer_is_told() {
        let url: Url = "http://h/p/".parse().unwrap();
        let record =
            |status, body_bytes, outcome| JobRecord { body_bytes, status, outcome, ..JobRecord::complete(0, 9, 0, 1) };
        let fine = record(200, 9, Outcome::Complete);
        assert_eq!(wrong_answers(&[fine.clone(), record(0, 0, Outcome::Refused)], &url), None);
        let short =
            wrong_answers(&[fine, record(200, 5, Outcome::Wrong), record(500, 0, Outcome::Wrong)], &url).unwrap();
        assert!(
            short.starts_with("2 of 3 answers were wrong: status 200 came with 5 bytes for http://h/p/9.bin"),
            "{short}"
        );
        let noise = wrong_answers(&[record(0, 0, Outcome::Wrong)], &url).unwrap();
        assert!(noise.contains("what came was not HTTP for http://h/p/9.bin"), "{noise}");
    }

    #[test]
    fn every_reason_is_named() {
        let broken = loadgen::Outcome { interrupted: true, turned_away: 3, ..outcome() };
        let said = of_generator(&broken, 7, 0.75, Nanos::from_micros(1500)).join("; ");
        for reason in ["interrupted after 0 of 7", "3 jobs found no", "0.75 of a core", "1.50 ms late"] {
            assert!(said.contains(reason), "{said}");
        }
        assert_eq!(said.matches("; ").count(), 3);
    }
}
