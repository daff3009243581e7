//! The thread that takes the samples.

use std::borrow::Cow;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use record::{Sample, Samples};
use rustix::time::{ClockId, clock_gettime};

use super::View;
use crate::LabError;

/// The interval of samples. The papers' own figures have steps of seconds; this also shows a burst within W10's 2 s of
/// overload.
const EVERY: Duration = Duration::from_millis(100);
/// The maximum number of rows, 80 MB or 2.8 hours. A longer run keeps every other row, and so on.
const ROWS_MAX: usize = 100_000;

/// Takes rows until it is finished or dropped. It runs at ordinary priority: on a busy machine a row may be late, but
/// it contains the time at which it was taken and never delays the load.
pub(crate) struct Sampler {
    /// Dropped to end the thread.
    stop: Sender<()>,
    thread: JoinHandle<Taken>,
}

/// Rows with their instants on the machine's clock.
pub(crate) struct Taken {
    columns: Vec<Cow<'static, str>>,
    /// The rows; instants are in nanoseconds since 1970.
    rows: Vec<(u64, Vec<Option<u64>>)>,
}

impl Sampler {
    pub(crate) fn start(mut view: View) -> Result<Sampler, LabError> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("samples".into()).spawn(move || {
            let mut taken = Taken { columns: vec![], rows: vec![] };
            // The wall clock is read once, so that a step of it during the run has no effect.
            let (began, began_unix) =
                (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
            let (mut every, mut next) = (EVERY, EVERY);
            loop {
                taken.take(&mut view, (began_unix + began.elapsed()).as_nanos() as u64);
                if taken.rows.len() >= ROWS_MAX {
                    taken.thin_out();
                    every *= 2;
                }
                match stopped.recv_timeout(next.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return taken,
                }
                // Rows that could not be taken in time are left out.
                while next <= began.elapsed() {
                    next += every;
                }
            }
        });
        Ok(Sampler { stop, thread: thread.map_err(|e| LabError::io("a thread for samples", e))? })
    }

    /// Ends the thread and returns its samples.
    pub(crate) fn finish(self) -> Taken {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Taken {
    fn take(&mut self, view: &mut View, unix_ns: u64) {
        let before = thread_cpu();
        let (columns, mut values): (Vec<_>, Vec<_>) = view.read().into_iter().unzip();
        values.push(Some(thread_cpu().saturating_sub(before).as_micros() as u64));
        if self.columns.is_empty() {
            self.columns = columns;
            self.columns.push("sample_cost_us".into());
        }
        self.rows.push((unix_ns, values));
    }

    fn thin_out(&mut self) {
        let mut number = 0;
        self.rows.retain(|_| {
            number += 1;
            number % 2 == 1
        });
    }

    /// Returns the samples of a run that began at this instant, without earlier ones.
    pub(crate) fn since(self, began_unix_ns: u64) -> Samples {
        let columns = self.columns.into_iter().map(Cow::into_owned).collect();
        let row = |(unix_ns, values): (u64, _)| Some(Sample { at_ns: unix_ns.checked_sub(began_unix_ns)?, values });
        Samples { columns, rows: self.rows.into_iter().filter_map(row).collect() }
    }
}

/// The CPU time that this thread has used.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::path::PathBuf;

    fn taken(unix_ns: &[u64]) -> Taken {
        Taken { columns: vec!["x".into()], rows: unix_ns.iter().map(|ns| (*ns, vec![Some(*ns)])).collect() }
    }

    #[test]
    fn rows_count_from_the_beginning_of_the_run() {
        let samples = taken(&[10, 100, 150]).since(100);
        assert_eq!(samples.series("x"), [(0, 100), (50, 150)]);
    }

    #[test]
    fn every_other_row_is_kept_and_the_first_of_them() {
        let mut taken = taken(&[1, 2, 3, 4, 5]);
        taken.thin_out();
        assert_eq!(taken.rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn takes_rows_of_loopback_until_finished() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let view = View::open(None, listener.local_addr().unwrap().port(), PathBuf::new()).unwrap();
        let sampler = Sampler::start(view).unwrap();
        std::thread::sleep(2 * EVERY);
        let samples = sampler.finish().since(0);
        assert!(!samples.rows.is_empty() && samples.rows.iter().all(|row| row.values.len() == samples.columns.len()));
        assert!(samples.series("accept_queue_limit_connections").iter().all(|(_, limit)| *limit > 0));
        assert!(samples.rows.is_sorted_by_key(|row| row.at_ns));
    }
}
