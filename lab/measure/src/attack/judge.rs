//! The short form, with a verdict that does not depend on the speed of the machine.
//!
//! A bound on wall-clock time fails on a busy machine. The verdict therefore uses counts (ends of the server, refusals,
//! lost lines), memory, the ratio of CPU times of one server (an end costs the same with four times as many
//! connections), and the ratio of waits to those with idle connections. Only the verdict on waits is void if other
//! programs used the processor.

use std::process::ExitCode;
use std::time::Duration;

use super::floods::ATTACKS;
use super::proxied;
use super::report::{Row, table};
use super::{Field, Kind};

const CONNECTIONS: u32 = 2000;
const FEWER: u32 = 4;
/// The maximum growth of CPU per end from a fourth of the connections to all. It is 1 if the cost of an end is
/// constant, and 4 if an end examines all other connections.
const GROWTH_MAX: f64 = 2.0;
/// The CPU time per end below which growth comes from caches.
const END_US_MIN: f64 = 50.0;
/// The maximum ratio of the longest wait to the longest wait with idle connections.
const WAIT_RATIO_MAX: u32 = 5;
const WAIT_MORE: Duration = Duration::from_millis(50);
/// The maximum memory of a connection with stalled streams, in KB. The goal is 64; HTTP/3 holds 160 to 230 today.
const STALLED_KB_MAX: f64 = 256.0;
/// The tolerance above the memory budget, in per cent.
const MEMORY_OVER_PERCENT: u64 = 10;
/// The share of a core used by other programs above which a wait may be their fault.
const BUSY: f64 = 0.25;
/// The status of sysexits.h for "try again later".
const VOID: u8 = 75;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Failed(String),
    Void(String),
}

pub fn run(field: &Field, connections: Option<u32>) -> Result<ExitCode, String> {
    let connections = connections.unwrap_or(CONNECTIONS);
    let [idle, stall, ..] = &ATTACKS;
    let mut rows = vec![
        field.run(idle, Kind::Weir, connections)?,
        field.run(stall, Kind::Weir, connections / FEWER)?,
        field.run(stall, Kind::Weir, connections)?,
    ];
    for attack in ATTACKS[2..].iter().chain(&proxied::ATTACKS) {
        rows.push(field.run(attack, Kind::Weir, connections)?);
    }
    println!("{}", table(&rows));
    let verdicts = [judge(&rows), over_memory(&rows)].concat();
    Ok(match tell(&verdicts) {
        true => ExitCode::FAILURE,
        false if verdicts.is_empty() => ExitCode::SUCCESS,
        false => ExitCode::from(VOID),
    })
}

/// Prints the verdicts. Returns whether one has failed.
pub fn tell(verdicts: &[Verdict]) -> bool {
    for verdict in verdicts {
        match verdict {
            Verdict::Failed(why) => println!("FAILED: {why}"),
            Verdict::Void(why) => println!("VOID: {why}"),
        }
    }
    verdicts.iter().any(|verdict| matches!(verdict, Verdict::Failed(_)))
}

/// Fails the attacks under which more memory was resident than the server's limit with its tolerance.
pub fn over_memory(rows: &[Row]) -> Vec<Verdict> {
    rows.iter().filter_map(over).collect()
}

fn over(row: &Row) -> Option<Verdict> {
    let most = row.budget_bytes? / 100 * (100 + MEMORY_OVER_PERCENT);
    let why = || {
        let [peak, most] = [row.peak_bytes, most].map(|bytes| bytes as f64 / f64::from(1 << 20));
        format!("{}: {peak:.1} MiB were resident, at most {most:.1}", row.attack)
    };
    (row.peak_bytes > most).then(|| Verdict::Failed(why()))
}

/// Judges rows in the order of [`run`]: idle, few, all, and others.
fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = rows.iter().flat_map(|row| [counted(row), heavy(row)]).flatten().collect();
    let [idle, few, all, ..] = rows else { return vec![Verdict::Void("no attack was made".into())] };
    let growth = all.end_us_per_connection() / few.end_us_per_connection().max(END_US_MIN);
    if growth > GROWTH_MAX {
        verdicts.push(Verdict::Failed(format!(
            "{}: an end costs {growth:.1} times the CPU beside {} times as many connections, at most {GROWTH_MAX}",
            all.attack, FEWER
        )));
    }
    let bound = idle.longest() * WAIT_RATIO_MAX + WAIT_MORE;
    for row in rows.iter().filter(|row| row.longest() > bound) {
        let why = format!("{}: an honest client waited {:?}, at most {bound:?}", row.attack, row.longest());
        let is_busy = row.others_cpu.max(idle.others_cpu) > BUSY;
        verdicts.push(if is_busy {
            Verdict::Void(format!("{why}; others took {:.0} % of a core", row.others_cpu * 100.0))
        } else {
            Verdict::Failed(why)
        });
    }
    verdicts
}

/// Returns the verdict on counts, which other programs cannot affect, if there is one.
fn counted(row: &Row) -> Option<Verdict> {
    let lost = row.lost.unwrap_or(0);
    let why = match row {
        Row { is_alive: false, .. } => "the server ended".to_owned(),
        Row { refused: 1.., .. } => format!("{} honest requests refused", row.refused),
        _ if lost > 0 => format!("{lost} lines of the access log lost"),
        _ => return None,
    };
    Some(Verdict::Failed(format!("{}: {why}", row.attack)))
}

/// Returns the verdict on the memory of stalled streams, if it fails.
fn heavy(row: &Row) -> Option<Verdict> {
    let kb = row.kb_per_connection().filter(|&kb| row.attack.ends_with("-stall") && kb > STALLED_KB_MAX)?;
    Some(Verdict::Failed(format!("{}: a connection holds {kb:.0} KB, at most {STALLED_KB_MAX}", row.attack)))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    fn judged(rows: [Row; 3]) -> Vec<Verdict> {
        judge(&rows)
    }

    fn failed(rows: [Row; 3], word: &str) -> bool {
        matches!(&judged(rows)[..], [Verdict::Failed(why)] if why.contains(word))
    }

    #[test]
    fn an_end_that_costs_its_own_passes_and_one_that_looks_at_all_fails() {
        assert_eq!(judged([row(400, 0.0, 2), row(100, 0.03, 3), row(400, 0.12, 40)]), []);
        assert!(failed([row(400, 0.0, 2), row(100, 0.03, 3), row(400, 0.48, 40)], "4.0 times"));
    }

    #[test]
    fn deaths_refusals_and_lost_lines_fail_on_any_machine() {
        let of = |last: Row| [row(400, 0.0, 2), row(100, 0.0, 2), Row { others_cpu: 2.0, ..last }];
        assert!(failed(of(Row { is_alive: false, ..row(400, 0.0, 2) }), "ended"));
        assert!(failed(of(Row { refused: 1, ..row(400, 0.0, 2) }), "refused"));
        assert!(failed(of(Row { lost: Some(3), ..row(400, 0.0, 2) }), "lost"));
    }

    #[test]
    fn memory_of_a_stalled_connection_fails_and_of_an_idle_one_does_not() {
        let of = |attack, bytes: u64| Row { attack, memory: [1000, 1000 + 400 * bytes, 1000], ..row(400, 0.0, 2) };
        assert_eq!(judged([of("idle", 999_000), row(100, 0.0, 2), of("h3-stall", 256_000)]), []);
        assert!(failed([row(400, 0.0, 2), row(100, 0.0, 2), of("h3-stall", 257_000)], "257 KB"));
    }

    #[test]
    fn memory_beyond_the_budget_and_a_tenth_fails() {
        let of = |peak_bytes| over(&Row { peak_bytes, budget_bytes: Some(64 << 20), ..row(400, 0.0, 2) });
        assert_eq!(of((64 << 20) / 100 * 110), None);
        assert!(
            matches!(of(71 << 20), Some(Verdict::Failed(why)) if why.contains("71.0 MiB were resident, at most 70.4"))
        );
    }

    #[test]
    fn a_wait_fails_on_a_quiet_machine_and_is_void_on_a_busy_one() {
        let of = |others_cpu| [row(400, 0.0, 2), row(100, 0.0, 2), Row { others_cpu, ..row(400, 0.0, 900) }];
        assert!(failed(of(0.1), "waited"));
        assert!(matches!(&judged(of(0.5))[..], [Verdict::Void(_)]));
    }
}
