//! The printed report: Markdown tables whose columns also line up in a terminal.

use super::outcome::{Contest, Ratio, Report, Side};
use super::server::Kind;

pub fn summary(report: &Report) -> String {
    let mut parts = vec![conditions(report)];
    // HTTP/3 is measured with other servers.
    let (over_udp, over_tcp): (Vec<&Contest>, _) = report.contests.iter().partition(|c| c.row.is_over_http3());
    for (title, contests) in [("Side by side", &over_tcp), ("Over HTTP/3, at fixed rates", &over_udp)] {
        if !contests.is_empty() {
            parts.push(titled(title, &servers(contests)));
        }
    }
    let costs = cost_of_order(&report.contests);
    if costs.len() > 1 {
        parts.push(titled("Cost of the order where nothing waits", &aligned(&costs)));
    }
    parts.join("\n")
}

fn conditions(report: &Report) -> String {
    let m = &report.manifest;
    let versions: Vec<String> = m.versions.iter().map(|(name, version)| format!("{name}: {version}")).collect();
    let apart = if m.cores.are_apart { "" } else { " (shared: figures of different worker counts do not compare)" };
    format!(
        "# Servers on loopback\n\n{} on {}, {}, congestion control {}, commit {}.\n{} worker(s) on core {}, wrk on core {}{apart}; \
         {} round(s) of {} s, servers taking turns; medians, ratios within a round.\n\
         CPU: of the server's processes, as the scheduler counts it. In brackets: 95 % intervals of the medians, with fewer than \
         6 rounds the least and the greatest.\n{}\n",
        m.date,
        m.cpu,
        m.kernel,
        m.congestion,
        m.commit,
        m.workers,
        m.cores.server,
        m.cores.wrk,
        m.rounds,
        m.seconds,
        versions.join("; ")
    )
}

fn titled(title: &str, table: &str) -> String {
    format!("## {title}\n\n{table}")
}

/// Compares Weir with its defaults and Weir that orders nothing, in the same rounds.
fn cost_of_order(contests: &[Contest]) -> Vec<Vec<String>> {
    let titles = ["file, mode, connections", "rate weir/weir-fair", "CPU weir/weir-fair", "note"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for contest in contests {
        let pair = contest.side(Kind::Weir.name()).zip(contest.side(Kind::WeirFair.name()));
        let Some((weir, fair)) = pair else { continue };
        let (rate, cpu) = (weir.rate_to(fair), weir.cpu_to(fair));
        rows.push(vec![contest.row.name(), interval(Some(rate)), interval(Some(cpu)), contest.note()]);
    }
    rows
}

/// Formats a line for each server.
fn servers(contests: &[&Contest]) -> String {
    let base = contests[0].sides[0].server;
    let (to_base, cpu_to_base) = (format!("/{base}"), format!("CPU /{base}"));
    let titles =
        ["file, mode, connections", "server", "req/s", "MB/s", &to_base, "CPU us/req", &cpu_to_base, "wrk CPU", "note"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for contest in contests {
        let note = contest.note();
        rows.extend(contest.sides.iter().map(|side| {
            vec![
                contest.row.name(),
                side.server.to_owned(),
                thousands(side.median(|round| round.requests_per_s)),
                thousands(side.median(|round| round.bytes_per_s) / 1e6),
                interval(side.throughput_ratio),
                cpu(side),
                interval(side.cpu_ratio),
                percent(side.median(|round| round.wrk_cpu)),
                note.clone(),
            ]
        }));
    }
    aligned(&rows)
}

fn cpu(side: &Side) -> String {
    let micros = side.median(|round| round.cpu_us_per_request);
    if micros < 1000.0 { format!("{micros:.2}") } else { thousands(micros) }
}

fn interval(ratio: Option<Ratio>) -> String {
    ratio.map_or("-".into(), |ratio| format!("{:.3} ({:.3}-{:.3})", ratio.median, ratio.low, ratio.high))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a rounded number with commas.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let sign = if value <= -0.5 { "-" } else { "" };
    let first = (digits.len() - 1) % 3 + 1;
    let mut text = format!("{sign}{}", &digits[..first]);
    for at in (first..digits.len()).step_by(3) {
        text.push(',');
        text.push_str(&digits[at..at + 3]);
    }
    text
}

/// Formats a Markdown table from a head and rows, with words to the left and numbers to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let is_number =
        |column: usize| body.iter().any(|row| row[column].starts_with(|c: char| c.is_ascii_digit()) && column > 0);
    let line = |row: &Vec<String>| {
        let cell = |(column, text): (usize, &String)| {
            let width = widths[column];
            if is_number(column) { format!(" {text:>width$} |") } else { format!(" {text:<width$} |") }
        };
        format!("|{}\n", row.iter().enumerate().map(cell).collect::<String>())
    };
    let rule = |column: usize| {
        let dashes = "-".repeat(widths[column]);
        if is_number(column) { format!(" {}: |", &dashes[1..]) } else { format!(" {dashes} |") }
    };
    let rule = format!("|{}\n", (0..head.len()).map(rule).collect::<String>());
    [line(head), rule].into_iter().chain(body.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["file", "req/s"], ["1 KB", "123,456"], ["10 MB", "4"]].map(|row| row.map(str::to_owned).to_vec());
        let wanted = "| file  |   req/s |\n| ----- | ------: |\n| 1 KB  | 123,456 |\n| 10 MB |       4 |\n";
        assert_eq!(aligned(&rows), wanted);
    }

    #[test]
    fn commas_every_three_digits() {
        let cases = [(0.4, "0"), (999.0, "999"), (1000.0, "1,000"), (123_456.7, "123,457"), (-1_500.0, "-1,500")];
        for (value, text) in cases {
            assert_eq!(thousands(value), text);
        }
    }
}
