use std::sync::Arc;

use http::{Request, Shown};
use units::Nanos;
use units::memory::{Account, Charge};

use super::UpstreamEntry;
use crate::logging::{Log, Requested};

/// The data for the access log and the objectives while a response is being sent.
pub struct LogEntry {
    /// The log for the line, if any. It does not change if the sites are reloaded meanwhile.
    pub log: Option<Arc<Log>>,
    request: RequestText,
    /// Set if an upstream answers the request.
    pub passed_on: Option<Box<UpstreamEntry>>,
    /// True if the body passes through a stage, so that its size is known only after it was sent.
    pub is_staged: bool,
    /// True if the response counts for the objectives of its class.
    pub is_measured: bool,
    /// The number of the site in the metrics.
    pub site: u32,
    /// True if the response time is compared with the time that it would have if responses took turns.
    pub is_compared: bool,
    /// The reason why the request was refused, if it was.
    pub reason: Option<&'static str>,
    pub status: u16,
    pub body_bytes: u64,
    /// Always far below 4 GiB.
    pub head_bytes: u32,
    /// The sent bytes of the response that the metrics and the objectives already include.
    pub counted_bytes: u64,
    pub arrived_at: Nanos,
    /// The charge for the text of the request, which a client may make as long as a head.
    charge: Option<Charge>,
    /// The time at which the kernel took the first byte, if that was before the response became a job.
    pub first_byte_at: Option<Nanos>,
}

/// A request as the access log shows it.
struct RequestText {
    /// The method, target, referer, user agent, host and user, concatenated. The form is compact because the client
    /// determines how long the entry is kept, and may have up to a hundred entries.
    text: Box<[u8]>,
    /// The end of each part in `text`. If the method is empty, the target is the received bytes instead of a request
    /// line.
    ends: [u32; 6],
    has_referer: bool,
    has_user_agent: bool,
    has_host: bool,
    has_user: bool,
    /// Major and minor.
    version: (u8, u8),
}

impl LogEntry {
    /// Creates the entry of a request, with this user if the client has logged in.
    pub fn new(
        request: &Request,
        version: (u8, u8),
        user: Option<&[u8]>,
        log: Arc<Log>,
        arrived_at: Nanos,
    ) -> LogEntry {
        let fields = [request.fields.referer, request.fields.user_agent, request.fields.host, user];
        let begin = [request.method.token(), request.target];
        LogEntry::of(Some(log), begin, fields, version, arrived_at)
    }

    /// Creates the entry of a request that is not logged.
    pub fn bare(version: (u8, u8), arrived_at: Nanos) -> LogEntry {
        LogEntry::of(None, [b""; 2], [None; 4], version, arrived_at)
    }

    /// Creates the entry of a refused request.
    pub fn refused(
        shown: &Shown,
        version: (u8, u8),
        reason: &'static str,
        log: Arc<Log>,
        arrived_at: Nanos,
    ) -> LogEntry {
        let line = LogEntry::of(Some(log), [&shown.method, &shown.target], [None; 4], version, arrived_at);
        LogEntry { reason: Some(reason), ..line }
    }

    fn of(
        log: Option<Arc<Log>>,
        begin: [&[u8]; 2],
        fields: [Option<&[u8]>; 4],
        version: (u8, u8),
        arrived_at: Nanos,
    ) -> LogEntry {
        LogEntry {
            log,
            request: RequestText::new(begin, fields, version),
            passed_on: None,
            is_staged: false,
            is_measured: false,
            site: u32::MAX,
            is_compared: false,
            reason: None,
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            counted_bytes: 0,
            arrived_at,
            charge: None,
            first_byte_at: None,
        }
    }

    /// The bytes of memory of the request's text.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.request.text.len()
    }

    /// The HTTP version, major and minor: 1.0, 1.1 (also for later minor versions of 1, which are served as 1.1), 2.0
    /// or 3.0.
    pub fn protocol(&self) -> (u8, u8) {
        let (major, minor) = self.request.version;
        (major, minor.min(1))
    }

    /// The size of the whole response, head and body.
    pub fn bytes(&self) -> u64 {
        self.body_bytes.saturating_add(self.head_bytes.into())
    }

    /// Records that the whole response was sent, in `sent_bytes`.
    pub fn on_whole(&mut self, sent_bytes: u64) {
        if self.is_staged {
            self.body_bytes = sent_bytes.saturating_sub(self.head_bytes.into());
        }
    }

    /// Charges the entry's memory to this account until the entry is dropped.
    pub fn count_in(&mut self, account: &Account) {
        self.charge = Some(Charge::new(account, self.request.text.len()));
    }

    pub fn requested(&self) -> Requested<'_> {
        self.request.view()
    }
}

impl RequestText {
    /// Joins method and target, then referer, user agent, host and user. A head is far below 4 GiB.
    fn new([method, target]: [&[u8]; 2], fields: [Option<&[u8]>; 4], version: (u8, u8)) -> RequestText {
        let [referer, user_agent, host, user] = fields;
        let [third, fourth, fifth, sixth] = fields.map(Option::unwrap_or_default);
        let texts = [method, target, third, fourth, fifth, sixth];
        let mut end = 0;
        RequestText {
            text: texts.concat().into(),
            ends: texts.map(|text| {
                end += text.len() as u32;
                end
            }),
            has_referer: referer.is_some(),
            has_user_agent: user_agent.is_some(),
            has_host: host.is_some(),
            has_user: user.is_some(),
            version,
        }
    }

    fn part(&self, nth: usize) -> &[u8] {
        let begin = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[nth] as usize]
    }

    fn view(&self) -> Requested<'_> {
        Requested {
            method: self.part(0),
            target: self.part(1),
            version: self.version,
            referer: self.has_referer.then(|| self.part(2)),
            user_agent: self.has_user_agent.then(|| self.part(3)),
            host: self.has_host.then(|| self.part(4)),
            user: self.has_user.then(|| self.part(5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each response under way has a line: with the allocator's own 8 bytes it takes 160 bytes of memory.
    #[test]
    fn a_line_is_small() {
        assert!(size_of::<LogEntry>() <= 152, "{}", size_of::<LogEntry>());
    }
}
