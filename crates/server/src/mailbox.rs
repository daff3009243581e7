//! Messages between threads that sleep in epoll: a list behind a lock, and an eventfd that wakes the reader.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::event::{EventfdFlags, eventfd};

/// One reader, any number of writers. It holds a few messages per connection at the most, and connections are capped.
pub struct Mailbox<T> {
    messages: Mutex<Vec<T>>,
    wake: OwnedFd,
}

impl<T> Mailbox<T> {
    pub fn new() -> io::Result<Mailbox<T>> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Mailbox { messages: Mutex::new(Vec::new()), wake })
    }

    pub fn post(&self, message: T) {
        let mut messages = self.messages.lock().expect("no thread panics while it holds a mailbox");
        messages.push(message);
        let was_empty = messages.len() == 1;
        drop(messages);
        if was_empty {
            self.wake();
        }
    }

    /// Wakes the reader without a message.
    pub fn wake(&self) {
        // The counter cannot overflow: the reader clears it, and 2^64 wake-ups take a while.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Moves all messages into `into`, which is emptied first, and rearms the wake-up.
    pub fn take(&self, into: &mut Vec<T>) {
        into.clear();
        // Before the messages are taken: one posted after this wakes us again, at worst for nothing.
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        std::mem::swap(into, &mut *self.messages.lock().expect("no thread panics while it holds a mailbox"));
    }
}

impl<T> AsFd for Mailbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
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
