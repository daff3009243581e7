//! A hand-made ClientHello of TLS 1.3 (RFC 8446 section 4.1.2): the cheapest request that makes a server sign. The
//! private key of its key share is unknown, so nothing that follows it can be decrypted.

/// AES-128-GCM with SHA-256; X25519; ECDSA P-256 and RSA-PSS with SHA-256.
const SUITE: [u8; 2] = [0x13, 0x01];
const X25519: [u8; 2] = [0, 29];
const SIGNATURES: [u8; 4] = [4, 3, 8, 4];
/// Any 32 bytes are a public key of X25519.
const KEY: [u8; 32] = [9; 32];

/// Returns the message as one record.
pub fn client_hello() -> Vec<u8> {
    let host = short(&[&[0][..], &short(b"localhost")].concat());
    let share = short(&[&X25519[..], &short(&KEY)].concat());
    let extensions = [
        extension(0, &host),
        extension(10, &short(&X25519)),
        extension(13, &short(&SIGNATURES)),
        extension(43, &[2, 3, 4]),
        extension(51, &share),
    ];
    let session = [&[32][..], &[5; 32]].concat();
    let body = [&[3, 3][..], &[7; 32], &session, &short(&SUITE), &[1, 0], &short(&extensions.concat())].concat();
    let message = [&[1, 0][..], &short(&body)].concat();
    [&[22, 3, 1][..], &short(&message)].concat()
}

/// Prepends the length in two bytes.
fn short(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, bytes: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &short(bytes)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_nest_to_the_end() {
        let hello = client_hello();
        assert_eq!(usize::from(u16::from_be_bytes([hello[3], hello[4]])), hello.len() - 5);
        assert_eq!(usize::from(u16::from_be_bytes([hello[7], hello[8]])), hello.len() - 9);
    }
}
