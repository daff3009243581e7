//! The binding to nghttp2, with all its unsafe code: an [`Engine`] owns a session of the library and the [`Hooks`] that
//! its callbacks write to.
//!
//! The library calls back only from within a call made through `&mut Engine`, on the same thread, so during a call only
//! the callback touches the hooks. No pointer that it passes is kept after a callback returns.
#![allow(unsafe_code)]

mod callbacks;
mod hooks;

use std::ffi::CStr;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use http::gateway::RequestHead;
use http::{ResponseHead, Trailers};
use libnghttp2_sys as sys;

pub use hooks::{Hooks, Requests, Side, Turn};

use crate::client::{ClientSettings, WINDOW_BYTES};
use crate::responses::Responses;
use crate::session::{Priority, Source, Supply};
use crate::{FRAME_HEADER_BYTES, Settings};

/// The limit on streams that a client cancels: a burst, and a rate per second. Weir's own limit is stricter
/// ([`crate::Flood`]).
const RESETS: (u64, u64) = (1000, 33);
/// The limit on mistakes of a client that do not end the connection by themselves: a burst, and a rate per second.
const GLITCHES: (u64, u64) = (1000, 33);
/// The maximum number of pending answers to SETTINGS and PING: one more than the burst of [`crate::Flood::Control`], so
/// that the client receives Weir's reason.
const ACKS_MAX: usize = 1001;
const SETTINGS_MAX: usize = 32;
const CONTINUATIONS_MAX: usize = 8;
/// The size of the dynamic table that compresses our header blocks: the initial value of RFC 7541.
const DEFLATE_TABLE_BYTES: usize = 4096;

/// State shared by all sessions.
struct Shared {
    callbacks: NonNull<sys::nghttp2_session_callbacks>,
    option: NonNull<sys::nghttp2_option>,
}

// SAFETY: both are written by the thread that creates them and only read afterwards: a new session copies what it
// needs.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The stream ID that opens a new stream.
const NEW_STREAM: i32 = -1;

/// The library's constructor of a session.
type Make = unsafe extern "C" fn(
    *mut *mut sys::nghttp2_session,
    *const sys::nghttp2_session_callbacks,
    *mut std::ffi::c_void,
    *const sys::nghttp2_option,
) -> std::ffi::c_int;

/// The result of one turn of a stream's body.
pub struct Turned {
    /// Bytes of the body.
    pub bytes: u64,
    /// The reason why the source gave no more bytes.
    pub stop: Option<Supply>,
    /// The error that ends the connection.
    pub error: Option<String>,
}

/// An nghttp2 session.
pub struct Engine {
    session: NonNull<sys::nghttp2_session>,
    hooks: NonNull<Hooks>,
    /// The fields of the message being submitted; the memory is reused.
    pairs: Vec<sys::nghttp2_nv>,
}

// SAFETY: it shares only read-only data with other sessions, and is used only by its owner.
unsafe impl Send for Engine {}

impl Engine {
    pub fn server(settings: &Settings) -> Engine {
        let side = Side::Server(Box::new(Requests::new(settings)));
        let mut engine = Engine::new(side, sys::nghttp2_session_server_new2);
        let entries = [
            (sys::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, settings.streams_max),
            (sys::NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.request.head_bytes_max as u32),
            (sys::NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1),
            (sys::NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1),
        ];
        engine.announce(if settings.has_tunnels { &entries } else { &entries[..entries.len() - 1] });
        engine
    }

    pub fn client(settings: &ClientSettings) -> Engine {
        let side = Side::Client(Responses::new(settings.response));
        let mut engine = Engine::new(side, sys::nghttp2_session_client_new2);
        engine.announce(&[
            (sys::NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
            (sys::NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.response.head.head_bytes_max as u32),
        ]);
        // SAFETY: the session is alive. The call fails only for lack of memory; the window then stays as it is.
        unsafe { sys::nghttp2_session_set_local_window_size(engine.session.as_ptr(), 0, 0, WINDOW_BYTES) };
        engine
    }

    fn new(side: Side, make: Make) -> Engine {
        let Shared { callbacks, option } = shared();
        let hooks = NonNull::from(Box::leak(Box::new(Hooks::new(side))));
        let mut session = null_mut();
        // SAFETY: the callbacks and the option are never freed, and the hooks outlive the session, which `drop` deletes
        // first.
        let failed = unsafe { make(&mut session, callbacks.as_ptr(), hooks.as_ptr().cast(), option.as_ptr()) };
        assert_eq!(failed, 0, "no memory for a session of HTTP/2");
        Engine { session: NonNull::new(session).expect("it was made"), hooks, pairs: Vec::new() }
    }

    fn announce(&mut self, entries: &[(u32, u32)]) {
        let entry = |(id, value): &(u32, u32)| sys::nghttp2_settings_entry { settings_id: *id as i32, value: *value };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        // SAFETY: the entries are copied.
        let failed = unsafe { sys::nghttp2_submit_settings(self.session.as_ptr(), 0, entries.as_ptr(), entries.len()) };
        assert_eq!(failed, 0, "settings that are allowed");
    }

    pub fn hooks(&mut self) -> &mut Hooks {
        // SAFETY: they are alive as long as the engine, and no callback runs while `self` is borrowed here.
        unsafe { self.hooks.as_mut() }
    }

    pub fn seen(&self) -> &Hooks {
        // SAFETY: as above.
        unsafe { self.hooks.as_ref() }
    }

    /// Takes received bytes. An error ends the connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: the bytes are read during the call alone.
        let taken = unsafe { sys::nghttp2_session_mem_recv2(self.session.as_ptr(), bytes.as_ptr(), bytes.len()) };
        if taken < 0 { Err(error_text(taken)) } else { Ok(()) }
    }

    /// Appends the frames that the library has queued to `out`. Returns the error that ends the connection, if any.
    pub fn make(&mut self, out: &mut Vec<u8>) -> Option<String> {
        self.hooks().out = std::mem::take(out);
        let error = self.make_all().err();
        *out = std::mem::take(&mut self.hooks().out);
        error
    }

    /// Appends queued frames, and then frames of this stream's body, up to `room` bytes in total.
    pub fn turn(&mut self, stream: u32, room: usize, source: &mut dyn Source, out: &mut Vec<u8>) -> Turned {
        // SAFETY: the pointer is valid for this call, and the turn that holds it ends before the call does; only
        // callbacks of `make` use it.
        let source = unsafe { std::mem::transmute::<*mut dyn Source, *mut (dyn Source + 'static)>(source) };
        self.hooks().turn = Some(Turn { stream, end: out.len() + room, source, bytes: 0, stop: None });
        let end = out.len() + room;
        let mut error = self.make(out);
        if error.is_none() && out.len() + FRAME_HEADER_BYTES < end && self.begin_data(stream) {
            error = self.make(out);
        }
        let turn = self.hooks().turn.take().expect("it was set above");
        Turned { bytes: turn.bytes, stop: turn.stop, error }
    }

    /// Makes the library request the body of a stream whose window is open. The end of the turn cancels that request,
    /// because data that waits for a window takes memory.
    fn begin_data(&mut self, stream: u32) -> bool {
        if self.window() == 0 || self.stream_window(stream).unwrap_or(0) == 0 {
            return false;
        }
        let provider = sys::nghttp2_data_provider2 {
            source: sys::nghttp2_data_source { ptr: null_mut() },
            read_callback: Some(callbacks::on_read),
        };
        let session = self.session.as_ptr();
        let flags = sys::NGHTTP2_FLAG_END_STREAM as u8;
        // SAFETY: the session is alive; the provider is copied during the call.
        unsafe {
            sys::nghttp2_session_get_stream_local_close(session, stream as i32) == 0
                && sys::nghttp2_submit_data2(session, flags, stream as i32, &raw const provider) == 0
        }
    }

    fn make_all(&mut self) -> Result<(), String> {
        loop {
            let mut frames = null();
            // SAFETY: the pointer is valid until the next call on this session, and the bytes are copied before that.
            let bytes = unsafe { sys::nghttp2_session_mem_send2(self.session.as_ptr(), &mut frames) };
            match bytes {
                0 => return Ok(()),
                1.. => {
                    // SAFETY: the pointer is valid for this many bytes, which do not belong to the hooks.
                    let frames = unsafe { std::slice::from_raw_parts(frames, bytes as usize) };
                    self.hooks().out.extend_from_slice(frames);
                }
                _ => return Err(error_text(bytes)),
            }
        }
    }

    /// Queues the head of a response; without a body it ends the stream. Returns false if the stream is closed.
    pub fn respond(&mut self, stream: u32, head: &ResponseHead, has_body: bool) -> bool {
        let status = head.status().digits();
        let pseudo = (&b":status"[..], &status[..]);
        self.submit(stream as i32, std::iter::once(pseudo).chain(head.fields()), has_body) == 0
    }

    /// Queues the head of a request on a new stream and returns the stream's number. `None` if no number is left.
    pub fn request(&mut self, head: &RequestHead, has_body: bool) -> Option<u32> {
        let stream = self.submit(NEW_STREAM, head.fields(), has_body);
        u32::try_from(stream).ok().filter(|stream| *stream > 0)
    }

    fn submit<'h>(&mut self, stream: i32, fields: impl Iterator<Item = (&'h [u8], &'h [u8])>, has_body: bool) -> i32 {
        self.pairs.clear();
        self.pairs.extend(fields.map(pair));
        let pairs = &self.pairs;
        let flags = if has_body { sys::NGHTTP2_FLAG_NONE } else { sys::NGHTTP2_FLAG_END_STREAM } as u8;
        let session = self.session.as_ptr();
        // SAFETY: names and values are copied during the call.
        unsafe { sys::nghttp2_submit_headers(session, flags, stream, null(), pairs.as_ptr(), pairs.len(), null_mut()) }
    }

    /// Returns true if the server has not refused any request yet and stream numbers are left.
    pub fn may_request(&mut self) -> bool {
        // SAFETY: the session is alive.
        unsafe { sys::nghttp2_session_check_request_allowed(self.session.as_ptr()) != 0 }
    }

    /// The number of streams that the server lets us have open at once.
    pub fn streams_max(&mut self) -> u32 {
        let id = sys::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
        // SAFETY: the session is alive.
        unsafe { sys::nghttp2_session_get_remote_settings(self.session.as_ptr(), id) }
    }

    /// Returns true if the server opens a WebSocket on a stream (RFC 8441 section 3); `None` until its settings arrive.
    pub fn takes_tunnels(&mut self) -> Option<bool> {
        let id = sys::NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL;
        // SAFETY: the session is alive.
        let setting = unsafe { sys::nghttp2_session_get_remote_settings(self.session.as_ptr(), id) };
        self.hooks().has_settings.then_some(setting == 1)
    }

    /// Records that bytes of a body were read. The stream's window opens once enough were read for a frame.
    pub fn open_window(&mut self, stream: u32, bytes: usize) {
        // SAFETY: the session is alive. The call fails only for lack of memory; the window then stays shut.
        unsafe { sys::nghttp2_session_consume_stream(self.session.as_ptr(), stream as i32, bytes) };
    }

    /// Records that bytes were stored or discarded. The connection's window opens once there are enough for a frame.
    pub fn open_connection_window(&mut self, bytes: usize) {
        // SAFETY: as above.
        unsafe { sys::nghttp2_session_consume_connection(self.session.as_ptr(), bytes) };
    }

    /// Sets the window of a stream, or of the connection (0). A wider window is announced immediately; for a narrower
    /// one, fewer updates are sent.
    pub fn set_window(&mut self, stream: u32, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: as above.
        unsafe { sys::nghttp2_session_set_local_window_size(self.session.as_ptr(), 0, stream as i32, bytes) };
    }

    pub fn reset(&mut self, stream: u32, code: u32) {
        // SAFETY: as above.
        unsafe { sys::nghttp2_submit_rst_stream(self.session.as_ptr(), 0, stream as i32, code) };
    }

    /// Ends the connection with a GOAWAY.
    pub fn terminate(&mut self, code: u32) {
        // SAFETY: the session is alive.
        unsafe { sys::nghttp2_session_terminate_session(self.session.as_ptr(), code) };
    }

    /// Accepts no new streams; open ones complete normally.
    pub fn go_away(&mut self) {
        // SAFETY: the session is alive, and there is no further data.
        unsafe {
            let last = sys::nghttp2_session_get_last_proc_stream_id(self.session.as_ptr());
            sys::nghttp2_submit_goaway(self.session.as_ptr(), 0, last, sys::NGHTTP2_NO_ERROR, null(), 0);
        }
    }

    /// The window for sending on this stream; `None` if it is closed.
    pub fn stream_window(&mut self, stream: u32) -> Option<u32> {
        // SAFETY: the session is alive.
        let window =
            unsafe { sys::nghttp2_session_get_stream_remote_window_size(self.session.as_ptr(), stream as i32) };
        // The library returns 0 for a window below zero (RFC 9113 section 6.9.2), and -1 for no stream.
        u32::try_from(window).ok()
    }

    /// The window for sending on all streams together.
    pub fn window(&mut self) -> u32 {
        // SAFETY: the session is alive.
        let window = unsafe { sys::nghttp2_session_get_remote_window_size(self.session.as_ptr()) };
        u32::try_from(window).unwrap_or(0)
    }

    /// Returns true if the client has sent its whole request; `None` if the stream is closed.
    pub fn has_whole_request(&mut self, stream: u32) -> Option<bool> {
        // SAFETY: the session is alive.
        match unsafe { sys::nghttp2_session_get_stream_remote_close(self.session.as_ptr(), stream as i32) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Bytes of the request on this stream that the client may send before the window opens again.
    pub fn request_window(&mut self, stream: u32) -> u32 {
        // SAFETY: the session is alive.
        let window = unsafe { sys::nghttp2_session_get_stream_local_window_size(self.session.as_ptr(), stream as i32) };
        u32::try_from(window).unwrap_or(0)
    }

    pub fn priority(&mut self, stream: u32) -> Option<Priority> {
        let mut found = sys::nghttp2_extpri { urgency: 0, inc: 0 };
        // SAFETY: it writes to `found` only during the call.
        let failed = unsafe {
            sys::nghttp2_session_get_extpri_stream_priority(self.session.as_ptr(), &mut found, stream as i32)
        };
        (failed == 0).then_some(Priority { urgency: found.urgency.min(7) as u8, is_incremental: found.inc != 0 })
    }

    pub fn wants_read(&mut self) -> bool {
        // SAFETY: the session is alive.
        unsafe { sys::nghttp2_session_want_read(self.session.as_ptr()) != 0 }
    }

    pub fn wants_write(&mut self) -> bool {
        // SAFETY: the session is alive.
        unsafe { sys::nghttp2_session_want_write(self.session.as_ptr()) != 0 }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: created by `new` and deleted once; the hooks are freed after the session that points to them.
        unsafe {
            sys::nghttp2_session_del(self.session.as_ptr());
            drop(Box::from_raw(self.hooks.as_ptr()));
        }
    }
}

/// Sets the priority of a stream from its request: the library parses that field only if it checks messages itself.
///
/// # Safety
/// The session is alive and is a server's.
unsafe fn wish(session: *mut sys::nghttp2_session, stream: i32, priority: Priority) {
    let wish = sys::nghttp2_extpri { urgency: priority.urgency.into(), inc: priority.is_incremental.into() };
    // SAFETY: the value is read only during the call, which the library allows in a callback; it fails only if the
    // stream is closed.
    unsafe { sys::nghttp2_session_change_extpri_stream_priority(session, stream, &wish, 0) };
}

/// Submits trailers, which end the stream. Returns false if memory for them is lacking.
///
/// # Safety
/// The session is alive.
unsafe fn submit_trailers(session: *mut sys::nghttp2_session, stream: i32, trailers: &Trailers) -> bool {
    let pairs: Vec<_> = trailers.fields().map(pair).collect();
    // SAFETY: names and values are copied during the call.
    unsafe { sys::nghttp2_submit_trailer(session, stream, pairs.as_ptr(), pairs.len()) == 0 }
}

/// Converts a field for the library, which copies it and lower-cases its name.
fn pair((name, value): (&[u8], &[u8])) -> sys::nghttp2_nv {
    sys::nghttp2_nv {
        name: name.as_ptr().cast_mut(),
        value: value.as_ptr().cast_mut(),
        namelen: name.len(),
        valuelen: value.len(),
        flags: sys::NGHTTP2_NV_FLAG_NONE as u8,
    }
}

fn error_text(code: isize) -> String {
    // SAFETY: the library returns a static string for every number.
    let text = unsafe { CStr::from_ptr(sys::nghttp2_strerror(code as i32)) };
    text.to_string_lossy().into_owned()
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| Shared { callbacks: callbacks::table(), option: option() })
}

/// The options of all sessions. The library would end the connection for a malformed message, so its checks are
/// disabled: [`Requests`] and [`Responses`] check instead, and only the stream is reset (RFC 9113 section 8.1.1). The
/// remaining checks concern frames and header blocks that cannot be decoded, after which the connection's state is
/// lost.
fn option() -> NonNull<sys::nghttp2_option> {
    let mut option = null_mut();
    // SAFETY: the library allocates the options, which are filled here and never deleted.
    unsafe {
        assert_eq!(sys::nghttp2_option_new(&mut option), 0, "no memory for options");
        sys::nghttp2_option_set_builtin_recv_extension_type(option, sys::NGHTTP2_PRIORITY_UPDATE as u8);
        sys::nghttp2_option_set_no_auto_window_update(option, 1);
        sys::nghttp2_option_set_no_http_messaging(option, 1);
        sys::nghttp2_option_set_stream_reset_rate_limit(option, RESETS.0, RESETS.1);
        sys::nghttp2_option_set_glitch_rate_limit(option, GLITCHES.0, GLITCHES.1);
        sys::nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
        sys::nghttp2_option_set_max_settings(option, SETTINGS_MAX);
        sys::nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
        sys::nghttp2_option_set_max_deflate_dynamic_table_size(option, DEFLATE_TABLE_BYTES);
    }
    NonNull::new(option).expect("it was made")
}
