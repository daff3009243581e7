//! The way from the socket buffer to the link: what TCP may send, what the queue accepts, and what the scheduler
//! grants.

use sched::JobId;
use units::{Nanos, wire};
use workload::Job;

use super::bottleneck::{Load, Packet};
use super::tcp::Segments;
use super::world::{Down, Event, World};
use super::{ConnId, Shaping};

/// The number of consecutive timeouts after which an end gives up (Linux's tcp_retries2): a quarter of an hour or more.
pub const RETRIES_MAX: u32 = 15;

impl<J: Iterator<Item = Job>> World<'_, '_, J> {
    /// Keeps the link busy and lets senders follow, until nothing more can happen at this instant.
    pub fn settle(&mut self) {
        loop {
            self.serve();
            let Some(id) = self.wakes.pop() else { break };
            self.transmit(id);
            self.unblock(id);
        }
    }

    /// Hands down the bytes that the connection's TCP may send.
    pub fn transmit(&mut self, id: ConnId) {
        let (now, settings) = (self.now, self.settings);
        while let Some(segments) = self.conns.get(id).and_then(|conn| conn.sender.poll(now, &settings)) {
            let is_taken = self.enqueue_data(id, segments);
            let conn = self.conns.get(id).expect("it just sent");
            if is_taken || !self.config.tcp.hears_drops {
                conn.sender.sent(now, segments, &settings);
                conn.count(segments, &settings);
                let _ = conn.request_ack.set(None);
                if !is_taken {
                    conn.sender.dequeued(segments.bytes);
                }
                self.mark_sent(id, segments);
            } else {
                conn.sender.refused(now);
                break;
            }
        }
        self.set_alarm(id);
    }

    fn set_alarm(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(at) = conn.alarm.set(conn.sender.alarm_at()) {
            self.calendar.push(at, Event::Alarm(id));
        }
    }

    pub fn on_alarm(&mut self, id: ConnId) {
        let conn = self.conns.get(id).expect("checked by the timer");
        if conn.sender.timeouts() > RETRIES_MAX {
            self.refuse(id);
            return self.release(id);
        }
        if let Some(segments) = conn.sender.on_alarm(self.now, &self.settings)
            && self.enqueue_data(id, segments)
        {
            let settings = self.settings;
            let conn = self.conns.get(id).expect("it just sent");
            conn.sender.probe_sent(segments);
            conn.count(segments, &settings);
            self.mark_sent(id, segments);
        }
        self.transmit(id);
    }

    fn enqueue_data(&mut self, id: ConnId, segments: Segments) -> bool {
        let count = segments.bytes.div_ceil(self.settings.segment_bytes).max(1);
        let wire_bytes = segments.bytes + count * wire::PACKET_OVERHEAD_BYTES as u32;
        let conn = self.conns.get(id).expect("it sends");
        if let Some(job) = conn.job
            && self.config.shaping == Shaping::Bands
            && !segments.again
        {
            let band = 1 + self.scheduler.order().band(self.scheduler.jobs(), job);
            // A better band must wait until no packet of the connection can be overtaken.
            if band >= conn.band || self.config.promotes_at_once || conn.sender.has_nothing_below() {
                conn.band = band;
            }
        }
        let load = Load::Data { seq: segments.start, bytes: segments.bytes, fin: segments.fin, again: segments.again };
        let band = conn.band;
        self.enqueue(Packet { conn: id, load, wire_bytes, queued_at: self.now, band })
    }

    /// Sends a SYN-ACK or an acknowledgement. If there is no room, it is silently dropped.
    pub fn send_control(&mut self, id: ConnId, load: Load, wire_bytes: u64) {
        if let (Load::Ack, Some(conn)) = (load, self.conns.get(id)) {
            conn.sent.segments += 1;
        }
        self.enqueue(Packet { conn: id, load, wire_bytes: wire_bytes as u32, queued_at: self.now, band: 0 });
    }

    fn enqueue(&mut self, packet: Packet) -> bool {
        let is_taken = self.queue.enqueue(packet);
        self.counts.queue_drops += u64::from(!is_taken);
        is_taken
    }

    fn left_queue(&mut self, packet: &Packet) {
        let Load::Data { bytes, .. } = packet.load else { return };
        if let Some(conn) = self.conns.get(packet.conn) {
            conn.sender.dequeued(bytes);
            if self.settings.small_queues {
                self.wakes.push(packet.conn);
            }
        }
    }

    /// Sends packets while the link is idle.
    pub fn serve(&mut self) {
        while self.link.idle_at() <= self.now {
            let Some(packet) = self.queue.dequeue() else { return };
            let out_at = self.link.send(self.now, packet.wire_bytes);
            self.left_queue(&packet);
            self.depart(packet, out_at);
        }
        if !self.is_link_awaited && self.queue.packets() > 0 {
            self.is_link_awaited = true;
            self.calendar.push(self.link.idle_at(), Event::LinkIdle);
        }
    }

    fn depart(&mut self, packet: Packet, out_at: Nanos) {
        let id = packet.conn;
        let Load::Data { seq, bytes, fin, .. } = packet.load else {
            self.counts.packets += 1;
            let down = if packet.load == Load::SynAck { Down::SynAck } else { Down::Ack };
            return self.send_down(id, out_at, down);
        };
        let (segment_bytes, sent_at) = (self.settings.segment_bytes, packet.queued_at);
        let segments = bytes.div_ceil(segment_bytes).max(1);
        self.counts.packets += u64::from(segments);
        if segments == 1 || !self.is_lossy(id) {
            return self.send_down(id, out_at, Down::Data { seq, bytes, fin, sent_at });
        }
        for segment in 0..segments {
            let at = segment * segment_bytes;
            let (bytes, is_last) = (segment_bytes.min(bytes - at), segment + 1 == segments);
            self.send_down(id, out_at, Down::Data { seq: seq + u64::from(at), bytes, fin: fin && is_last, sent_at });
        }
    }

    /// Handles a response that has become a job, according to the shaping.
    pub fn dispatch(&mut self, id: ConnId, job: JobId, bytes: u64) {
        if self.by_job.len() <= job.slot() {
            self.by_job.resize(job.slot() + 1, id);
        }
        self.by_job[job.slot()] = id;
        let conn = self.conns.get(id).expect("the caller's connection");
        conn.job = Some(job);
        conn.is_blocked = false;
        if self.config.shaping == Shaping::Paced {
            self.settle_account(id);
            return self.pump();
        }
        conn.sender.write(self.now, bytes, conn.closes, &self.settings);
        self.transmit(id);
    }

    /// Queues bytes of the job that have left the socket, unless the queue had no room.
    fn mark_sent(&mut self, id: ConnId, segments: Segments) {
        let conn = self.conns.get(id).expect("it just sent");
        let Some(job) = conn.job else { return };
        match self.config.shaping {
            Shaping::Off | Shaping::Paced => {}
            Shaping::Bands if segments.again => {}
            Shaping::Bands => {
                if self.scheduler.on_sent(self.now, job, u64::from(segments.bytes)).is_departed() {
                    conn.job = None;
                }
            }
        }
    }
}
