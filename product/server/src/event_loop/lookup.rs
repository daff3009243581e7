//! Lookups by other threads: a request for a file that is not in memory waits for a thread that may wait for the disk.

use super::service::Service;
use crate::answer::Reply;
use crate::connection::Connection;
use crate::connection::Task;
use crate::files::{Found, Missing};
use crate::net::Socket;

impl Service {
    /// Returns the reply to a request whose lookup has ended.
    pub fn reply_found(
        &mut self,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        found: Result<Found, Missing>,
    ) -> Reply {
        let task = std::mem::take(&mut conn.exchange(stream).task);
        let Task::LookingUp(pending) = task else { unreachable!("a connection leaves its lookup answered or closed") };
        let request = pending.request.view();
        // The sites in force may have changed since the lookup began.
        let to = self.handler.to(conn, &request);
        conn.exchange(stream).class = self.handler.class_of(conn, stream, to.site, &request);
        match &pending.said {
            None => self.handler.reply_with(to, &request, found),
            Some(said) => self.handler.reply_named(to, &request, found, said),
        }
    }
}
