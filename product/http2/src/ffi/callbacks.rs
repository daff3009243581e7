//! The callbacks of the library. A panic in one aborts the process: it cannot unwind through C.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use libnghttp2_sys as sys;

use super::hooks::{Hooks, Side};
use super::submit_trailers;
use crate::session::{Source, Supply};
use crate::{Event, FRAME_HEADER_BYTES};

/// Maximum bytes of the library's text about a protocol error.
const TROUBLE_BYTES_MAX: usize = 200;

/// Ends the current turn of a body without ending the stream.
const TURN_OVER: u32 = sys::NGHTTP2_DATA_FLAG_EOF | sys::NGHTTP2_DATA_FLAG_NO_END_STREAM;

pub fn table() -> NonNull<sys::nghttp2_session_callbacks> {
    let mut table = null_mut();
    // SAFETY: the library allocates the table, which is filled here and never deleted; the functions have the types it
    // requires.
    unsafe {
        assert_eq!(sys::nghttp2_session_callbacks_new(&mut table), 0, "no memory for callbacks");
        sys::nghttp2_session_callbacks_set_on_begin_headers_callback(table, Some(on_begin_headers));
        sys::nghttp2_session_callbacks_set_on_header_callback(table, Some(on_header));
        sys::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table, Some(on_chunk));
        sys::nghttp2_session_callbacks_set_on_frame_recv_callback(table, Some(on_frame));
        sys::nghttp2_session_callbacks_set_on_stream_close_callback(table, Some(on_close));
        sys::nghttp2_session_callbacks_set_on_frame_send_callback(table, Some(on_sent));
        sys::nghttp2_session_callbacks_set_send_data_callback(table, Some(on_data));
    }
    NonNull::new(table).expect("it was made")
}

/// # Safety
/// `user_data` is the pointer that the session was created with, and no other reference to its target is in use.
unsafe fn hooks<'a>(user_data: *mut c_void) -> &'a mut Hooks {
    // SAFETY: the engine gave its hooks to the session, and does not touch them during a call into the library.
    unsafe { &mut *user_data.cast::<Hooks>() }
}

/// # Safety
/// `frame` points to a valid frame.
unsafe fn header(frame: *const sys::nghttp2_frame) -> sys::nghttp2_frame_hd {
    // SAFETY: every member of the union begins with the header.
    unsafe { (*frame).hd }
}

/// Returns true for the head of a message or its trailers; false for PUSH_PROMISE.
///
/// # Safety
/// The same as for [`header`].
unsafe fn is_block(frame: *const sys::nghttp2_frame) -> bool {
    // SAFETY: as the caller promises.
    unsafe { header(frame) }.type_ == sys::NGHTTP2_HEADERS as u8
}

unsafe extern "C" fn on_begin_headers(
    _session: *mut sys::nghttp2_session,
    frame: *const sys::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a frame and the session's user data.
    unsafe {
        if is_block(frame) {
            // A frame of type HEADERS has that member.
            hooks(user_data).begin_head((*frame).headers.cat == sys::NGHTTP2_HCAT_REQUEST);
        }
    }
    0
}

unsafe extern "C" fn on_header(
    _session: *mut sys::nghttp2_session,
    frame: *const sys::nghttp2_frame,
    name: *const u8,
    name_len: usize,
    value: *const u8,
    value_len: usize,
    _flags: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a frame, the session's user data, and a name and value with the given lengths,
    // which end with a NUL and so are never null.
    unsafe {
        if is_block(frame) {
            let name = std::slice::from_raw_parts(name, name_len);
            let value = std::slice::from_raw_parts(value, value_len);
            hooks(user_data).push_field(name, value);
        }
    }
    0
}

unsafe extern "C" fn on_frame(
    session: *mut sys::nghttp2_session,
    frame: *const sys::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a live session, a frame and the session's user data; the payload of
    // PRIORITY_UPDATE has the type that the library's own parser produces, or is null.
    unsafe {
        let sys::nghttp2_frame_hd { type_: frame_type, flags, stream_id, .. } = header(frame);
        let is_message = [sys::NGHTTP2_HEADERS as u8, sys::NGHTTP2_DATA as u8].contains(&frame_type);
        let ends_stream = is_message && flags & sys::NGHTTP2_FLAG_END_STREAM as u8 != 0;
        let hooks = hooks(user_data);
        if is_block(frame) {
            hooks.end_head(stream_id as u32, ends_stream);
            hooks.take_priority().into_iter().for_each(|priority| super::wish(session, stream_id, priority));
        } else if ends_stream {
            hooks.end_body(stream_id as u32);
        } else if frame_type == sys::NGHTTP2_SETTINGS as u8 && flags & sys::NGHTTP2_FLAG_ACK as u8 != 0 {
            hooks.bodies.trip.on_acknowledged();
        } else if frame_type == sys::NGHTTP2_SETTINGS as u8 {
            hooks.has_settings = true;
        } else if frame_type == sys::NGHTTP2_GOAWAY as u8 {
            let goaway = (*frame).goaway;
            let is_calm = goaway.error_code == sys::NGHTTP2_NO_ERROR;
            hooks.last_processed = if is_calm { goaway.last_stream_id as u32 } else { 0 };
        } else if frame_type == sys::NGHTTP2_PRIORITY_UPDATE as u8 {
            let update = (*frame).ext.payload.cast::<sys::nghttp2_ext_priority_update>();
            if let (Some(update), Side::Server(requests)) = (update.as_ref(), &mut hooks.side) {
                requests.push_event(Event::Priority { stream: update.stream_id as u32 });
            }
        }
    }
    0
}

/// Receives a part of a body. The connection's window opens immediately, so that no stream blocks it, unless memory is
/// short. The stream's window opens as the body is read, or immediately if a request's body is discarded before the
/// response is complete.
unsafe extern "C" fn on_chunk(
    session: *mut sys::nghttp2_session,
    _flags: u8,
    stream: i32,
    data: *const u8,
    length: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a live session, bytes of this length, and the session's user data; both
    // functions may be called here, and fail only for lack of memory, which ends the connection.
    unsafe {
        let bytes = std::slice::from_raw_parts(data, length);
        let is_answered = sys::nghttp2_session_get_stream_local_close(session, stream) == 1;
        let hooks = hooks(user_data);
        let failed = match hooks.keep(stream as u32, bytes) {
            true => sys::nghttp2_session_consume_connection(session, hooks.bodies.open_for(length)),
            false if is_answered => sys::nghttp2_session_consume_connection(session, length),
            false => sys::nghttp2_session_consume(session, stream, length),
        };
        if failed == 0 { 0 } else { sys::NGHTTP2_ERR_CALLBACK_FAILURE }
    }
}

unsafe extern "C" fn on_close(
    _session: *mut sys::nghttp2_session,
    stream: i32,
    code: u32,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with the session's user data.
    unsafe { hooks(user_data) }.close(stream as u32, code);
    0
}

unsafe extern "C" fn on_sent(
    _session: *mut sys::nghttp2_session,
    frame: *const sys::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a frame, which has the member of its type, and the session's user data.
    let (frame_type, code, hooks) = unsafe {
        let frame_type = u32::from(header(frame).type_);
        let code = match frame_type {
            sys::NGHTTP2_RST_STREAM => (*frame).rst_stream.error_code,
            sys::NGHTTP2_GOAWAY => (*frame).goaway.error_code,
            _ => sys::NGHTTP2_NO_ERROR,
        };
        (frame_type, code, hooks(user_data))
    };
    match (frame_type, code) {
        (_, sys::NGHTTP2_NO_ERROR) => {}
        // Neither a failed file nor an unwanted response is the peer's mistake, and an excess stream costs nothing.
        (sys::NGHTTP2_RST_STREAM, sys::NGHTTP2_REFUSED_STREAM | sys::NGHTTP2_INTERNAL_ERROR | sys::NGHTTP2_CANCEL) => {}
        (sys::NGHTTP2_RST_STREAM, _) => hooks.provoked += 1,
        // SAFETY: a frame of type GOAWAY has that member, and a text of that length or none.
        _ => hooks.trouble = Some(unsafe { reason(&(*frame).goaway) }),
    }
    0
}

/// Returns the text about its mistake that we send to a peer.
///
/// # Safety
/// The frame's text has the length that the frame declares, or is null.
unsafe fn reason(frame: &sys::nghttp2_goaway) -> String {
    if frame.opaque_data.is_null() || frame.opaque_data_len == 0 {
        return format!("HTTP/2 error {} (RFC 9113 section 7)", frame.error_code);
    }
    // SAFETY: as the caller promises.
    let text = unsafe { std::slice::from_raw_parts(frame.opaque_data, frame.opaque_data_len.min(TROUBLE_BYTES_MAX)) };
    text.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ').map(|&byte| char::from(byte)).collect()
}

/// Reads the body of a stream for the library. The stream whose turn it is is read directly to its final place in
/// `out`, leaving room for the frame header, which [`on_data`] fills in.
pub unsafe extern "C" fn on_read(
    session: *mut sys::nghttp2_session,
    stream: i32,
    _buf: *mut u8,
    length: usize,
    data_flags: *mut u32,
    _source: *mut sys::nghttp2_data_source,
    user_data: *mut c_void,
) -> sys::nghttp2_ssize {
    // SAFETY: called by the library with the session's user data.
    let hooks = unsafe { hooks(user_data) };
    let room = hooks.room(stream as u32, length);
    let Some(source) = hooks.turn.as_ref().filter(|_| room > 0).map(|turn| turn.source) else {
        // SAFETY: the library passes a valid pointer.
        unsafe { *data_flags |= TURN_OVER };
        return 0;
    };
    // SAFETY: the turn's source is borrowed by the engine call that is in progress.
    let source = unsafe { &mut *source };
    let (bytes, supply) = hooks.read(source, room);
    let turn = hooks.turn.as_mut().expect("it has its turn");
    turn.bytes += bytes as u64;
    turn.stop = (supply != Supply::More).then_some(supply);
    match supply {
        Supply::Failed => return sys::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE as sys::nghttp2_ssize,
        // SAFETY: the session is alive, and the library passes a valid pointer.
        Supply::End => unsafe { *data_flags |= end(session, stream, source) },
        // SAFETY: as above, and the session is alive.
        _ if bytes == 0 || hooks.room(stream as u32, 1) == 0 || bytes >= unsafe { window(session, stream) } => unsafe {
            *data_flags |= TURN_OVER;
        },
        _ => {}
    }
    // SAFETY: as above.
    unsafe { *data_flags |= sys::NGHTTP2_DATA_FLAG_NO_COPY };
    bytes as sys::nghttp2_ssize
}

/// Ends a body: ends its stream, or submits its trailers.
///
/// # Safety
/// The session is alive.
unsafe fn end(session: *mut sys::nghttp2_session, stream: i32, source: &mut dyn Source) -> u32 {
    // SAFETY: as the caller promises; the library allows this call in a read callback.
    let has_trailers = source.trailers().is_some_and(|trailers| unsafe { submit_trailers(session, stream, &trailers) });
    if has_trailers { TURN_OVER } else { sys::NGHTTP2_DATA_FLAG_EOF }
}

/// Returns the flow-control window in bytes: what the windows of the stream and of the connection both allow, without
/// deducting the frame in progress.
///
/// # Safety
/// The session is alive.
unsafe fn window(session: *mut sys::nghttp2_session, stream: i32) -> usize {
    // SAFETY: as the caller promises.
    let windows = unsafe {
        let of_stream = sys::nghttp2_session_get_stream_remote_window_size(session, stream);
        of_stream.min(sys::nghttp2_session_get_remote_window_size(session))
    };
    usize::try_from(windows).unwrap_or(0)
}

unsafe extern "C" fn on_data(
    _session: *mut sys::nghttp2_session,
    _frame: *mut sys::nghttp2_frame,
    frame_header: *const u8,
    length: usize,
    _source: *mut sys::nghttp2_data_source,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: called by the library with a frame header and the session's user data.
    let (hooks, header) = unsafe { (hooks(user_data), std::slice::from_raw_parts(frame_header, FRAME_HEADER_BYTES)) };
    let begin = hooks.frame_at;
    // The end of a body without a byte has no room reserved yet.
    hooks.out.resize(begin + FRAME_HEADER_BYTES + length, 0);
    hooks.out[begin..begin + FRAME_HEADER_BYTES].copy_from_slice(header);
    0
}
