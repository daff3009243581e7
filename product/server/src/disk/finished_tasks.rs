use std::sync::{Mutex, MutexGuard};

/// The tasks that the pool has completed for one thread, and the call that wakes that thread. It never holds more items
/// than the thread has requested.
pub struct Done<T> {
    items: Mutex<Vec<T>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<T> Done<T> {
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Done<T> {
        Done { items: Mutex::default(), wake: Box::new(wake) }
    }

    pub fn post(&self, item: T) {
        self.items().push(item);
        (self.wake)();
    }

    /// Appends the tasks that have completed since the last call.
    pub fn take(&self, into: &mut Vec<T>) {
        into.append(&mut self.items());
    }

    fn items(&self) -> MutexGuard<'_, Vec<T>> {
        self.items.lock().expect("no thread panics while it holds what is done")
    }
}
