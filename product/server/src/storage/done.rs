use std::sync::{Mutex, MutexGuard};

/// What the pool has ended for a thread, and the call that wakes that thread. It holds no more than the thread has asked for.
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

    /// Appends what has ended since this was last called.
    pub fn take(&self, into: &mut Vec<T>) {
        into.append(&mut self.items());
    }

    fn items(&self) -> MutexGuard<'_, Vec<T>> {
        self.items.lock().expect("no thread panics while it holds what is done")
    }
}
