//! The WebSocket handshake with an upstream (RFC 6455 section 4) on behalf of a client of HTTP/2 or HTTP/3. Such a
//! client has no handshake of its own: its CONNECT is enough (RFC 8441 section 5, RFC 9220). The key proves that the
//! upstream has read this request and no other message.

/// Bytes of a key as sent: 16 bytes in base64.
pub const KEY_BYTES: usize = 24;
/// Bytes of the answer to a key: 20 bytes in base64.
pub const ACCEPT_BYTES: usize = 28;

/// The constant of RFC 6455 section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Encodes an unpredictable nonce as a Sec-WebSocket-Key.
pub fn key(nonce: [u8; 16]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    base64(&nonce, &mut key);
    key
}

/// Returns the Sec-WebSocket-Accept that answers a key.
pub fn accept(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let mut accept = [0; ACCEPT_BYTES];
    base64(&sha1(&[key, GUID].concat()), &mut accept);
    accept
}

/// Encodes base64 (RFC 4648 section 4), padding `into` with `=`.
fn base64(bytes: &[u8], into: &mut [u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (group, four) in bytes.chunks(3).zip(into.chunks_mut(4)) {
        let word = (0..3).fold(0, |word, at| word << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for (at, digit) in four.iter_mut().enumerate() {
            *digit = if at <= group.len() { DIGITS[(word >> (18 - 6 * at) & 63) as usize] } else { b'=' };
        }
    }
}

/// SHA-1 (RFC 3174). RFC 6455 requires it; no secret depends on it.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0_u32];
    let mut padded = [message, &[0x80]].concat();
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((8 * message.len() as u64).to_be_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    let mut digest = [0; 20];
    digest.chunks_exact_mut(4).zip(state).for_each(|(four, word)| four.copy_from_slice(&word.to_be_bytes()));
    digest
}

fn mix(state: &mut [u32; 5], block: &[u8]) {
    let mut words = [0; 80];
    for (word, four) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    }
    for at in 16..80 {
        words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (at, word) in words.into_iter().enumerate() {
        let (mixed, constant) = match at / 20 {
            0 => (b & c | !b & d, 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
    }
    for (word, mixed) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The digests are from RFC 3174 section 7.3, and, for lengths near the end of a block, from Python's hashlib.
    #[test]
    fn digests_are_those_of_the_rfc() {
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            hex(&sha1(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
        for (bytes, digest) in [
            (0, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
            (56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"),
            (63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"),
            (64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
            (119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"),
            (120, "f34c1488385346a55709ba056ddd08280dd4c6d6"),
        ] {
            assert_eq!(hex(&sha1(&vec![b'a'; bytes])), digest, "{bytes} bytes");
        }
    }

    /// The example of RFC 6455 section 1.3.
    #[test]
    fn the_answer_to_a_key() {
        assert_eq!(&key(*b"the sample nonce"), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(&accept(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
