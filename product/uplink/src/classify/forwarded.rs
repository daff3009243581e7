//! The forwarded TCP flows of an interface, as seen by the classifier (bpf/path.h): from containers behind a bridge,
//! masquerading or DNAT, and from other hosts. Their sockets are not in this host's list. The table is memory-mapped,
//! so that reading it needs no system call and touches little of an idle flow.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use units::Nanos;

use super::meter::now;
use super::program::{PATHS_MAP, PUT_MAP, Program};
use super::{Attached, find};
use crate::constants::{PATH_BYTES, PATHS_COUNT};
use crate::follow::{Waits, age};
use crate::{Connection, Error, Interface, TcpInfo};

/// The time for which a flow is listed after its last packet in either direction. The next constant is the longer time
/// for a flow with unacknowledged data. After that time, the flow's place in the table is free (`PATH_IDLE_NS`,
/// `PATH_GONE_NS`).
const LISTED_FOR: Nanos = Nanos::from_millis(1500);
const OUTSTANDING_FOR: Nanos = Nanos::from_millis(8500);
/// The time for which a flow without acknowledgements is listed if other flows have some.
const UNACKED_FOR: Nanos = Nanos::from_secs(3);
/// The time, in addition to its own length, for which a round trip counts as current. It covers a delayed
/// acknowledgement.
const FRESH_FOR: Nanos = Nanos::from_millis(50);
/// The number of segments in flight from which a flow is assumed to have more to send than its windows allow.
const LONG_SEGMENTS: u64 = 8;
/// The payload assumed for a full segment until one is seen.
const SEGMENT_BYTES_MIN: u32 = 536;

/// `struct path` of bpf/path.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    number: u64,
    sent_at: u64,
    sent_bytes: u64,
    again_bytes: u64,
    opened_at: u64,
    next_seq: u32,
    opened_seq: u32,
    segment_bytes: u16,
    version: u8,
    has_timestamps: u8,
    priority: u32,
    unused: [u32; 2],
    acked_bytes: u64,
    acked_at: u64,
    tripped_at: u64,
    rtt_us: u32,
    least_us: u32,
    acked_seq: u32,
    sacked_bytes: u32,
    sacked_until: u32,
    filled_bytes: u32,
    client: [u64; 2],
}

const _: () = assert!(size_of::<Path>() == PATH_BYTES);

/// The table of paths of a classifier.
#[derive(Debug)]
pub struct ForwardedWatch {
    table: Mapping<Path>,
    /// The bytes that the classifier has put into the response bands.
    put_bytes: Mapping<u64>,
}

/// A kernel array that BPF programs may change at any time.
#[derive(Debug)]
struct Mapping<T> {
    first: ptr::NonNull<T>,
    entries: usize,
}

impl ForwardedWatch {
    /// Opens the table of the classifier at this interface; `None` if there is none.
    pub fn open(interface: &Interface) -> Result<Option<ForwardedWatch>, Error> {
        let Some(Attached { facts, .. }) = find(interface)? else { return Ok(None) };
        let program = Program::open(facts.id)?;
        // A classifier of another version has no such table.
        let (Some(paths), Some(put)) = (program.map(PATHS_MAP), program.map(PUT_MAP)) else { return Ok(None) };
        let failure = |error| Error::kernel(&format!("reading the forwarded flows of {}", interface.name), error);
        let table = Mapping::of(paths.as_fd(), PATHS_COUNT).map_err(failure)?;
        let put_bytes = Mapping::of(put.as_fd(), 1).map_err(failure)?;
        Ok(Some(ForwardedWatch { table, put_bytes }))
    }

    /// Returns the bytes that the classifier has put into the response bands, as the bands count them.
    pub fn put_bytes(&self) -> u64 {
        // SAFETY: there is one entry, of eight bytes, at an aligned address; any bytes are a number.
        unsafe { self.put_bytes.first.as_ptr().read_volatile() }
    }

    /// Passes each flow that has recently sent data or had data acknowledged to `each`, if its acknowledgements pass
    /// this host. `waits` are the waits in the bands.
    pub fn read(&self, waits: &Waits, mut each: impl FnMut(Connection)) {
        let now = now();
        let (mut unacked, mut sees_acknowledgements) = (Vec::new(), false);
        for place in 0..PATHS_COUNT {
            // SAFETY: the mapping has PATHS_COUNT paths and lasts as long as `self`; a program writes them meanwhile,
            // so they are read as volatile, and any bytes are a valid `Path`.
            let path = unsafe { self.table.first.add(place) };
            // SAFETY: as above.
            let sent_at = unsafe { (&raw const (*path.as_ptr()).sent_at).read_volatile() };
            // SAFETY: as above.
            let acked_at = unsafe { (&raw const (*path.as_ptr()).acked_at).read_volatile() };
            let last = sent_at.max(acked_at);
            if sent_at == 0 || now - Nanos(last) >= OUTSTANDING_FOR {
                continue;
            }
            // SAFETY: as above.
            let [one, again] = [0; 2].map(|_: u8| unsafe { path.as_ptr().read_volatile() });
            // Another flow has taken the place.
            let is_taken = one.number == 0 || one.number != again.number;
            if is_taken || one.acked_seq == one.next_seq && now - Nanos(last) >= LISTED_FOR {
                continue;
            }
            match one.acked_at {
                0 if now - one.began() < UNACKED_FOR => unacked.push(one),
                // Acknowledgements take another way, so nothing shows the arrivals.
                0 => {}
                _ => {
                    sees_acknowledgements = true;
                    each(one.connection(now, waits));
                }
            }
        }
        // Before Linux 6.6 no acknowledgements are seen.
        unacked.iter().filter(|_| sees_acknowledgements).for_each(|one| each(one.connection(now, waits)));
    }
}

impl<T> Mapping<T> {
    /// Maps this many entries of an array that has at least as many.
    fn of(map: impl AsFd, entries: usize) -> io::Result<Mapping<T>> {
        let (map, shared, bytes) = (map.as_fd().as_raw_fd(), libc::MAP_SHARED, entries * size_of::<T>());
        // SAFETY: the kernel chooses the address, so that no other memory is touched; it fails if the map is smaller.
        let first = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, shared, map, 0) };
        if first == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = ptr::NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { first, entries })
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.entries * size_of::<T>()) };
    }
}

impl Path {
    /// Returns the time at which the flow began. Its number is that instant, except for the highest bit and the bits of
    /// its place.
    fn began(&self) -> Nanos {
        Nanos(self.number & !(1 << 63) & !(PATHS_COUNT as u64 - 1))
    }

    /// Converts the flow to the form in which the kernel describes a sending connection.
    fn connection(&self, now: Nanos, waits: &Waits) -> Connection {
        let segment_bytes = u32::from(self.segment_bytes).max(SEGMENT_BYTES_MIN);
        let sent_once = self.sent_bytes.saturating_sub(self.again_bytes);
        let outstanding = sent_once.saturating_sub(self.acked_bytes);
        let segments = outstanding / u64::from(segment_bytes);
        let mut client = [0; 16];
        for (bytes, word) in client.chunks_exact_mut(8).zip(self.client) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let unacked = outstanding.saturating_sub(self.sacked_bytes.into());
        let age = age(Nanos(u64::from(self.rtt_us) * 1000), now - Nanos(self.acked_at));
        let is_fresh = now - Nanos(self.tripped_at) <= FRESH_FOR + Nanos(u64::from(self.rtt_us) * 1000);
        let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Connection {
            cookie: self.number,
            own: [0; 16],
            client,
            is_ipv6: self.version == 6,
            is_forwarded: true,
            info: TcpInfo {
                segment_bytes,
                unacked_segments: whole(segments),
                sacked_segments: (self.sacked_bytes / segment_bytes).min(whole(segments)),
                rtt_us: if is_fresh { self.rtt_us } else { 0 },
                min_rtt_us: self.least_us,
                notsent_bytes: u32::from(segments >= LONG_SEGMENTS),
                acked_bytes: self.acked_bytes,
                last_ack_ms: whole((now - Nanos(self.acked_at)).0 / 1_000_000),
                retransmitted_bytes: self.again_bytes,
                sent_bytes: self.sent_bytes,
                has_timestamps: self.has_timestamps != 0,
                ..TcpInfo::default()
            },
            outstanding_bytes: whole(outstanding),
            below_bytes: whole(waits.waiting_bytes(self.priority, unacked, age, now - Nanos(self.sent_at))),
        }
    }
}
