//! Keeps the processors awake while something is measured.

use crate::namespace::Place;
use crate::{LabError, Program, Programs, Site, machine};

/// A program that spins on every processor at a priority below all others, until this is dropped.
///
/// A processor with nothing to do goes to sleep, and one of a virtual machine gives its host's processor away and waits to get
/// it back: an experiment that uses a tenth of the machine is then woken late, whatever its priority. On a shared machine
/// timers of 1 ms at real-time priority went off 1.6 to 17.8 ms late at the 99th percentile without this and 0.025 to
/// 0.047 ms with it, in turn within two minutes.
pub(crate) struct Awake {
    _program: Option<Program>,
}

impl Awake {
    pub(crate) fn start(programs: &Programs, site: &Site) -> Result<Awake, LabError> {
        if !machine::is_kept_awake() {
            return Ok(Awake { _program: None });
        }
        let command = [programs.weirlab.display().to_string(), "awake".into()];
        // The site's folder goes away with its owner.
        let log = site.folder().join("awake.log");
        let program = Program::start(Place::Here, "weirlab awake", &command, &log)?;
        Ok(Awake { _program: Some(program) })
    }
}
