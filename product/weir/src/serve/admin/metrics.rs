//! What a server has counted, as OpenMetrics 1.0 writes it. Labels are sites, classes, protocols, sizes and statuses: never a path or a client.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use server::metrics::{Count, Labels, Metrics, SIZES, TIMES_MS, Times};
use server::transmit::Line;
use server::{LineStatus, Status};
use units::{Nanos, Rate};

/// The media type of [`text_of`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub fn text_of(status: Status) -> String {
    let mut registry = Registry::with_prefix("weir");
    let metrics = status.metrics.clone().unwrap_or_default();
    registry.register_collector(Box::new(Told(status, metrics)));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("memory takes all");
    out
}

#[derive(Debug)]
struct Told(Status, Metrics);

/// Label sets of one counter.
type Labelled<'a> = [(&'static str, &'a str)];

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Told(Status { line, wire_bytes, .. }, metrics) = self;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder.encode_descriptor("build", "The program", None, MetricType::Info)?.encode_info(&version)?;
        self.counts(&mut encoder, ("responses", "Responses that have ended", None), |count| count.responses)?;
        self.counts(&mut encoder, ("responses_cut", "Of these, cut before their end", None), |count| count.cut)?;
        let bytes = ("response", "Bytes sent of responses, heads included, while they run too", Some(Unit::Bytes));
        self.counts(&mut encoder, bytes, |count| count.bytes)?;
        let wire = ("wire", "Bytes handed to the link at a pace, with their headers", Some(Unit::Bytes));
        let mut wire = described(&mut encoder, &wire, MetricType::Counter)?;
        wire.encode_counter::<NoLabelSet, _, u64>(wire_bytes, None)?;
        times(&mut encoder, metrics)?;
        let compared = "Whole responses whose size was known, sent at a pace";
        by_size(&mut encoder, metrics, ("compared_responses", compared, None), |times| times.compared as f64)?;
        let took = ("compared", "Time that these took from request to last byte", Some(Unit::Seconds));
        by_size(&mut encoder, metrics, took, |times| seconds(times.compared_total))?;
        let turns = "Of the compared, those that would have ended by now if all took turns";
        by_size(&mut encoder, metrics, ("turns_responses", turns, None), |times| times.turns as f64)?;
        let turns = ("turns", "Time that these would have taken", Some(Unit::Seconds));
        by_size(&mut encoder, metrics, turns, |times| seconds(times.turns_total))?;
        line.as_ref().map_or(Ok(()), |line| uplink(&mut encoder, line))
    }
}

/// Name, help and unit of a metric.
type About = (&'static str, &'static str, Option<Unit>);

impl Told {
    /// A counter for each set of labels.
    fn counts(&self, encoder: &mut DescriptorEncoder, about: About, value: fn(&Count) -> u64) -> fmt::Result {
        let Told(Status { classes, .. }, metrics) = self;
        let mut family = described(encoder, &about, MetricType::Counter)?;
        for (labels, count) in metrics.responses() {
            let Labels { site, class, protocol, size, status } = *labels;
            let class = classes.get(usize::from(class)).map_or("", |class| &class.name);
            let (protocol, status) = (format!("HTTP/{protocol}"), format!("{status}xx"));
            let labels: &Labelled = &[
                ("site", metrics.site_name(site)),
                ("class", class),
                ("protocol", &protocol),
                ("size", SIZES[usize::from(size)].1),
                ("status", &status),
            ];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(count), None)?;
        }
        Ok(())
    }
}

fn times(encoder: &mut DescriptorEncoder, metrics: &Metrics) -> fmt::Result {
    let about = ("response", "Time from a request to the last byte of its whole response", Some(Unit::Seconds));
    let mut family = described(encoder, &about, MetricType::Histogram)?;
    for (times, (_, size)) in metrics.times().iter().zip(SIZES) {
        let bounds = TIMES_MS.iter().map(|ms| *ms as f64 / 1000.0).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
        let (sum, count) = (seconds(times.total), times.buckets.iter().sum());
        let labels = [("size", size)];
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn by_size(encoder: &mut DescriptorEncoder, metrics: &Metrics, about: About, value: fn(&Times) -> f64) -> fmt::Result {
    let mut family = described(encoder, &about, MetricType::Counter)?;
    for (times, (_, size)) in metrics.times().iter().zip(SIZES) {
        let labels = [("size", size)];
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(times), None)?;
    }
    Ok(())
}

fn uplink(encoder: &mut DescriptorEncoder, line: &Line) -> fmt::Result {
    let (Line::Read { rate, .. } | Line::Found(LineStatus { rate, .. })) = line;
    let rates = [
        ("uplink_rate", "Rate of the line as far as it is known", *rate),
        ("uplink_pace", "Rate that bytes leave at", line.pace()),
    ];
    for (name, help, rate) in rates {
        let about = (name, help, Some(Unit::Other("bits_per_second".into())));
        let bits = rate.map(Rate::bits_per_s);
        let mut gauge = described(encoder, &about, MetricType::Gauge)?;
        bits.map_or(Ok(()), |bits| gauge.encode_gauge(&(bits as f64)))?;
    }
    Ok(())
}

fn described<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    (name, help, unit): &'e About,
    kind: MetricType,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit.as_ref(), kind)
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::metrics::Ended;

    /// Of a line whose rate is known.
    fn said() -> String {
        let mut metrics = Metrics::default();
        metrics.replace_sites(["a\"b"].into_iter());
        let labels = Labels { site: 0, class: 0, protocol: 2, size: 1, status: 2 };
        let ended = Ended { took: Nanos::from_millis(2), sent_bytes: 20_000, is_whole: true, is_compared: true };
        metrics.on_end(labels, &ended);
        let line = Some(Line::Read { interface: "eth0".into(), rate: Some("10mbit".parse().unwrap()) });
        text_of(Status { classes: vec![], line, metrics: Some(metrics), wire_bytes: 7 })
    }

    /// The dashboard, the rules and the documentation name nothing else.
    #[test]
    fn what_others_ask_for_is_there() {
        let said = said();
        let mut names = 0;
        for text in [
            include_str!("../../../../../packaging/grafana/weir.json"),
            include_str!("../../../../../packaging/prometheus/weir.rules.yml"),
            include_str!("../../../../../docs/reference.md"),
        ] {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            for name in words.filter(|word| word.starts_with("weir_")) {
                // A histogram is documented by the name of all its parts.
                let is_there = [format!("{name}{{"), format!("{name} "), format!("{name}_bucket{{")];
                assert!(is_there.iter().any(|name| said.contains(name)), "{name}");
                names += 1;
            }
        }
        assert!(names > 20, "{names}");
    }

    #[test]
    fn it_is_openmetrics() {
        let said = said();
        for line in [
            "# TYPE weir_responses counter",
            "weir_responses_total{site=\"a\\\"b\",class=\"\",protocol=\"HTTP/2\",size=\"100KB\",status=\"2xx\"} 1",
            "weir_response_bytes_total{site=\"a\\\"b\",class=\"\",protocol=\"HTTP/2\",size=\"100KB\",status=\"2xx\"} 20000",
            "weir_response_seconds_bucket{le=\"0.003\",size=\"100KB\"} 1",
            "weir_response_seconds_count{size=\"100KB\"} 1",
            "weir_wire_bytes_total 7",
            "weir_turns_responses_total{size=\"100KB\"} 0.0",
            "weir_response_seconds_bucket{le=\"+Inf\",size=\"100KB\"} 1",
            "weir_uplink_pace_bits_per_second 10000000.0",
        ] {
            assert!(said.lines().any(|known| known == line), "{line}\n{said}");
        }
        assert!(said.ends_with("# EOF\n"));
    }
}
