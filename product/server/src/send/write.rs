//! The path to the socket: writes a granted part of a response, for any protocol. Over HTTP/1.1 the bytes are written
//! immediately, in records if the client speaks TLS. Over HTTP/2 and HTTP/3 they become frames, and the connection's
//! next response uses the room that is left.

use sched::{Grant, JobId, Overrun, Progress, Scheduler};
use units::Nanos;

use super::sending::Sending;
use super::{Link, Marker, Transmitter};
use crate::body::{Failure, Pipe};
use crate::connection::{Connection, Connections, ROOM_BYTES_MIN, Room, Sent};
use crate::net::Socket;

/// The maximum size of the frames made before they are written, if nothing is paced.
const FRAMES_BYTES_MAX: u64 = 64 << 10;

impl Sent {
    /// Records the bytes written for a job, and charges the link for them.
    pub(super) fn charge(&self, now: Nanos, id: JobId, scheduler: &mut Scheduler) -> Progress {
        let carried = sched::Sent { content_bytes: self.bytes, carried_bytes: self.carried_bytes };
        let progress = scheduler.on_sent(now, id, carried);
        if !self.is_whole || progress.is_departed() {
            return progress;
        }
        // The response's size was not known.
        scheduler.on_end(id);
        Progress::Departed
    }
}

impl Transmitter {
    /// Sends the granted bytes of a response, and fills the rest of the room with the next responses of its connection.
    pub(super) fn send(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, grant: Grant) {
        let at = self.sendings[grant.job].connection();
        if !self.may_send(connections, now, grant.job, at) {
            return;
        }
        let marker = self.marker.as_ref().filter(|_| !self.link.is_paced());
        let mut room = room(&connections[at], grant, &self.sendings[grant.job], marker, &self.link);
        let group = connections[at].protocol.group();
        let mut next = Some(grant.job);
        while let Some(id) = next.take() {
            let frames_bytes = self.send_some(connections, now, id, at, room);
            if let (Some(group), Some(bytes)) = (group, frames_bytes) {
                room.before_bytes += bytes;
                let left_bytes = room.left_bytes();
                let scheduler = &self.link.scheduler;
                let filling = (left_bytes >= ROOM_BYTES_MIN)
                    .then(|| scheduler.order().filling(scheduler.jobs(), group, left_bytes));
                next = filling.flatten().map(|grant| grant.job);
            }
        }
        self.hand_down(connections, now, at, room.carried_bytes_max);
    }

    /// Sends as much of one response as there is room for. If the connection's next response may use the rest of the
    /// room, returns the bytes of frames taken.
    fn send_some(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        id: JobId,
        at: usize,
        room: Room,
    ) -> Option<u64> {
        let sending = &mut self.sendings[id];
        let (stream, mut outgoing) = (sending.exchange.stream, std::mem::take(&mut sending.outgoing));
        let connection = &mut connections[at];
        let (sent, frames_bytes) = connection.write(stream, &mut outgoing, self.reads.storage(), room);
        self.limit.spend(self.link.client_of(id), sent.carried_bytes, now);
        let sending = &mut self.sendings[id];
        sending.outgoing = outgoing;
        sending.on_sent(now, &sent);
        let has_room_again = sending.outgoing.body().start().pipe_mut().is_some_and(Pipe::has_room_again);
        self.reads.on_room(has_room_again.then_some(id));
        let is_path_old = self.link.scheduler.order().needs_path() && sending.is_path_old();
        let (progress, has_room) = (sent.charge(now, id, &mut self.link.scheduler), sent.has_room);
        if connections[at].protocol.group().is_none() {
            self.on_sent_alone(connections, now, id, at, sent.carried_bytes, progress);
        }
        if let Some(overrun) = self.overrun(id, progress) {
            self.depart(connections, now, id, Some(Failure::Overrun(overrun)));
            return None;
        }
        self.go_on(connections, now, id, at, sent, progress);
        if is_path_old && let Some(sending) = self.sendings.get_mut(id) {
            sending.tell_path(&connections[at], &mut self.link.scheduler);
        }
        has_room.then_some(frames_bytes)
    }

    /// Returns the overrun, if any, of a response after part of it was sent. The stages of its body may have produced
    /// more bytes than announced, or fewer.
    fn overrun(&mut self, id: JobId, progress: Progress) -> Option<Overrun> {
        if !progress.is_departed() && self.sendings[id].outgoing.body().is_staged() {
            let sized = self.size(id);
            debug_assert!(sized.is_ok(), "more is left than was sent");
        }
        self.sendings[id].overrun(progress)
    }

    /// Decides how a response continues after part of it was sent: it departs, waits, or stays in the order.
    fn go_on(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        id: JobId,
        at: usize,
        sent: Sent,
        progress: Progress,
    ) {
        let connection = &mut connections[at];
        match sent.failure {
            // A failure after the last byte concerns the connection.
            _ if progress.is_departed() && connection.protocol.group().is_some() => {
                self.depart(connections, now, id, None);
            }
            Some(Failure::Blocked) => {
                connection.on_full(&mut self.link.scheduler);
                if !self.link.bypasses_link(connection) {
                    self.link.unacknowledged.note_full();
                }
            }
            Some(Failure::Absent) => {
                let client = self.link.client_of(id);
                let begun = self.reads.begin(&self.sendings[id], client, &mut self.link.scheduler);
                begun.err().into_iter().for_each(|failure| self.abort(connections, now, id, failure));
            }
            Some(Failure::Pending) => self.link.scheduler.on_dry(now, id),
            Some(Failure::Shut) => connection.on_shut(id, &mut self.link.scheduler),
            Some(failure) => self.abort(connections, now, id, failure),
            None if progress.is_departed() => self.depart(connections, now, id, None),
            // No more can be made, although bytes are left.
            None if sent.has_room => self.abort(connections, now, id, Failure::Disconnected),
            None => {}
        }
    }

    /// Settles the account of the connection's only response after some of its bytes were sent. Frames are settled when
    /// they are written.
    fn on_sent_alone(
        &mut self,
        connections: &mut Connections<impl Socket>,
        now: Nanos,
        id: JobId,
        at: usize,
        carried_bytes: u64,
        progress: Progress,
    ) {
        if !progress.is_departed() {
            self.link.settle(now, &mut connections[at]);
        }
        if carried_bytes > 0 {
            self.link.note_written(connections, now, at);
        }
        if progress.is_departed()
            && self.link.is_paced()
            && (!self.link.is_searching() || connections[at].delivery.was_full)
        {
            let ends_connection = self.sendings[id].outgoing.ends_connection();
            self.link.settle_last(now, &mut connections[at], ends_connection);
        }
    }

    /// Returns true if a granted response can be sent now; if so, marks its packets.
    fn may_send(&mut self, connections: &mut Connections<impl Socket>, now: Nanos, id: JobId, at: usize) -> bool {
        // The kernel decides the order, so a response hands down no more bytes than may keep its current mark.
        let is_ordered_below = self.marker.is_some() && !self.link.is_paced();
        if is_ordered_below && !connections[at].socket.has_room() {
            connections[at].on_full(&mut self.link.scheduler);
            return false;
        }
        let connection = &mut connections[at];
        let client = self.link.client_of(id);
        if self.limit.holds(&mut self.link.scheduler, id, client, now) {
            return false;
        }
        if let Some(marker) = &self.marker {
            self.sendings[id].mark(
                connection,
                &marker.bands,
                self.link.scheduler.order().band(self.link.scheduler.jobs(), id),
            );
        }
        true
    }
}

/// Returns the part of a grant that is written in one step. Like the grant, it ends on a segment boundary. `marker` is
/// set if the kernel orders packets.
fn room<S: Socket>(
    connection: &Connection<S>,
    grant: Grant,
    sending: &Sending,
    marker: Option<&Marker>,
    link: &Link,
) -> Room {
    let segment_bytes = connection.delivery.framing().segment_bytes;
    let burst = marker.map(|marker| (marker.burst_bytes / segment_bytes).max(1) * segment_bytes);
    let (burst_bytes, overhead_bytes) = (burst.unwrap_or(u64::MAX), connection.record_overhead());
    let record_bytes = if overhead_bytes > 0 { grant.record_bytes } else { 0 };
    let frames_bytes_max = (grant.room_bytes + record_bytes).min(burst_bytes).min(FRAMES_BYTES_MAX);
    if let Some(room_bytes) = connection.frames_room_bytes(frames_bytes_max) {
        return Room::paced(u64::MAX, room_bytes);
    }
    if overhead_bytes == 0 || sending.outgoing.is_sealed {
        let over_bytes = burst.map_or(0, |_| sending.sent_bytes % segment_bytes);
        return Room::paced(grant.bytes_max.min(burst_bytes - over_bytes), grant.room_bytes);
    }
    if link.bypasses_link(connection) {
        return Room::unpaced(grant.room_bytes);
    }
    // Under TLS, segments do not align with the response's own bytes.
    let grant_bytes = link.scheduler.pacer().pace().grant_bytes(connection.delivery.framing());
    let most_bytes = (grant_bytes + record_bytes).min(burst_bytes);
    let left_bytes = most_bytes - sending.carried_bytes % segment_bytes;
    let room_bytes = if left_bytes > ROOM_BYTES_MIN { left_bytes } else { left_bytes + segment_bytes };
    match link.has_pace() || burst.is_some() {
        true => Room::paced(u64::MAX, room_bytes),
        false => Room::unpaced(room_bytes),
    }
}
