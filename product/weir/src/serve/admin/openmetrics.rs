//! The metrics of a server in the text format of OpenMetrics 1.0. Labels are sites, classes, protocols, sizes, statuses
//! and upstreams, never paths or clients.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use server::metrics::{Count, Labels, Metrics, SIZES, TIMES_MS, Times, protocol_name};
use server::{Line, LineStatus, Server, Status, UpstreamStatus};
use units::Nanos;

use super::process::Figures;

/// The media type of [`text_of`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The label `size_class` of each of [`SIZES`].
const SIZE_CLASSES: [&str; SIZES.len()] = ["le_10kB", "le_100kB", "le_1MB", "gt_1MB"];

/// Everything that the metrics are made of.
#[derive(Debug)]
pub struct Known {
    pub status: Status,
    /// The number of open connections, and its maximum.
    pub connections: [usize; 2],
    /// The sites that have a certificate, and when each certificate expires.
    pub certificates: Vec<(String, SystemTime)>,
    pub upstreams: Vec<UpstreamStatus>,
    pub process: Figures,
}

impl Known {
    /// Collects the metrics; `None` if an event loop does not answer in time.
    pub fn of(server: &Server, process: Figures) -> Option<Known> {
        Some(Known {
            status: server.status()?,
            connections: [server.connections(), server.connections_max()],
            certificates: server.certificates(),
            upstreams: server.upstreams()?,
            process,
        })
    }
}

pub fn text_of(mut known: Known) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(known.process));
    let metrics = known.status.metrics.take().unwrap_or_default();
    registry.sub_registry_with_prefix("weir").register_collector(Box::new(Told(known, metrics)));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("memory takes all");
    out
}

/// The metrics whose names begin with `weir_`.
#[derive(Debug)]
struct Told(Known, Metrics);

/// The label sets of one counter.
type Labelled<'a> = [(&'static str, &'a str)];

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Told(known, metrics) = self;
        let Status { line, wire_bytes, .. } = &known.status;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder.encode_descriptor("build", "The program", None, MetricType::Info)?.encode_info(&version)?;
        self.counts(&mut encoder, ("http_responses", "Responses that have ended", None), |count| count.responses)?;
        self.counts(
            &mut encoder,
            ("http_responses_aborted", "Responses that ended before their last byte", None),
            |count| count.cut,
        )?;
        let bytes = (
            "http_response",
            "Bytes of responses that were sent, with heads and responses in flight",
            Some(Unit::Bytes),
        );
        self.counts(&mut encoder, bytes, |count| count.bytes)?;
        let wire = ("wire", "Bytes handed to the link at a pace, with their headers", Some(Unit::Bytes));
        let mut wire = described(&mut encoder, &wire, MetricType::Counter)?;
        wire.encode_counter::<NoLabelSet, _, u64>(wire_bytes, None)?;
        times(&mut encoder, metrics)?;
        let ordered = "Complete responses of known size that were sent at a pace, in order";
        by_size(&mut encoder, metrics, ("ordered_responses", ordered, None), |times| times.compared as f64)?;
        let took =
            ("ordered_responses", "Time of the ordered responses, from request to last byte", Some(Unit::Seconds));
        by_size(&mut encoder, metrics, took, |times| seconds(times.compared_total))?;
        let fair = "Ordered responses that would have ended by now if all ready responses had shared the pace evenly";
        by_size(&mut encoder, metrics, ("fair_share_responses", fair, None), |times| times.turns as f64)?;
        let fair = ("fair_share", "Time that the fair share responses would have taken", Some(Unit::Seconds));
        by_size(&mut encoder, metrics, fair, |times| seconds(times.turns_total))?;
        line.as_ref().map_or(Ok(()), |line| uplink(&mut encoder, line))?;
        connections(&mut encoder, known.connections)?;
        certificates(&mut encoder, &known.certificates)?;
        upstreams(&mut encoder, &known.upstreams)
    }
}

/// Collects the process metrics, named as in the Prometheus client libraries.
impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let cpu = ("process_cpu", "Processor time used, of user and system", Some(Unit::Seconds));
        described(&mut encoder, &cpu, MetricType::Counter)?.encode_counter::<NoLabelSet, _, u64>(&self.cpu_s, None)?;
        let count = |number: Option<u64>| number.map(|number| number as f64);
        for (name, help, unit, number) in [
            ("process_resident_memory", "Memory that is resident", Some(Unit::Bytes), count(self.resident_bytes)),
            ("process_virtual_memory", "Address space", Some(Unit::Bytes), count(self.virtual_bytes)),
            (
                "process_virtual_memory_max",
                "Limit of the address space",
                Some(Unit::Bytes),
                count(self.virtual_bytes_max),
            ),
            ("process_open_fds", "File descriptors that are open", None, count(self.open_descriptors)),
            ("process_max_fds", "Maximum number of open file descriptors", None, count(self.descriptors_max)),
            ("process_threads", "Operating system threads", None, count(self.threads)),
            ("process_start_time", "Start of the process since 1970", Some(Unit::Seconds), Some(self.started_s)),
        ] {
            gauge(&mut encoder, &(name, help, unit), number)?;
        }
        Ok(())
    }
}

/// Writes a gauge without labels. Without a value, writes only its description.
fn gauge(encoder: &mut DescriptorEncoder, about: &About, number: Option<f64>) -> fmt::Result {
    let mut gauge = described(encoder, about, MetricType::Gauge)?;
    number.map_or(Ok(()), |number| gauge.encode_gauge(&number))
}

fn connections(encoder: &mut DescriptorEncoder, [open, max]: [usize; 2]) -> fmt::Result {
    gauge(encoder, &("connections", "Connections of clients that are open", None), Some(open as f64))?;
    let about = ("connections_max", "Maximum number of open connections of clients", None);
    gauge(encoder, &about, Some(max as f64))
}

fn certificates(encoder: &mut DescriptorEncoder, certificates: &[(String, SystemTime)]) -> fmt::Result {
    let unit = Some(Unit::Seconds);
    let about = ("certificate_not_after_timestamp", "End of the certificate of a site, since 1970", unit);
    let mut family = described(encoder, &about, MetricType::Gauge)?;
    for (site, end) in certificates {
        let labels = [("site", site.as_str())];
        // An end before 1970 is written as 1970.
        let end = end.duration_since(UNIX_EPOCH).unwrap_or_default();
        family.encode_family(&labels)?.encode_gauge(&(end.as_secs() as f64))?;
    }
    Ok(())
}

fn upstreams(encoder: &mut DescriptorEncoder, upstreams: &[UpstreamStatus]) -> fmt::Result {
    let healthy = "1 for an upstream that answers, 0 for one whose health checks or connections fail";
    let requests = "Requests in flight to an upstream, and those that wait for a place there";
    let [healthy, requests] = [("upstream_healthy", healthy), ("upstream_requests", requests)];
    let of: [fn(&UpstreamStatus) -> f64; 2] =
        [|upstream| f64::from(upstream.is_healthy), |upstream| upstream.requests as f64];
    for ((name, help), value) in [healthy, requests].into_iter().zip(of) {
        let about = (name, help, None);
        let mut family = described(encoder, &about, MetricType::Gauge)?;
        for upstream in upstreams {
            let labels = [("upstream", upstream.name.as_str())];
            family.encode_family(&labels)?.encode_gauge(&value(upstream))?;
        }
    }
    Ok(())
}

/// Name, help and unit of a metric.
type About = (&'static str, &'static str, Option<Unit>);

impl Told {
    /// Writes a counter for each set of labels.
    fn counts(&self, encoder: &mut DescriptorEncoder, about: About, value: fn(&Count) -> u64) -> fmt::Result {
        let Told(Known { status: Status { classes, .. }, .. }, metrics) = self;
        let mut family = described(encoder, &about, MetricType::Counter)?;
        for (labels, count) in metrics.responses() {
            let Labels { site, class, protocol, size, status } = *labels;
            let class = classes.get(usize::from(class)).map_or("", |class| &class.name);
            let (protocol, status) = (protocol_name(protocol), format!("{status}xx"));
            let labels: &Labelled = &[
                ("site", metrics.site_name(site)),
                ("class", class),
                ("protocol", &protocol),
                ("size_class", SIZE_CLASSES[usize::from(size)]),
                ("status", &status),
            ];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(count), None)?;
        }
        Ok(())
    }
}

fn times(encoder: &mut DescriptorEncoder, metrics: &Metrics) -> fmt::Result {
    let help = "Time from a request to the last byte of its complete response";
    let about = ("http_response_duration", help, Some(Unit::Seconds));
    let mut family = described(encoder, &about, MetricType::Histogram)?;
    for (times, size) in metrics.times().iter().zip(SIZE_CLASSES) {
        let bounds = TIMES_MS.iter().map(|ms| *ms as f64 / 1000.0).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
        let (sum, count) = (seconds(times.total), times.buckets.iter().sum());
        let labels = [("size_class", size)];
        family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn by_size(encoder: &mut DescriptorEncoder, metrics: &Metrics, about: About, value: fn(&Times) -> f64) -> fmt::Result {
    let mut family = described(encoder, &about, MetricType::Counter)?;
    for (times, size) in metrics.times().iter().zip(SIZE_CLASSES) {
        let labels = [("size_class", size)];
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(times), None)?;
    }
    Ok(())
}

fn uplink(encoder: &mut DescriptorEncoder, line: &Line) -> fmt::Result {
    let (Line::Read { rate, .. } | Line::Found(LineStatus { rate, .. })) = line;
    let rates = [
        ("uplink_rate", "Rate of the uplink, if it is known", *rate),
        ("uplink_pace", "Rate that responses are sent at", line.pace()),
    ];
    for (name, help, rate) in rates {
        let about = (name, help, Some(Unit::Other("bytes_per_second".into())));
        gauge(encoder, &about, rate.map(|rate| rate.bits_per_s() as f64 / 8.0))?;
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

    /// The metrics of a server whose uplink has a known rate.
    fn said() -> String {
        let mut metrics = Metrics::default();
        metrics.replace_sites(["a\"b"].into_iter());
        let labels = Labels { site: 0, class: 0, protocol: (2, 0), size: 1, status: 2 };
        let ended = Ended {
            took: Nanos::from_millis(2),
            sent_bytes: 20_000,
            is_whole: true,
            is_timed: true,
            is_compared: true,
        };
        metrics.on_end(labels, &ended);
        let line = Some(Line::Read { interface: "eth0".into(), rate: Some("10mbit".parse().unwrap()) });
        let upstream = |name: &str, is_healthy, requests| UpstreamStatus { name: name.into(), is_healthy, requests };
        text_of(Known {
            status: Status { classes: vec![], line, metrics: Some(metrics), wire_bytes: 7 },
            connections: [3, 100],
            certificates: vec![("a.org".into(), UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000))],
            upstreams: vec![upstream("127.0.0.1:3000", true, 2), upstream("unix:/run/app.sock", false, 0)],
            process: Figures {
                cpu_s: 1.5,
                open_descriptors: Some(20),
                threads: Some(4),
                started_s: 1_795_255_200.25,
                ..Figures::default()
            },
        })
    }

    /// The dashboard, the rules and the documentation use only names that exist.
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
            for name in words.filter(|word| word.starts_with("weir_") || word.starts_with("process_")) {
                // A histogram is documented by the name of all its parts, and a gauge without a number by its type.
                let parts = [format!("{name}{{"), format!("{name} "), format!("{name}_bucket{{")];
                let is_there = parts.map(|part| format!("\n{part}")).into_iter().chain([format!("# TYPE {name} ")]);
                assert!(is_there.into_iter().any(|name| said.contains(&name)), "{name}");
                names += 1;
            }
        }
        assert!(names > 20, "{names}");
    }

    #[test]
    fn it_is_openmetrics() {
        let said = said();
        for line in [
            "# TYPE weir_http_responses counter",
            "weir_http_responses_total{site=\"a\\\"b\",class=\"\",protocol=\"HTTP/2.0\",size_class=\"le_100kB\",status=\"2xx\"} 1",
            "weir_http_response_bytes_total{site=\"a\\\"b\",class=\"\",protocol=\"HTTP/2.0\",size_class=\"le_100kB\",status=\"2xx\"} 20000",
            "weir_http_response_duration_seconds_bucket{le=\"0.003\",size_class=\"le_100kB\"} 1",
            "weir_http_response_duration_seconds_count{size_class=\"le_100kB\"} 1",
            "weir_wire_bytes_total 7",
            "weir_ordered_responses_total{size_class=\"le_100kB\"} 1.0",
            "weir_ordered_responses_seconds_total{size_class=\"le_100kB\"} 0.002",
            "weir_fair_share_responses_total{size_class=\"le_100kB\"} 0.0",
            "weir_fair_share_seconds_total{size_class=\"gt_1MB\"} 0.0",
            "weir_http_response_duration_seconds_bucket{le=\"+Inf\",size_class=\"le_100kB\"} 1",
            "weir_uplink_pace_bytes_per_second 1250000.0",
            "# TYPE weir_connections gauge",
            "weir_connections 3.0",
            "weir_connections_max 100.0",
            "weir_certificate_not_after_timestamp_seconds{site=\"a.org\"} 1800000000.0",
            "weir_upstream_healthy{upstream=\"127.0.0.1:3000\"} 1.0",
            "weir_upstream_requests{upstream=\"127.0.0.1:3000\"} 2.0",
            "weir_upstream_healthy{upstream=\"unix:/run/app.sock\"} 0.0",
            "# TYPE process_cpu_seconds counter",
            "process_cpu_seconds_total 1.5",
            "process_open_fds 20.0",
            "process_threads 4.0",
            "process_start_time_seconds 1795255200.25",
            "# TYPE process_resident_memory_bytes gauge",
        ] {
            assert!(said.lines().any(|known| known == line), "{line}\n{said}");
        }
        assert!(said.ends_with("# EOF\n"));
    }
}
