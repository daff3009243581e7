//! Writes the figures of attaches as metrics: in the text format of Prometheus for node_exporter's textfile collector,
//! which treats the counters of OpenMetrics as untyped and without help, or as OpenMetrics 1.0. Labels are interfaces,
//! bands and classes, never clients.

use std::fmt::Write;
use std::path::Path;

use ::uplink::Counted;
use ::uplink::classify::Lost;
use cli::Failure;
use units::Rate;

use super::figures::Figures;
use super::saved;
use super::trial::Compared;

/// A label's name and value.
type Label<'a> = (&'static str, &'a str);

/// A metric per attach: its name or the end of its name, its help text, and its value.
type Metric<V> = (&'static str, &'static str, fn(&Figures) -> V);
/// A metric per queue: the end of its name, its kind, its help text, and its value.
type QueueMetric = (&'static str, &'static str, &'static str, fn(&Counted) -> u64);

/// The units of OpenMetrics that end a name.
const UNITS: [&str; 3] = ["bytes_per_second", "bytes", "seconds"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Prometheus,
    OpenMetrics,
}

/// Returns the metrics of each attach. `lost` has the interfaces that have lost theirs.
pub fn text(all: &[Figures], lost: &[Lost], format: Format) -> String {
    let mut page = Page { text: String::new(), format };
    page.of_attaches(all, lost);
    page.rates(all);
    page.gains(all);
    page.queues(all);
    page.counters(all);
    page.text + if format == Format::OpenMetrics { "# EOF\n" } else { "" }
}

/// Writes a file and renames it, so that a collector finds either the old or the complete new file.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let unwritten =
        |error| Failure::Failed(format!("cannot write {}: {error}; without a file it is printed", file.display()));
    saved::write(file, text).map_err(unwritten)
}

struct Page {
    text: String,
    format: Format,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let is_openmetrics = self.format == Format::OpenMetrics;
        // There a family of counters has not the end that its samples have.
        let name = if is_openmetrics { name.strip_suffix("_total").unwrap_or(name) } else { name };
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let ends = |unit: &&&str| name.strip_suffix(**unit).is_some_and(|before| before.ends_with('_'));
        if let Some(unit) = UNITS.iter().find(ends).filter(|_| is_openmetrics) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    fn sample(&mut self, name: &str, labels: &[Label], value: impl std::fmt::Display) {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.text, "{name}{{{}}} {value}", labels.join(","));
    }

    fn of_attaches(&mut self, all: &[Figures], lost: &[Lost]) {
        let name = "weir_attach_active";
        self.head(
            name,
            "gauge",
            "1 for an interface whose responses are ordered, 0 for one whose classifier or bands are gone",
        );
        for of in all {
            let is_whole = of.attached.settings.is_some() && of.attached.missing().is_none();
            self.sample(name, &[("interface", of.name())], u8::from(is_whole));
        }
        for lost in lost {
            self.sample(name, &[("interface", &lost.interface.name)], 0);
        }
        let name = "weir_attach_info";
        self.head(name, "gauge", "1: how an interface is attached; rate is given, or found by a search");
        for of in all {
            let Some(settings) = &of.attached.settings else { continue };
            let rate = if of.line.is_some() { "found" } else { "given" };
            let labels = [("interface", of.name()), ("policy", settings.policy.name()), ("rate", rate)];
            self.sample(name, &labels, 1);
        }
    }

    fn rates(&mut self, all: &[Figures]) {
        self.gauges(
            all,
            [
                ("weir_attach_rate_bytes_per_second", "Rate of the bands", |of| {
                    of.tree.as_ref().map(|tree| bytes_per_s(tree.plan.rate))
                }),
                ("weir_attach_found_rate_bytes_per_second", "Rate of the line, where it was found by a search", |of| {
                    of.line.as_ref()?.status.rate.map(bytes_per_s)
                }),
                ("weir_attach_found_rate_age_seconds", "Time since the rate that was found was last confirmed", |of| {
                    let status = &of.line.as_ref()?.status;
                    status.rate.map(|_| status.age.0 as f64 / 1e9)
                }),
                ("weir_attach_followed", "1 if a process follows the line, 0 if it should and none does", |of| {
                    Some(f64::from(u8::from(of.line.as_ref()?.process.is_some())))
                }),
            ],
        );
    }

    fn gains(&mut self, all: &[Figures]) {
        fn small(of: &Figures) -> Option<Compared> {
            of.gain.as_ref()?.judgement.small
        }
        self.gauges(
            all,
            [
                (
                    "weir_attach_gain_ordered_seconds",
                    "Mean time of responses up to 100 KB with the order, by the trials of the last day",
                    |of| Some(small(of)?.with),
                ),
                ("weir_attach_gain_unordered_seconds", "The same without the order", |of| Some(small(of)?.without)),
                (
                    "weir_attach_gain_ratio_low",
                    "Their quotient, ordered by unordered: lower end of the 95 % interval",
                    |of| Some(small(of)?.low),
                ),
                (
                    "weir_attach_gain_ratio_high",
                    "Their quotient, ordered by unordered: upper end of the 95 % interval",
                    |of| Some(small(of)?.high),
                ),
                ("weir_attach_gain_age_seconds", "Time since the last trial", |of| {
                    Some(of.gain.as_ref()?.age.as_secs_f64())
                }),
            ],
        );
    }

    /// Adds gauges, with the attaches that have a value.
    fn gauges<const COUNT: usize>(&mut self, all: &[Figures], gauges: [Metric<Option<f64>>; COUNT]) {
        for (name, help, value) in gauges {
            self.head(name, "gauge", help);
            for of in all {
                if let Some(value) = value(of) {
                    self.sample(name, &[("interface", of.name())], value);
                }
            }
        }
    }

    /// Writes five metrics for each band and each class.
    fn queues(&mut self, all: &[Figures]) {
        let figures: [QueueMetric; 5] = [
            ("packets_total", "counter", "Packets that left", |of| of.packets),
            ("bytes_total", "counter", "Bytes that left, with the interface's own header", |of| of.bytes),
            ("dropped_packets_total", "counter", "Packets dropped because it was full", |of| of.drops),
            ("waiting_packets", "gauge", "Packets that wait", |of| of.backlog_packets),
            ("waiting_bytes", "gauge", "Bytes that wait", |of| of.backlog_bytes),
        ];
        for (suffix, kind, help, value) in figures {
            let name = format!("weir_attach_band_{suffix}");
            self.head(&name, kind, &format!("{help}, by band of the tree and what it is for"));
            for of in all {
                let Some(settings) = &of.attached.settings else { continue };
                for (band, held, counted) in of.held() {
                    let (band, held) = (band.to_string(), held.label(settings.policy));
                    let labels = [("interface", of.name()), ("band", &*band), ("holds", &*held)];
                    self.sample(&name, &labels, value(&counted));
                }
            }
        }
        for (suffix, kind, help, value) in figures {
            let name = format!("weir_attach_class_{suffix}");
            self.head(&name, kind, &format!("{help}, by class of responses"));
            for of in all {
                for (class, counted) in of.named() {
                    self.sample(&name, &[("interface", of.name()), ("class", class)], value(&counted));
                }
            }
        }
    }

    fn counters(&mut self, all: &[Figures]) {
        let name = "weir_attach_ordered_packets_total";
        self.head(
            name,
            "counter",
            "Packets of responses that were given a place, by their socket here or by their flow",
        );
        for of in all {
            let by_flow = of.attached.counters.by_flow;
            let by_socket = of.ordered_packets().saturating_sub(by_flow);
            for (by, count) in [("socket", by_socket), ("flow", by_flow)] {
                self.sample(name, &[("interface", of.name()), ("by", by)], count);
            }
        }
        let counters: [Metric<u64>; 8] = [
            ("responses", "Responses that began", |of| of.attached.counters.responses),
            ("responses_size_read", "Responses whose size was read from their head", |of| {
                of.attached.counters.sizes_read
            }),
            ("responses_size_unknown", "Responses whose head gave no size", |of| of.attached.counters.sizes_unknown),
            ("promotions", "Times a connection moved to a better band", |of| of.attached.counters.promotions),
            ("held_back_packets", "Packets kept in a worse band behind earlier ones", |of| {
                of.attached.counters.held_back
            }),
            ("unordered_packets", "Packets for whose connection the kernel had no memory", |of| {
                of.attached.counters.no_storage
            }),
            ("ahead_of_share_packets", "Packets of clients ahead of their share", |of| of.attached.counters.behind),
            ("forwarded_packets", "Ordered packets that arrived over an interface", |of| {
                of.attached.counters.forwarded
            }),
        ];
        for (suffix, help, value) in counters {
            let name = format!("weir_attach_{suffix}_total");
            self.head(&name, "counter", help);
            for of in all {
                self.sample(&name, &[("interface", of.name())], value(of));
            }
        }
    }
}

fn bytes_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64 / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dashboard, the rules and the documentation use only names that exist, and the documentation has all.
    #[test]
    fn what_others_ask_for_is_there() {
        let said = text(&[], &[], Format::Prometheus);
        let page = include_str!("../../../../docs/attach.md");
        let asked = [
            page,
            include_str!("../../../../packaging/grafana/weir-attach.json"),
            include_str!("../../../../packaging/prometheus/weir-attach.rules.yml"),
        ];
        let names = |text: &str| -> Vec<String> {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            words.filter(|word| word.starts_with("weir_attach_")).map(String::from).collect()
        };
        for name in asked.into_iter().flat_map(names) {
            assert!(said.contains(&format!("# TYPE {name} ")), "{name}");
        }
        let documented = names(page);
        for name in names(&said) {
            assert!(documented.contains(&name), "{name}");
        }
    }

    /// The figures are written once a minute. Over less than that, Grafana's rates are 4/3 of the true ones, then 0.
    #[test]
    fn the_dashboard_counts_over_more_than_a_minute() {
        let page = include_str!("../../../../packaging/grafana/weir-attach.json");
        let count = |text: &str| page.matches(text).count();
        assert_eq!(count("\"interval\": \"1m\""), count("\"type\": \"timeseries\""));
        assert!(count("\"type\": \"timeseries\"") > 0);
    }

    #[test]
    fn as_openmetrics_counters_have_the_name_of_their_family() {
        let said = text(&[], &[], Format::OpenMetrics);
        for line in [
            "# TYPE weir_attach_band_bytes counter\n# UNIT weir_attach_band_bytes bytes\n",
            "# TYPE weir_attach_rate_bytes_per_second gauge\n# UNIT weir_attach_rate_bytes_per_second bytes_per_second\n",
            "# TYPE weir_attach_responses counter\n# HELP ",
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert!(said.ends_with("\n# EOF\n") && said.lines().all(|line| !line.contains("_total ")));
    }

    /// Each family is together, as the format wants it, and its counters alone end in `_total`.
    #[test]
    fn it_is_the_text_format_of_prometheus() {
        let lost = Lost { interface: ::uplink::Interface { name: "a\"b".into(), index: 7 }, what: String::new() };
        let said = text(&[], &[lost], Format::Prometheus);
        assert!(said.contains("\nweir_attach_active{interface=\"a\\\"b\"} 0\n"), "{said}");
        let types: Vec<(&str, &str)> =
            said.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let mut once = types.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), types.len());
        assert!(types.iter().all(|(name, kind)| name.ends_with("_total") == (*kind == "counter")), "{types:?}");
    }
}
