//! The time that the same responses would take if all ready responses took turns, packet by packet. This is processor
//! sharing, called FAIR in the papers (000, section 2), as in a server without an order behind a fair queue.
//!
//! The real line and the line of turns carry the same bytes at the same instants, so changes of the line and delays of
//! the host affect both alike. A response that waits for its client, a file or an upstream could not be sent in turns
//! either: until the wait is over, it gets no more bytes in turns than were really sent.

use std::collections::BTreeSet;

use units::{Nanos, Rate};

use crate::grow::grow_to;

/// The maximum number of responses that share the line at the same time. Any others are not followed.
pub const SHARING_MAX: usize = 100_000;
/// The value in place of a missing index or slot.
const NONE: u32 = u32::MAX;
/// The value in place of an index if the response has ended in turns but its job has not.
const ENDED: u32 = NONE - 1;
/// The difference below which two byte counts count as equal.
const ALIKE_BYTES: f64 = 0.5;

/// A line that all responses share evenly, like a fluid.
///
/// `served` is the number of bytes that each response on the line has received since the line was last empty. A
/// response stops sharing the line when `served` has grown by the bytes that the response may get (the virtual time of
/// Demers, Keshav and Shenker, 1989). Each change of a response takes O(log n).
#[derive(Debug, Default)]
pub struct Turns {
    /// The responses that share the line now, ordered by the point at which they stop.
    sharing: BTreeSet<(Stop, u32)>,
    followed: Vec<Option<Followed>>,
    vacant: Vec<u32>,
    /// For each job's slot, the index of its followed response, or [`ENDED`] or [`NONE`].
    by_slot: Vec<u32>,
    /// The bytes that each response on the line has received since the line was last empty.
    served: f64,
    at: Nanos,
    /// Totals, by label.
    ended: Vec<TurnsEnded>,
}

/// Totals over the responses of a label that would have ended by now: their number, and the sum of the times from
/// request to last byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnsEnded {
    pub responses: u64,
    pub total: Nanos,
}

/// The value of [`Turns::served`] at which a response stops sharing the line.
#[derive(Debug, Clone, Copy)]
struct Stop(f64);

#[derive(Debug)]
struct Followed {
    /// The slot of the response's job; [`NONE`] if the job has departed.
    slot: u32,
    /// The time of the request and the label; `None` for a response that is not counted.
    compared: Option<(Nanos, u8)>,
    /// The total bytes; infinite while unknown.
    end: f64,
    /// The maximum bytes that the job can get before its present wait ends; infinite if it waits only for its turn.
    limit: f64,
    /// The bytes that it had received when it last began or stopped sharing the line.
    had: f64,
    /// The value of [`Turns::served`] at that time.
    served_before: f64,
    /// The key in [`Turns::sharing`].
    stop: Option<Stop>,
}

impl PartialEq for Stop {
    fn eq(&self, other: &Stop) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Stop {}

impl PartialOrd for Stop {
    fn partial_cmp(&self, other: &Stop) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stop {
    fn cmp(&self, other: &Stop) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Turns {
    /// Advances to `now`. If no job has been ready since the last call (`is_idle`), the line spent that time on
    /// responses that are behind in turns, at this rate; without a rate, all responses in progress are forgotten. Must
    /// be called before anything else that happens at this instant.
    pub(crate) fn advance(&mut self, now: Nanos, rate: Option<Rate>, is_idle: bool) {
        let Some(rate) = rate else { return self.forget() };
        if is_idle && !self.sharing.is_empty() && now > self.at {
            let (from, bytes_per_s) = (self.at, rate.bits_per_s() as f64 / 8.0);
            let bytes = (now - from).as_secs_f64() * bytes_per_s;
            self.serve(bytes, |served_bytes| from + Nanos((served_bytes / bytes_per_s * 1e9) as u64));
        }
        self.at = self.at.max(now);
    }

    /// Records that bytes of a job are sent now. The line of turns carries as many and divides them among all jobs,
    /// unless this job is not followed.
    pub(crate) fn carry(&mut self, slot: u32, bytes: u64) {
        if self.by_slot.get(slot as usize).is_some_and(|at| *at != NONE) {
            let now = self.at;
            self.serve(bytes as f64, |_| now);
        }
    }

    /// Divides these bytes among the responses. `at` returns the time by which a number of bytes has been served.
    fn serve(&mut self, bytes: f64, at: impl Fn(f64) -> Nanos) {
        let mut served_bytes = 0.0;
        while let Some((Stop(stop), first)) = self.sharing.first().copied() {
            let count = self.sharing.len() as f64;
            let needed_bytes = (stop - self.served).max(0.0) * count;
            if needed_bytes > bytes - served_bytes {
                self.served += (bytes - served_bytes) / count;
                break;
            }
            served_bytes += needed_bytes;
            (self.served, self.at) = (stop, at(served_bytes));
            self.place(first);
        }
    }

    /// Follows a job that is ready; `bytes` is its size, if known.
    pub(crate) fn arrive(&mut self, slot: u32, bytes: Option<u64>) {
        if self.followed.len() - self.vacant.len() >= SHARING_MAX {
            return;
        }
        let end = bytes.map_or(f64::INFINITY, |bytes| bytes as f64);
        let (limit, had, served_before) = (f64::INFINITY, 0.0, 0.0);
        let one = Followed { slot, compared: None, end, limit, had, served_before, stop: None };
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.followed.push(None);
            self.followed.len() as u32 - 1
        });
        self.followed[at as usize] = Some(one);
        grow_to(&mut self.by_slot, slot as usize + 1, || NONE);
        self.by_slot[slot as usize] = at;
        self.place(at);
    }

    /// Counts the job, requested at `since`, under this label. Returns false if the job is not followed.
    pub(crate) fn compare(&mut self, slot: u32, since: Nanos, label: u8) -> bool {
        self.change(slot, |one| one.compared = Some((since, label)))
    }

    /// Sets the total bytes of the job.
    pub(crate) fn resize(&mut self, slot: u32, bytes: u64) {
        self.change(slot, |one| one.end = bytes as f64);
    }

    /// Records that the job waits for something other than its turn, after `sent_bytes` were sent.
    pub(crate) fn wait(&mut self, slot: u32, sent_bytes: u64) {
        self.change(slot, |one| one.limit = sent_bytes as f64);
    }

    /// Records that the job waits only for its turn.
    pub(crate) fn go_on(&mut self, slot: u32) {
        if self.get(slot).is_some_and(|one| one.limit.is_finite()) {
            self.change(slot, |one| one.limit = f64::INFINITY);
        }
    }

    /// Records that the job departs after `sent_bytes` were sent. A response that was cut off is not counted, but the
    /// line still carries its bytes.
    pub(crate) fn depart(&mut self, slot: u32, sent_bytes: u64, is_whole: bool) {
        self.change(slot, |one| {
            (one.end, one.limit) = (sent_bytes as f64, f64::INFINITY);
            one.slot = NONE;
            one.compared.take_if(|_| !is_whole);
        });
        if let Some(at) = self.by_slot.get_mut(slot as usize) {
            *at = NONE;
        }
    }

    /// Returns the responses of this label that have ended.
    pub fn ended(&self, label: u8) -> TurnsEnded {
        self.ended.get(usize::from(label)).copied().unwrap_or_default()
    }

    fn get(&self, slot: u32) -> Option<&Followed> {
        let at = self.by_slot.get(slot as usize)?;
        self.followed.get(*at as usize)?.as_ref()
    }

    /// Changes the limits of a job. Returns false if the job is not followed.
    fn change(&mut self, slot: u32, change: impl FnOnce(&mut Followed)) -> bool {
        let Some(at) = self.by_slot.get(slot as usize).copied().filter(|at| *at < ENDED) else { return false };
        // The bytes that it had until now follow from its previous limits.
        self.take_out(at);
        change(self.followed[at as usize].as_mut().expect("a job's response is followed"));
        self.place(at);
        true
    }

    fn take_out(&mut self, at: u32) {
        let one = self.followed[at as usize].as_mut().expect("its place is its own");
        if let Some(stop) = one.stop.take() {
            self.sharing.remove(&(stop, at));
            one.had += self.served - one.served_before;
        }
    }

    /// Lets a response share the line as long as it may have more bytes, and ends it once it has all of them.
    fn place(&mut self, at: u32) {
        self.take_out(at);
        let one = self.followed[at as usize].as_mut().expect("its place is its own");
        let most = one.end.min(one.limit);
        if one.had < most - ALIKE_BYTES {
            let stop = Stop(self.served + most - one.had);
            (one.stop, one.served_before) = (Some(stop), self.served);
            self.sharing.insert((stop, at));
        } else if one.had >= one.end - ALIKE_BYTES {
            self.end(at);
        }
        if self.sharing.is_empty() {
            self.served = 0.0;
        }
    }

    fn end(&mut self, at: u32) {
        let one = self.followed[at as usize].take().expect("it ends once");
        self.vacant.push(at);
        if one.slot != NONE {
            self.by_slot[one.slot as usize] = ENDED;
        }
        if let Some((since, label)) = one.compared {
            grow_to(&mut self.ended, usize::from(label) + 1, TurnsEnded::default);
            let ended = &mut self.ended[usize::from(label)];
            ended.responses += 1;
            ended.total += self.at - since;
        }
    }

    fn forget(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        *self = Turns { ended, ..Turns::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// A line of one byte per microsecond, with methods for the events of its jobs.
    struct Line(Turns);

    impl Line {
        fn new() -> Line {
            Line(Turns::default())
        }

        /// Advances the line, which carries bytes during that time.
        fn at(&mut self, ms: u64) -> &mut Turns {
            self.0.advance(MS(ms), "8mbit".parse().ok(), true);
            &mut self.0
        }

        /// Adds a job whose label is its slot.
        fn arrive(&mut self, ms: u64, slot: u32, bytes: u64) {
            self.at(ms).arrive(slot, Some(bytes));
            assert!(self.0.compare(slot, MS(ms), slot as u8));
        }

        /// Returns the time it took, in microseconds; `None` if it has not ended.
        fn took(&self, slot: u8) -> Option<u64> {
            let TurnsEnded { responses, total } = self.0.ended(slot);
            (responses == 1).then(|| total.0.div_ceil(1000))
        }
    }

    #[test]
    fn alone_a_response_has_the_line() {
        let mut line = Line::new();
        line.arrive(1000, 0, 10_000);
        line.arrive(2000, 1, 500);
        line.at(3000);
        assert_eq!([line.took(0), line.took(1)], [Some(10_000), Some(500)]);
    }

    /// Passing time carries nothing while a job is ready, even on a host that is late.
    #[test]
    fn both_lines_carry_the_same_bytes() {
        let mut line = Line::new();
        [(0, 3_000), (1, 1_000)].into_iter().for_each(|(slot, bytes)| line.arrive(0, slot, bytes));
        for (ms, bytes) in [(20, 1_000), (50, 1_000), (51, 2_000)] {
            line.0.advance(MS(ms), "8mbit".parse().ok(), false);
            line.0.carry(0, bytes);
        }
        assert_eq!([line.took(0), line.took(1)], [Some(51_000), Some(50_000)]);
    }

    /// The large response has half of the line until the small one has ended, which takes twice its own time.
    #[test]
    fn two_share_it() {
        for small_at in [0, 5] {
            let mut line = Line::new();
            line.arrive(0, 0, 10_000);
            line.arrive(small_at, 1, 1_000);
            line.at(6);
            assert_eq!(line.took(0), None);
            line.at(100);
            assert_eq!([line.took(0), line.took(1)], [Some(11_000), Some(2_000)]);
        }
    }

    #[test]
    fn what_is_sent_is_conserved() {
        let mut line = Line::new();
        let sizes: Vec<(u64, u64)> = (0..50).map(|n| (n / 7, 100 + n * n * 13)).collect();
        let all: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
        (0..).zip(&sizes).for_each(|(slot, (ms, bytes))| line.arrive(*ms, slot, *bytes));
        line.at(100_000);
        let ends = (0..).zip(&sizes).map(|(slot, (ms, _))| line.took(slot).unwrap() + 1000 * ms);
        let last = ends.max().unwrap();
        assert!(last.abs_diff(all) < 100, "the line was never empty: {last} us for {all} bytes");
    }

    /// A client takes a kilobyte every ten milliseconds: in turns it would not take more.
    #[test]
    fn a_slow_client_takes_as_long_in_turns() {
        let mut line = Line::new();
        line.arrive(0, 0, 10_000);
        for sent in 1..10 {
            line.at(10 * sent - 9).wait(0, 1000 * sent);
            line.at(10 * sent).go_on(0);
        }
        // The last kilobyte is handed down immediately.
        line.at(91).depart(0, 10_000, true);
        line.at(200);
        assert_eq!(line.took(0), Some(91_000));
    }

    /// While the large response waits for its client, others have the line to themselves, and the large one still
    /// receives in turns the bytes that were sent of it before.
    #[test]
    fn who_waits_for_something_else_takes_nobody_s_turn() {
        let mut line = Line::new();
        line.arrive(0, 0, 10_000);
        line.at(1).wait(0, 2_000);
        line.arrive(10, 1, 5_000);
        line.at(20).go_on(0);
        line.at(30);
        assert_eq!([line.took(0), line.took(1)], [Some(28_000), Some(5_000)]);
    }

    #[test]
    fn the_bytes_of_one_that_was_cut_or_whose_size_nobody_knew_delay_others_and_are_not_counted() {
        let mut line = Line::new();
        line.arrive(0, 0, 10_000);
        line.at(0).arrive(7, None);
        line.arrive(0, 1, 5_000);
        line.at(3).depart(0, 2_000, false);
        line.at(3).depart(7, 1_500, true);
        line.at(100);
        assert_eq!([line.took(0), line.took(1), line.took(7)], [None, Some(8_500), None]);
        assert!(line.0.sharing.is_empty() && line.0.followed.len() == line.0.vacant.len());
    }

    #[test]
    fn a_slot_that_is_used_again_is_another_s() {
        let mut line = Line::new();
        line.arrive(0, 0, 10_000);
        line.at(0).depart(0, 10_000, true);
        line.at(0).arrive(0, Some(1_000));
        line.at(0).wait(0, 0);
        line.at(100);
        assert_eq!((line.took(0), line.0.get(0).is_some()), (Some(10_000), true));
    }

    #[test]
    fn no_more_are_followed_than_there_is_room_for() {
        let mut line = Line::new();
        (0..SHARING_MAX as u32).for_each(|slot| line.0.arrive(slot, Some(100)));
        line.0.arrive(SHARING_MAX as u32, Some(100));
        assert!(!line.0.compare(SHARING_MAX as u32, Nanos(0), 0) && line.0.compare(0, Nanos(0), 0));
        line.0.advance(Nanos(0), None, false);
        assert!(!line.0.compare(0, Nanos(0), 0), "without a rate nothing is followed");
        line.0.arrive(0, Some(100));
        assert!(line.0.compare(0, Nanos(0), 0));
    }
}
