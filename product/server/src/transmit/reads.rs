//! Reads aside: a response whose next bytes are not in memory waits for another thread.

use sched::{JobId, Why};
use units::Nanos;

use super::{Socket, Transmitter};

impl<S: Socket> Transmitter<S> {
    /// The next bytes are not in memory: somebody else waits for the disk.
    pub(super) fn read_aside(&mut self, now: Nanos, id: JobId) {
        let sending = &self.sendings[id];
        match sending.read_aside(self.pipes[sending.pipe()].client, &mut *self.storage) {
            Ok(()) => {
                self.reads += 1;
                self.drain.on_wait(id, Why::Disk);
            }
            Err(failure) => self.abort(now, id, failure),
        }
    }

    /// Takes what was read aside.
    pub(super) fn take_reads(&mut self, now: Nanos) {
        if self.reads == 0 {
            return;
        }
        let mut done = std::mem::take(&mut self.reads_done);
        self.storage.take_done(&mut done);
        for read in done.drain(..) {
            self.reads -= 1;
            let id = read.job;
            match self.sending(id).map(|sending| sending.on_read(read)) {
                Some(Ok(())) => self.drain.on_wait_over(now, id, Why::Disk),
                Some(Err(failure)) => self.abort(now, id, failure),
                None => {}
            }
        }
        self.reads_done = done;
    }
}
