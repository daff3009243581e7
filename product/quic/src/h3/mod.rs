//! HTTP/3 (RFC 9114) as a pure function of the bytes of its streams.

pub mod control;
pub mod fault;
pub mod fields;
pub mod floods;
pub mod frames;
pub mod request;
pub mod uni;
pub mod varint;
