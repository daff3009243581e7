//! Messages between threads that sleep in epoll: a list behind a lock, and an eventfd that wakes the reader.
//!
//! Lock and wake-up are parameters ([`Platform`]), so that a model checker can put its own in their place and run this very
//! code in every order its steps can take (`handover/model.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};

/// One reader, any number of writers. It holds a few messages per connection at the most, and connections are capped.
pub struct Mailbox<T, P: Platform = Kernel> {
    messages: P::Lock<Vec<T>>,
    wake: P::Wake,
}

/// The parts of a mailbox that threads share.
pub trait Platform {
    type Lock<V>: Lock<V>;
    type Wake: Wake;
}

pub trait Lock<V> {
    fn new(value: V) -> Self;
    fn with<R>(&self, act: impl FnOnce(&mut V) -> R) -> R;
}

/// Wakes a reader, who then clears it. Set before it was cleared, it is seen; set after, it wakes again.
pub trait Wake {
    fn set(&self);
    fn clear(&self);
}

/// A mutex of the standard library and an eventfd.
pub struct Kernel;

impl<T> Mailbox<T> {
    pub fn new() -> io::Result<Mailbox<T>> {
        Ok(Mailbox::with(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }
}

impl<T, P: Platform> Mailbox<T, P> {
    pub fn with(wake: P::Wake) -> Mailbox<T, P> {
        Mailbox { messages: Lock::new(Vec::new()), wake }
    }

    pub fn post(&self, message: T) {
        let was_empty = self.messages.with(|messages| {
            messages.push(message);
            messages.len() == 1
        });
        if was_empty {
            self.wake();
        }
    }

    /// Wakes the reader without a message.
    pub fn wake(&self) {
        self.wake.set();
    }

    /// Moves all messages into `into`, which is emptied first, and rearms the wake-up.
    pub fn take(&self, into: &mut Vec<T>) {
        into.clear();
        // Before the messages are taken: one posted after this wakes us again, at worst for nothing.
        self.wake.clear();
        self.messages.with(|messages| std::mem::swap(into, messages));
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Platform for Kernel {
    type Lock<V> = Mutex<V>;
    type Wake = OwnedFd;
}

impl<V> Lock<V> for Mutex<V> {
    fn new(value: V) -> Mutex<V> {
        Mutex::new(value)
    }

    fn with<R>(&self, act: impl FnOnce(&mut V) -> R) -> R {
        act(&mut self.lock().expect("no thread panics while it holds a mailbox"))
    }
}

impl Wake for OwnedFd {
    fn set(&self) {
        // The counter cannot overflow: the reader clears it, and 2^64 wake-ups take a while.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(self, &mut [0u8; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivers_in_order_and_rearms() {
        let mailbox = Mailbox::new().unwrap();
        let mut into = vec![9];
        mailbox.post(1);
        mailbox.post(2);
        mailbox.take(&mut into);
        assert_eq!(into, [1, 2]);
        assert!(rustix::io::read(&mailbox.wake, &mut [0u8; 8]).is_err(), "the wake-up was not cleared");
        mailbox.take(&mut into);
        assert_eq!(into, [0; 0]);
        mailbox.post(3);
        assert!(rustix::io::read(&mailbox.wake, &mut [0u8; 8]).is_ok(), "the second post did not wake");
    }
}
