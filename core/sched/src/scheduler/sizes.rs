//! Facts that become known of a job while it is in the system: its size, the curve of similar sizes, its path.

use std::sync::Arc;

use crate::routes::Curve;
use crate::scheduler::{Overrun, Scheduler};
use crate::{JobId, Path, Size};

impl Scheduler {
    /// Sets the size of the job as it is now known, which is never less than the bytes sent. A no-op for a departed
    /// job, and for a job whose size is known: an end that comes sooner is reported by [`Scheduler::on_end`]. A size
    /// that the job has already reached changes nothing and is an error: the caller ends the job.
    pub fn on_size(&mut self, id: JobId, size: Size) -> Result<(), Overrun> {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.known().is_none()) else { return Ok(()) };
        if let Size::Known(size_bytes) = size
            && size_bytes <= job.attained
        {
            return Err(Overrun { size_bytes, found_bytes: job.attained });
        }
        let before = job.clone();
        job.size = size;
        if let Size::Known(bytes) = size {
            self.turns.iter_mut().for_each(|turns| turns.resize(id.slot, bytes));
        }
        self.order.on_size(id.slot, &before, job);
        if job.is_ready() {
            self.order.enqueue(&mut self.jobs, id.slot);
        }
        Ok(())
    }

    /// Sets the curve that ranks the job by the sizes of similar responses while its own size is not known
    /// ([`crate::routes::Routes::curve`]); `None` if they give no rank. A no-op for a departed job, and for a job whose
    /// size is known.
    pub fn on_curve(&mut self, id: JobId, curve: Option<Arc<Curve>>) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.known().is_none()) else { return };
        job.blind.curve = curve;
        if job.is_ready() {
            self.order.enqueue(&mut self.jobs, id.slot);
        }
    }

    /// Sets the path to the client. A no-op for a departed job, and if the policy ignores paths ([`Policy::needs_path`]).
    pub fn on_path(&mut self, id: JobId, path: Path) {
        let Some(is_ready) = self.jobs.get(id).filter(|_| self.order.needs_path()).map(|job| job.is_ready()) else {
            return;
        };
        self.order.policy_mut().on_path(id.slot, &path);
        if is_ready {
            self.order.enqueue(&mut self.jobs, id.slot);
        }
    }
}
