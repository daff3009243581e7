//! temporary
use std::net::IpAddr;
use crate::{BodyLength, Method, Request};
pub struct Gateway<'a> { pub client: IpAddr, pub client_port: Option<u16>, pub is_secure: bool, pub is_trusted: bool, pub host: Option<&'a [u8]>, pub version: (u8, u8) }
const HOP: &[&str] = &["connection","keep-alive","proxy-connection","te","trailer","transfer-encoding","upgrade","expect","content-length","host","http2-settings","x-forwarded-for","x-forwarded-proto","x-forwarded-host","forwarded"];
pub fn encode_request(out: &mut Vec<u8>, request: &Request, gateway: &Gateway, body: BodyLength) {
    out.extend_from_slice(request.method.token().as_bytes()); out.push(b' ');
    out.extend_from_slice(request.target); out.extend_from_slice(b" HTTP/1.1\r\n");
    let mut put = |n: &[u8], v: &[u8]| { out.extend_from_slice(n); out.extend_from_slice(b": "); out.extend_from_slice(v); out.extend_from_slice(b"\r\n"); };
    if let Some(h) = gateway.host.or(request.fields.host) { put(b"Host", h); }
    for (n, v) in request.all() { if !HOP.iter().any(|h| n.eq_ignore_ascii_case(h.as_bytes())) { put(n, v); } }
    put(b"X-Forwarded-For", gateway.client.to_string().as_bytes());
    put(b"X-Forwarded-Proto", if gateway.is_secure { b"https" } else { b"http" });
    match body { BodyLength::Known(n) => put(b"Content-Length", n.to_string().as_bytes()), BodyLength::Unknown => put(b"Transfer-Encoding", b"chunked"), BodyLength::None if matches!(request.method, Method::Post|Method::Put|Method::Patch) => put(b"Content-Length", b"0"), BodyLength::None => {} }
    out.extend_from_slice(b"\r\n");
}
