//! Waits for files: a request for a file that is not in memory waits for a thread that may wait for the disk, and one for
//! a form that is being made may wait for that.

use units::Nanos;

use super::service::Service;
use crate::answer::Reply;
use crate::connection::Connection;
use crate::connection::Task;
use crate::files::{Found, Missing};
use crate::net::Socket;

impl Service {
    /// Returns the reply to a request whose wait has ended; `None` if it waits for a form of its file now.
    pub fn reply_found(
        &mut self,
        now: Nanos,
        conn: &mut Connection<impl Socket>,
        stream: u32,
        found: Result<Found, Missing>,
    ) -> Option<Reply> {
        let task = std::mem::take(&mut conn.exchange(stream).task);
        let Task::LookingUp(pending) = task else { unreachable!("a connection leaves its lookup answered or closed") };
        let request = pending.request.view();
        // The sites in force may have changed since the lookup began.
        let to = self.handler.to(conn, &request);
        conn.exchange(stream).class = self.handler.class_of(conn, stream, to.site, &request);
        let (owner, client) = (conn.exchange(stream).owner, conn.client_of(stream));
        let may_wait = self.handler.may_wait(owner);
        let awaited = match &pending.said {
            None => match self.handler.reply_or_wait(to, &request, found, may_wait) {
                Ok(reply) => return Some(reply),
                Err(awaited) => awaited,
            },
            Some(said) => return Some(self.handler.reply_named(to, &request, found, said)),
        };
        match self.handler.begin_lookup(awaited, owner, client, now) {
            Ok(key) => {
                conn.exchange(stream).wait_for(key, pending.request, None);
                None
            }
            Err(missing) => Some(self.handler.reply_with(to, &request, Err(missing))),
        }
    }
}
