//! The queue of this host's own shaper, as the gauge reads it. It is looked up again after a change of the shaper.

use std::io;

use units::Rate;
use uplink::{Interface, Shaper};

use super::is_bottleneck;
use crate::send::{Queue, Queued};

pub struct ShaperQueue {
    interface: String,
    shaper: Option<Shaper>,
    /// The configured rate of the uplink, if any: a faster shaper is not the bottleneck.
    told: Option<Rate>,
}

impl ShaperQueue {
    pub fn of(shaper: Shaper, told: Option<Rate>) -> ShaperQueue {
        ShaperQueue { interface: shaper.interface.name.clone(), shaper: Some(shaper), told }
    }

    /// Creates a queue whose shaper does not exist yet.
    pub fn missing(interface: Interface, told: Option<Rate>) -> ShaperQueue {
        ShaperQueue { interface: interface.name, shaper: None, told }
    }
}

impl Queue for ShaperQueue {
    fn name(&self) -> &str {
        &self.interface
    }

    fn read(&mut self) -> io::Result<Queued> {
        let shaper = self.shaper.as_mut().ok_or_else(|| io::Error::other("there is no shaper"))?;
        let waiting = shaper.waiting()?;
        Ok(Queued { bytes: waiting.bytes, drops: waiting.drops })
    }

    /// Looks the interface up by name, because a recreated interface has another number.
    fn find(&mut self) -> io::Result<Option<Rate>> {
        let interface = Interface::by_name(&self.interface).map_err(|error| io::Error::other(error.to_string()))?;
        let shaper = Shaper::of(interface)?.filter(|shaper| is_bottleneck(shaper.rate, self.told));
        self.shaper = shaper;
        Ok(self.shaper.as_ref().map(|shaper| shaper.rate))
    }
}
