//! Tasks that hang, for tests.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::{Lane, Pool};

static CLIENTS: AtomicU32 = AtomicU32::new(1 << 31);

/// Blocks a pool: the tasks that it adds do not end until it is dropped.
pub struct Jam {
    pool: Arc<Pool>,
    gate: Arc<Mutex<Receiver<()>>>,
    begun: Sender<()>,
    begins: Receiver<()>,
    _release: Sender<()>,
}

impl Jam {
    pub fn new(pool: &Arc<Pool>) -> Jam {
        let ((release, gate), (begun, begins)) = (channel(), channel());
        Jam { pool: pool.clone(), gate: Arc::new(Mutex::new(gate)), begun, begins, _release: release }
    }

    /// Adds one more task, for a client that has no other tasks. Returns true if the pool accepted it.
    pub fn add(&self, device: u64, lane: Lane) -> bool {
        self.add_of(CLIENTS.fetch_add(1, Relaxed), device, lane)
    }

    fn add_of(&self, client: u32, device: u64, lane: Lane) -> bool {
        let (gate, begun) = (self.gate.clone(), self.begun.clone());
        let hang = move || {
            // The receiver is dropped when the jam is over.
            let _ = begun.send(());
            assert!(gate.lock().is_ok_and(|gate| gate.recv().is_err()));
        };
        self.pool.run_for(client, device, lane, hang).is_ok()
    }

    /// Adds tasks of client 0 until no more are accepted, and returns the number accepted.
    pub fn fill(&self, device: u64, lane: Lane) -> usize {
        std::iter::repeat_with(|| self.add_of(0, device, lane)).take_while(|&is_taken| is_taken).count()
    }

    /// Waits until `tasks` more tasks are running.
    pub fn wait_begun(&self, tasks: usize) {
        (0..tasks).for_each(|_| self.begins.recv().expect("its other end is ours"));
    }

    /// Returns true if another task has started since.
    pub fn has_begun(&self) -> bool {
        self.begins.try_recv().is_ok()
    }
}
