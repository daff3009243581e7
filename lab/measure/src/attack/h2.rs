//! The part of HTTP/2 without TLS (RFC 9113, prior knowledge) that the floods need.

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// `:method: GET` and `:scheme: http` of the static table (RFC 7541 appendix A), and the indexes of the names
/// `:authority` and `:path`.
const GET_HTTP: [u8; 2] = [0x82, 0x86];
const AUTHORITY: u8 = 0x01;
const PATH: u8 = 0x04;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Encodes a header block without a dynamic table and without Huffman coding; names are shorter than 127 bytes.
pub fn request(name: &str) -> Vec<u8> {
    let literal = |index: u8, value: String| [&[index, value.len() as u8], value.as_bytes()].concat();
    [GET_HTTP.to_vec(), literal(AUTHORITY, "bench".into()), literal(PATH, format!("/{name}"))].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_requests_as_the_rfcs_have_them() {
        assert_eq!(frame(1, 5, 3, b"ab"), [0, 0, 2, 1, 5, 0, 0, 0, 3, b'a', b'b']);
        assert_eq!(request("x"), [b"\x82\x86\x01\x05bench", &b"\x04\x02/x"[..]].concat());
    }
}
