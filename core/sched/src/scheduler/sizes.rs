//! Properties of a job that become known while it is in the system: its size, the curve of similar sizes, its path.

use std::sync::Arc;

use crate::routes::Curve;
use crate::scheduler::{Overrun, Scheduler};
use crate::{JobId, Path, Size};

impl Scheduler {
    /// Sets the job's size, which is never less than the bytes sent. Does nothing for a departed job or one whose size
    /// is known already; an earlier end is reported by [`Scheduler::on_end`]. If the job has already reached this size,
    /// nothing changes and an error is returned; the caller must end the job.
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

    /// Sets the curve that ranks the job by the sizes of similar responses as long as its own size is unknown
    /// ([`crate::routes::Routes::curve`]); `None` if they give no rank. Does nothing for a departed job or one whose
    /// size is known.
    pub fn on_curve(&mut self, id: JobId, curve: Option<Arc<Curve>>) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.known().is_none()) else { return };
        job.blind.curve = curve;
        if job.is_ready() {
            self.order.enqueue(&mut self.jobs, id.slot);
        }
    }

    /// Sets the path to the client. Does nothing for a departed job, or if the policy ignores paths
    /// ([`Policy::needs_path`]).
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
