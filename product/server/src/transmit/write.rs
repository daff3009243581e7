//! The way out: what a grant lets a response write, whatever the protocol. Over HTTP/1.1 it leaves at once, in records where the client speaks
//! TLS; over HTTP/2 and HTTP/3 it becomes frames, behind which room that is left goes to the connection's next response.

use sched::{Grant, JobId, Progress, Scheduler};
use tls::RECORD_BYTES_MAX;
use units::Nanos;

use super::connection::{Connection, Load};
use super::sending::Sending;
use super::{Failure, Link, Marker, Outgoing, Pipe, Sent, Socket, Transmitter};
use crate::storage::Storage;

/// Records that are sealed before they are handed down, where there is no pace: 64 KB in one system call. Paced it is one: what is sealed
/// cannot be taken back.
pub(super) const RECORDS_AT_ONCE_MAX: usize = 4;

/// Frames that are made before they are handed down, where there is no pace.
const FRAMES_BYTES_MAX: u64 = 64 << 10;

/// Payload in which a record, or another response's frames, are not worth their headers.
pub(super) const ROOM_BYTES_MIN: u64 = 64;

/// What may leave at once.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of the response.
    pub bytes_max: u64,
    /// Of the connection's payload, records and frames included.
    pub carried_bytes_max: u64,
    /// Of which the responses before have taken so much.
    pub before_bytes: u64,
    /// Of which it is not more than this is sealed at a time.
    pub records_at_once: usize,
}

impl Room {
    /// So much, without a pace.
    pub fn unpaced(bytes_max: u64) -> Room {
        Room { records_at_once: RECORDS_AT_ONCE_MAX, ..Room::paced(bytes_max, u64::MAX) }
    }

    /// A grant of so much, of which the connection may carry so much.
    pub fn paced(bytes_max: u64, carried_bytes_max: u64) -> Room {
        Room { bytes_max, carried_bytes_max, before_bytes: 0, records_at_once: 1 }
    }

    fn left_bytes(&self) -> u64 {
        self.carried_bytes_max.saturating_sub(self.before_bytes)
    }
}

impl<S: Socket> Connection<S> {
    /// Writes what there is room for: into the socket, or as frames that are handed down behind the last of them. Records of frames are made
    /// then, and counted here.
    /// Gives how many of what was sent are bytes of frames.
    pub(super) fn write(
        &mut self,
        stream: u32,
        outgoing: &mut Outgoing,
        storage: &mut dyn Storage,
        room: Room,
    ) -> (Sent, u64) {
        let overhead_bytes = self.record_overhead();
        let (sent, frames_bytes) = match &mut self.load {
            Load::Single(_) => match self.socket.tcp() {
                Some(socket) => (outgoing.send_on(socket, self.session.as_deref_mut(), storage, room), 0),
                None => (Sent { failure: Some(Failure::Disconnected), ..Sent::default() }, 0),
            },
            Load::Framed(framed) => {
                let sent = outgoing.make_frames(&mut framed.engine, stream, storage, room, &mut framed.out.edit());
                let (frames_bytes, before_bytes) = (sent.carried_bytes, room.before_bytes);
                let records = |bytes: u64| bytes.div_ceil(RECORD_BYTES_MAX as u64) * overhead_bytes;
                let records_bytes = records(before_bytes + frames_bytes) - records(before_bytes);
                (Sent { carried_bytes: frames_bytes + records_bytes, ..sent }, frames_bytes)
            }
        };
        self.delivery.on_sent(sent.carried_bytes);
        (sent, frames_bytes)
    }

    /// The connection takes no more, of any response.
    fn on_full(&mut self, scheduler: &mut Scheduler) {
        self.was_full = true;
        self.load.wait(scheduler);
    }

    /// As much of a grant as is handed down at once: as the grant itself, it ends where a segment does. The marker is that of packets which
    /// the kernel orders.
    fn room(&self, grant: Grant, sending: &Sending, marker: Option<&Marker>, link: &Link) -> Room {
        let segment_bytes = self.delivery.framing().segment_bytes;
        let burst = marker.map(|marker| (marker.burst_bytes / segment_bytes).max(1) * segment_bytes);
        let (burst_bytes, overhead_bytes) = (burst.unwrap_or(u64::MAX), self.record_overhead());
        if let Load::Framed(framed) = &self.load {
            let bytes_max = grant.room_bytes.min(burst_bytes).min(FRAMES_BYTES_MAX);
            return Room::paced(u64::MAX, framed.room_bytes(bytes_max, segment_bytes, overhead_bytes));
        }
        if overhead_bytes == 0 || sending.outgoing.is_sealed {
            let over_bytes = burst.map_or(0, |_| sending.sent_bytes % segment_bytes);
            return Room::paced(grant.bytes_max.min(burst_bytes - over_bytes), grant.room_bytes);
        }
        // Under TLS segments are not those of the response's own bytes.
        let most_bytes = link.scheduler.pacer().pace().grant_bytes(self.delivery.framing()).min(burst_bytes);
        let left_bytes = most_bytes - sending.carried_bytes % segment_bytes;
        let room_bytes = if left_bytes > ROOM_BYTES_MIN { left_bytes } else { left_bytes + segment_bytes };
        match link.has_pace() || burst.is_some() {
            true => Room::paced(u64::MAX, room_bytes),
            false => Room::unpaced(room_bytes),
        }
    }
}

impl Sent {
    /// So much was handed down of a job, and the link is charged for it.
    pub(super) fn charge(&self, now: Nanos, id: JobId, scheduler: &mut Scheduler) -> Progress {
        let carried = sched::Sent { content_bytes: self.bytes, carried_bytes: self.carried_bytes };
        let progress = scheduler.on_sent(now, id, carried);
        if !self.is_whole || progress.is_departed() {
            return progress;
        }
        // How much it would be was not known.
        scheduler.on_end(id);
        Progress::Departed
    }
}

impl<S: Socket> Transmitter<S> {
    /// Sends what is granted to a response, and fills the room that is left with those behind it on its connection.
    pub(super) fn send(&mut self, now: Nanos, grant: Grant) {
        let at = self.sendings[grant.job].connection();
        if !self.may_send(now, grant.job, at) {
            return;
        }
        let marker = self.marker.as_ref().filter(|_| !self.link.is_paced());
        let mut room = self.connections[at].room(grant, &self.sendings[grant.job], marker, &self.link);
        let framed_id = self.connections[at].load.framed().map(|framed| framed.id);
        let mut next = Some(grant.job);
        while let Some(id) = next.take() {
            let frames_bytes = self.send_some(now, id, at, room);
            if let (Some(framed_id), Some(bytes)) = (framed_id, frames_bytes) {
                room.before_bytes += bytes;
                let left_bytes = room.left_bytes();
                let filling =
                    (left_bytes >= ROOM_BYTES_MIN).then(|| self.link.scheduler.jobs().filling(framed_id, left_bytes));
                next = filling.flatten().map(|grant| grant.job);
            }
        }
        if framed_id.is_some() {
            self.hand_down(now, at, room.carried_bytes_max);
        }
    }

    /// Sends of one response what there is room for. Where room is left that its connection's next response may have: the frames it took.
    fn send_some(&mut self, now: Nanos, id: JobId, at: usize, room: Room) -> Option<u64> {
        let sending = &mut self.sendings[id];
        let (stream, mut outgoing) = (sending.stream, std::mem::take(&mut sending.outgoing));
        let connection = &mut self.connections[at];
        let (sent, frames_bytes) = connection.write(stream, &mut outgoing, self.reads.storage(), room);
        self.limit.spend(self.link.client_of(id), sent.carried_bytes, now);
        let sending = &mut self.sendings[id];
        sending.outgoing = outgoing;
        sending.on_sent(now, &sent);
        let has_room_again = sending.outgoing.body().pipe_mut().is_some_and(Pipe::has_room_again);
        self.reads.on_room(has_room_again.then_some(id));
        let is_path_old = self.link.scheduler.order().needs_path() && sending.is_path_old();
        let (progress, has_room) = (sent.charge(now, id, &mut self.link.scheduler), sent.has_room);
        if self.connections[at].load.framed().is_none() {
            self.on_sent_alone(now, id, at, sent.carried_bytes, progress);
        }
        if let Some(overrun) = self.sendings[id].overrun(progress) {
            self.depart(now, id, Some(Failure::Overrun(overrun)));
            return None;
        }
        match sent.failure {
            // A failure behind the last byte is the connection's.
            _ if progress.is_departed() && self.connections[at].load.framed().is_some() => self.depart(now, id, None),
            Some(Failure::Blocked) => self.connections[at].on_full(&mut self.link.scheduler),
            Some(Failure::Absent) => {
                let client = self.link.client_of(id);
                let begun = self.reads.begin(&self.sendings[id], client, &mut self.link.scheduler);
                begun.err().into_iter().for_each(|failure| self.abort(now, id, failure));
            }
            Some(Failure::Pending) => self.link.scheduler.on_dry(now, id),
            Some(Failure::Shut) => self.connections[at].framed().on_shut(id, &mut self.link.scheduler),
            Some(failure) => self.abort(now, id, failure),
            None if progress.is_departed() => self.depart(now, id, None),
            // Nothing is left to be made of what is not all sent.
            None if has_room => self.abort(now, id, Failure::Disconnected),
            None if is_path_old => self.sendings[id].tell_path(&self.connections[at], &mut self.link.scheduler),
            None => {}
        }
        has_room.then_some(frames_bytes)
    }

    /// The only response of its connection was sent on: frames are settled when they are handed down.
    fn on_sent_alone(&mut self, now: Nanos, id: JobId, at: usize, carried_bytes: u64, progress: Progress) {
        if !progress.is_departed() {
            self.link.settle(now, &mut self.connections[at]);
        }
        if carried_bytes > 0 {
            self.link.note_written(now, at, &mut self.connections);
        }
        if progress.is_departed()
            && self.link.is_paced()
            && (!self.link.is_searching() || self.connections[at].was_full)
        {
            let ends_connection = self.sendings[id].outgoing.ends_connection();
            self.link.settle_last(now, &mut self.connections[at], ends_connection);
        }
    }

    /// Whether a granted response can be sent now; if so, its packets are marked.
    fn may_send(&mut self, now: Nanos, id: JobId, at: usize) -> bool {
        // The kernel decides the order, so it gets no more of a response than may keep the mark of the moment.
        let is_ordered_below = self.marker.is_some() && !self.link.is_paced();
        if is_ordered_below && !self.connections[at].socket.has_room() {
            self.connections[at].on_full(&mut self.link.scheduler);
            return false;
        }
        let connection = &mut self.connections[at];
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
