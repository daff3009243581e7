//! The records of an event loop: each response's end, in the access log and for the objective of its class, and the
//! lines of the error log.

mod error_lines;
mod response_end;
mod status;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Shown};
use sched::line::{Limit, Status as LineStatus};
use units::Nanos;

use crate::classes::Assigned;
use crate::connection::LogEntry;
use crate::logging::{AccessLog, Entry, Log, Outcome};
use crate::metrics::{self, Labels, Metrics, size_class};
use crate::objectives::{Book, Ended, Found, ResponsesStatus, Status, StatusChannel, UnderWay};
use crate::send::{Line, Link};
use crate::upstream::{RoutesStatus, UpstreamStatus};
use error_lines::Failures;
pub use error_lines::Kind;
use response_end::{ERROR_STATUS_MIN, LATE_STATUS};
pub use response_end::{ResponseEnd, UNANSWERED_STATUS, outcome_of};
pub use status::{Sources, sending};

pub struct Journal {
    log: AccessLog,
    /// The latest time for the next flush of the access log.
    flush_at: Option<Nanos>,
    /// The counts for the objective of each configured class; `None` if no classes are configured.
    objectives: Option<Box<Book>>,
    /// The metrics; `None` if they are disabled.
    metrics: Option<Box<Metrics>>,
    status_channel: Arc<StatusChannel>,
    failures: Failures,
    /// The maximum number of wire bytes reported so far. Because of it, a refund in the ledger cannot make a counter
    /// fall.
    wire_bytes: u64,
}

/// The data for an access log line that is not stored with the request.
pub struct Context<'c> {
    pub remote: IpAddr,
    pub connection_reused: bool,
    pub class: Option<&'c str>,
    pub ahead_bytes: Option<u64>,
    /// The reason why the connection ended, if the line is about a connection.
    pub broken: Option<&'c str>,
}

impl Journal {
    /// Creates a journal. `assigned` has the configured classes.
    pub fn new(log: AccessLog, status_channel: Arc<StatusChannel>, assigned: Option<&Assigned>) -> Journal {
        let objectives = assigned.map(|assigned| Box::new(Book::new(assigned)));
        let (metrics, failures, wire_bytes) = (None, Failures::default(), 0);
        Journal { log, flush_at: None, objectives, metrics, status_channel, failures, wire_bytes }
    }

    /// Also counts responses of these sites for the metrics.
    pub fn with_metrics<'a>(self, sites: impl Iterator<Item = &'a str>) -> Journal {
        let mut metrics = Box::<Metrics>::default();
        metrics.replace_sites(sites);
        Journal { metrics: Some(metrics), ..self }
    }

    /// Writes a line to the error log.
    pub fn error(&self, text: impl Display) {
        self.log.error(&text.to_string());
    }

    /// Records a failure of a client or a file. Many failures of one kind result in a few lines.
    pub fn fail(&mut self, now: Nanos, kind: Kind, what: impl Display) {
        self.failures.add(kind, what);
        self.log_failures(now);
    }

    /// Logs the failures that are due. Called about once a second, so that the last of many failures is logged too.
    pub fn log_failures(&mut self, now: Nanos) {
        self.failures.lines(now).for_each(|line| self.log.error(&line));
    }

    /// Returns the data about a request to keep until its response has ended, if a log, the objectives or the metrics
    /// need it. The version is major and minor. `site` is the index among the current sites.
    pub fn begin(
        &self,
        now: Nanos,
        log: Option<&Arc<Log>>,
        (request, version, user): (&Request, (u8, u8), Option<&[u8]>),
        site: Option<usize>,
    ) -> Option<Box<LogEntry>> {
        let (is_measured, metrics) = (self.objectives.is_some(), self.metrics.as_ref());
        let mut line = match log {
            Some(log) => LogEntry::new(request, version, user, log.clone(), now),
            None if is_measured || metrics.is_some() => LogEntry::bare(version, now),
            None => return None,
        };
        line.is_measured = is_measured;
        line.site = metrics.map_or(line.site, |metrics| metrics.site(site));
        Some(Box::new(line))
    }

    /// Returns the data about a refused request, if a log or the metrics need it. It does not count for objectives.
    pub fn refused(
        &self,
        now: Nanos,
        log: Option<&Arc<Log>>,
        (shown, version, reason): (&Shown, (u8, u8), &'static str),
    ) -> Option<Box<LogEntry>> {
        match log {
            Some(log) => Some(Box::new(LogEntry::refused(shown, version, reason, log.clone(), now))),
            None => self.metrics.is_some().then(|| Box::new(LogEntry::bare(version, now))),
        }
    }

    /// Replaces the current sites, in the order of their indices.
    pub fn replace_sites<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        if let Some(metrics) = &mut self.metrics {
            metrics.replace_sites(names);
        }
    }

    /// Counts the bytes of a response in progress that have not been counted yet. `sent_bytes` is the total sent so
    /// far.
    pub fn count_sent(&mut self, class: u16, line: &mut LogEntry, sent_bytes: u64) {
        let more_bytes = sent_bytes.saturating_sub(line.counted_bytes);
        if more_bytes == 0 {
            return;
        }
        line.counted_bytes += more_bytes;
        if let Some(metrics) = &mut self.metrics {
            metrics.on_sent(labels(class, line), more_bytes);
        }
        if let Some(objectives) = self.objectives.as_mut().filter(|_| line.is_measured) {
            objectives.on_sent(class, more_bytes);
        }
    }

    /// Counts a response that has ended, also for the objectives. `clock` is read if it has ended just now.
    pub fn count(&mut self, now: Nanos, class: u16, line: &LogEntry, ending: &ResponseEnd, clock: impl Fn() -> Nanos) {
        let (ended_at, cut) = ending.measured();
        let took = ended_at.unwrap_or_else(clock) - line.arrived_at;
        let (sent_bytes, is_whole) = (cut.unwrap_or(line.bytes()), cut.is_none());
        let sent_bytes = sent_bytes.saturating_sub(line.counted_bytes);
        if let Some(metrics) = &mut self.metrics {
            // The request of a 408 of ours never came, so no time has passed since it.
            let is_timed = line.status != LATE_STATUS || line.passed_on.is_some();
            let ended = metrics::Ended { took, sent_bytes, is_whole, is_timed, is_compared: line.is_compared };
            metrics.on_end(labels(class, line), &ended);
        }
        let Some(objectives) = self.objectives.as_mut().filter(|_| line.is_measured) else { return };
        let (body_bytes, is_right) = (line.body_bytes, line.status < ERROR_STATUS_MIN);
        let ended = Ended { took, body_bytes, sent_bytes, is_whole, is_right };
        objectives.count(now, class, &ended);
    }

    /// Writes the access log line of a response that has ended, if its site has a log. `clock` is the current time, on
    /// the loop's clock and since 1970.
    pub fn write(&mut self, clock: (Nanos, Duration), line: &LogEntry, ending: ResponseEnd, context: &Context<'_>) {
        let Some(log) = &line.log else { return };
        let sizes = ending.sizes(line);
        // Most responses depart in the turn in which their request arrived, and the clock of a turn does not advance.
        let times = ending.times(line, sizes.head > 0, clock, &mut self.log);
        let entry = Entry {
            remote: context.remote,
            request: line.requested(),
            status: line.status,
            sizes,
            times,
            passed_on: line.passed_on.as_ref().map(|passed_on| passed_on.view(line.arrived_at, times.first_byte)),
            outcome: ending.outcome().unwrap_or(Outcome::Complete),
            reason: context.broken.or(line.reason),
            connection_reused: context.connection_reused,
            class: context.class,
            ahead_bytes: context.ahead_bytes,
        };
        self.log.write(log, &entry);
    }

    /// Replaces the classes in force.
    pub fn replace_classes(&mut self, assigned: &Assigned) {
        if let Some(objectives) = &mut self.objectives {
            objectives.replace(assigned);
        }
    }

    /// Logs each class that missed its objective in the past minute.
    pub fn log_missed(&mut self, now: Nanos) {
        let Some(objectives) = &mut self.objectives else { return };
        objectives.lines(now).iter().for_each(|line| self.log.error(line));
    }

    /// Flushes the access log at the end of a turn.
    pub fn flush(&mut self, now: Nanos) {
        self.flush_at = self.log.flush(now);
    }

    /// Returns the next time at which something must be written or evaluated.
    pub fn wake_at(&self) -> Option<Nanos> {
        let due = self.objectives.as_ref().and_then(|objectives| objectives.due());
        [self.flush_at, due].into_iter().flatten().min()
    }

    /// Publishes the rate found for the line, which a thread stores across restarts. A configured maximum is not
    /// published, because it may differ at the next start.
    pub fn leave_found_rate(&self, now: Nanos, link: &Link) {
        if let Some(found) = found(now, link.line(now)) {
            self.leave_rate(found);
        }
    }

    fn leave_rate(&self, found: Found) {
        self.status_channel.leave(found);
    }

    /// Answers a pending query for the data learned about routes.
    pub fn answer_routes(&self, routes: impl FnOnce() -> RoutesStatus) {
        self.status_channel.routes.answer(routes);
    }

    /// Answers a pending query for the state of upstreams.
    pub fn answer_upstreams(&self, upstreams: impl FnOnce() -> Vec<UpstreamStatus>) {
        self.status_channel.upstreams.answer(upstreams);
    }

    /// Answers a pending query for the responses in flight.
    pub fn answer_responses(&self, responses: impl FnOnce() -> ResponsesStatus) {
        self.status_channel.responses.answer(responses);
    }

    /// Returns the site of a response; empty if metrics are disabled or the response has no site.
    pub fn site_name(&self, line: &LogEntry) -> &str {
        self.metrics.as_ref().map_or("", |metrics| metrics.site_name(line.site))
    }

    /// Answers a pending query for the classes and the state of the line.
    pub fn answer_status(
        &mut self,
        now: Nanos,
        link: &mut Link,
        under_way: impl FnOnce(&Link) -> BTreeMap<u16, UnderWay>,
    ) {
        let (objectives, metrics) = (self.objectives.as_mut(), self.metrics.as_deref());
        self.wire_bytes = self.wire_bytes.max(link.scheduler().pacer().ledger().charged_bytes());
        self.status_channel.status.answer(|| {
            let turns = link.scheduler_mut().turns(now);
            let metrics = metrics.map(|metrics| metrics.with_turns(turns));
            let classes = objectives.map_or(vec![], |objectives| objectives.status(now, &under_way(link)));
            Status { classes, line: link.line(now), metrics, wire_bytes: self.wire_bytes }
        });
    }
}

/// Returns the labels under which a response is counted. As long as its final size is unknown, the size label is based
/// on the bytes known so far.
fn labels(class: u16, line: &LogEntry) -> Labels {
    let size = size_class(line.bytes().max(line.counted_bytes));
    Labels { site: line.site, class, protocol: line.protocol(), size, status: (line.status / 100) as u8 }
}

#[cfg(test)]
impl Journal {
    /// Returns the metrics; the first call enables them.
    pub fn metrics(&mut self) -> &Metrics {
        self.metrics.get_or_insert_default()
    }

    /// Writes later lines to another log.
    pub fn replace_log(&mut self, log: AccessLog) {
        self.log = log;
    }
}

/// Returns the rate that was found for a line, unless it equals the configured maximum.
fn found(now: Nanos, line: Option<Line>) -> Option<Found> {
    match line {
        Some(Line::Found(LineStatus { rate: Some(rate), age, limit, .. })) if limit != Limit::Ceiling => {
            Some(Found { rate, at: now - age })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sched::{Pace, Scheduler};

    use super::*;
    use crate::classes::ClassesConfig;
    use crate::logging::Logs;
    use crate::threads::Threads;

    fn assigned() -> Assigned {
        let class =
            "[[class]]\nname='a'\nobjective='p99 of responses <= 64KiB under 200ms'\n[[class.rule]]\npath='/*'\n";
        let read = config::read(format!("[[site]]\nroot='a'\n{class}").as_bytes()).unwrap();
        let (assignment, objectives) = (read.assignment(), read.objectives());
        Assigned::new(&ClassesConfig { table: read.class_table().unwrap(), assignment, objectives })
    }

    fn journal(assigned: Option<&Assigned>) -> (Journal, Arc<StatusChannel>, Threads) {
        let threads = Threads::start(None, || {}).unwrap();
        let (logs, status_channel) = (Logs::start(&threads, false).unwrap(), Arc::<StatusChannel>::default());
        (Journal::new(logs.handle(), Arc::clone(&status_channel), assigned), status_channel, threads)
    }

    /// A link without a pace.
    fn link() -> Link {
        Link::new(Scheduler::new(sched::policy::parse("fair").unwrap(), Pace::UNLIMITED), None)
    }

    fn status(journal: &mut Journal, status_channel: &StatusChannel) -> Status {
        let answer = || journal.answer_status(Nanos::from_secs(1), &mut link(), |_| BTreeMap::new());
        status_channel.status.ask(answer, Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn without_a_log_classes_and_metrics_nothing_is_kept_of_a_request() {
        let head = http::http1::parse_request(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n", &http::Limits::default());
        let request = head.unwrap().unwrap().request;
        let (unlogged, ..) = journal(None);
        assert!(unlogged.begin(Nanos::ZERO, None, (&request, (1, 1), None), None).is_none());
        let (counted, ..) = journal(None);
        let counted = counted.with_metrics(["a"].into_iter());
        let line = counted.begin(Nanos::ZERO, None, (&request, (1, 1), None), Some(0)).unwrap();
        assert!(!line.is_measured && line.log.is_none() && line.site == 0 && line.requested().target.is_empty());
        let (measured, ..) = journal(Some(&assigned()));
        let line = measured.begin(Nanos::ZERO, None, (&request, (1, 1), None), None).unwrap();
        assert!(line.is_measured && line.log.is_none());
    }

    #[test]
    fn an_end_counts_for_its_class_and_is_asked_for_by_another_thread() {
        let (mut journal, status_channel, _threads) = journal(Some(&assigned()));
        let mut line = LogEntry::bare((1, 1), Nanos::ZERO);
        line.is_measured = true;
        (line.status, line.head_bytes, line.body_bytes) = (200, 100, 1000);
        let clock = || Nanos::from_millis(201);
        journal.count(Nanos::from_millis(201), 0, &line, &ResponseEnd::now(), clock);
        journal.count(Nanos::from_millis(201), 0, &line, &ResponseEnd::now().cut(7, Outcome::Reset), clock);
        assert!(journal.wake_at().is_some(), "a response took longer than its objective");
        let class = status(&mut journal, &status_channel).classes.remove(0);
        assert_eq!((class.responses, class.bytes), (2, 1107));
        assert_eq!(class.objective.unwrap().total.missed, 2, "one that was cut missed it too");
    }

    /// The ledger takes back bytes that a closed connection left unsent, and a counter that falls is one that began
    /// again.
    #[test]
    fn the_wire_bytes_never_fall() {
        let (mut journal, status_channel, _threads) = journal(None);
        let mut of = |bytes| {
            let mut link = link();
            let correction = sched::Correction { charge_bytes: bytes, refund_bytes: 0 };
            link.scheduler_mut().pacer_mut().on_correction(Nanos::ZERO, correction, false);
            let answer = || journal.answer_status(Nanos::from_secs(1), &mut link, |_| BTreeMap::new());
            status_channel.status.ask(answer, Duration::from_secs(60)).unwrap().wire_bytes
        };
        assert_eq!([of(1000), of(900), of(1001)], [1000, 1000, 1001]);
    }

    /// It took no time by its log entry, so it seemed the fastest of all responses.
    #[test]
    fn a_408_of_ours_has_no_time_and_one_of_an_upstream_has() {
        let journal = journal(None).0;
        let mut journal = journal.with_metrics(["a"].into_iter());
        let mut line = LogEntry::bare((1, 1), Nanos::ZERO);
        line.status = LATE_STATUS;
        let mut count = |line: &LogEntry| {
            journal.count(Nanos(1), 0, line, &ResponseEnd::now(), || Nanos(1));
            let timed: u64 = journal.metrics().times()[0].buckets.iter().sum();
            (journal.metrics().responses().map(|(_, count)| count.responses).sum::<u64>(), timed)
        };
        assert_eq!(count(&line), (1, 0));
        line.passed_on =
            Some(Box::new(crate::connection::UpstreamEntry::new("a".into(), Nanos::ZERO, Default::default())));
        assert_eq!(count(&line), (2, 1));
    }

    /// The next start may have another maximum, or none.
    #[test]
    fn a_configured_maximum_is_no_rate_of_the_line() {
        let rate = "2mbit".parse().ok();
        let status = LineStatus {
            bounds: sched::line::Bounds::default(),
            rate,
            pace: rate,
            age: Nanos(2),
            busy_intervals: 9,
            limit: Limit::Line,
        };
        let of = |limit| found(Nanos(7), Some(Line::Found(LineStatus { limit, ..status })));
        assert_eq!(of(Limit::Line), rate.map(|rate| Found { rate, at: Nanos(5) }));
        assert_eq!((of(Limit::Ceiling), found(Nanos(7), None)), (None, None));
    }

    #[test]
    fn a_rate_that_was_found_is_left() {
        let (journal, status_channel, _threads) = journal(None);
        let found = Found { rate: "1mbit".parse().unwrap(), at: Nanos(5) };
        journal.leave_rate(found);
        assert_eq!(status_channel.found(), Some(found));
    }
}
