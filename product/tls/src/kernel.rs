//! A connection's keys as the kernel takes them (`linux/tls.h`), so that it seals and opens records itself.

use std::fmt;

use rustls::{CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion};

/// Type, version and length (RFC 8446 section 5.1).
const HEADER_BYTES: usize = 5;

/// The longest description of a direction: that of AES-256.
const INFO_BYTES_MAX: usize = 56;

const AES_GCM_128: u16 = 51;
const AES_GCM_256: u16 = 52;
const CHACHA20_POLY1305: u16 = 54;

/// A version and a cipher of which the kernel may know, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// As on the wire.
    version: u16,
    /// The kernel's number.
    cipher: u16,
}

impl Kind {
    /// All that our suites can be.
    pub fn all() -> impl Iterator<Item = Kind> {
        let ciphers = [AES_GCM_128, AES_GCM_256, CHACHA20_POLY1305];
        [0x0303, 0x0304].into_iter().flat_map(move |version| ciphers.map(|cipher| Kind { version, cipher }))
    }

    pub(crate) fn new(version: ProtocolVersion, suite: CipherSuite) -> Option<Kind> {
        use CipherSuite as Suite;
        let cipher = match suite {
            Suite::TLS13_AES_128_GCM_SHA256
            | Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => AES_GCM_128,
            Suite::TLS13_AES_256_GCM_SHA384
            | Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => AES_GCM_256,
            Suite::TLS13_CHACHA20_POLY1305_SHA256
            | Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => CHACHA20_POLY1305,
            _ => return None,
        };
        Some(Kind { version: version.into(), cipher })
    }

    /// With keys of nobody, to ask the kernel whether it knows this kind.
    pub fn sample(self) -> CryptoInfo {
        let key_bytes = if self.cipher == AES_GCM_128 { 16 } else { 32 };
        self.info(&[0; 32][..key_bytes], &[0; 12], 0)
    }

    /// Version, cipher, what each record's nonce is made from, key, what is the same in all nonces, and the number of the next record.
    fn info(self, key: &[u8], iv: &[u8; 12], sequence: u64) -> CryptoInfo {
        // ChaCha20 has no salt: all twelve bytes are the `iv`.
        let (salt, iv) = iv.split_at(if self.cipher == CHACHA20_POLY1305 { 0 } else { 4 });
        let mut info = CryptoInfo { bytes: [0; INFO_BYTES_MAX], len: 0 };
        let (version, cipher) = (self.version.to_ne_bytes(), self.cipher.to_ne_bytes());
        for part in [&version[..], &cipher, iv, key, salt, &sequence.to_be_bytes()] {
            info.bytes[info.len..][..part.len()].copy_from_slice(part);
            info.len += part.len();
        }
        info
    }

    fn of_direction(self, sequence: u64, secrets: &ConnectionTrafficSecrets, sends: bool) -> CryptoInfo {
        use ConnectionTrafficSecrets as Secrets;
        let (key, iv) = match secrets {
            // TLS 1.2 names all of AES so; the key's length tells.
            Secrets::Aes128Gcm { key, iv } | Secrets::Aes256Gcm { key, iv } => (key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => unreachable!("a kind that is known"),
        };
        let mut iv: [u8; 12] = iv.as_ref().try_into().expect("all our suites have nonces of 12 bytes");
        if sends && self.has_explicit_nonces() {
            // The sent records had `iv ^ number`, the kernel's have `iv + number`: from another half, so that none comes twice.
            iv[4] ^= 0x80;
        }
        self.info(key.as_ref(), &iv, sequence)
    }

    /// TLS 1.2 with AES sends a part of the nonce with each record (RFC 5288 section 3).
    fn has_explicit_nonces(self) -> bool {
        self.version == 0x0303 && self.cipher != CHACHA20_POLY1305
    }
}

/// One direction's keys as the kernel takes them; forgotten when dropped.
pub struct CryptoInfo {
    bytes: [u8; INFO_BYTES_MAX],
    len: usize,
}

impl CryptoInfo {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for CryptoInfo {
    fn drop(&mut self) {
        self.bytes = [0; INFO_BYTES_MAX];
        std::hint::black_box(&self.bytes);
    }
}

impl fmt::Debug for CryptoInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// The keys of both directions.
#[derive(Debug)]
pub struct KernelKeys {
    pub sends: CryptoInfo,
    pub receives: CryptoInfo,
    /// Bytes that a record has beside its content, at most.
    pub overhead: usize,
}

impl KernelKeys {
    pub(crate) fn new(kind: Kind, secrets: ExtractedSecrets, overhead: usize) -> KernelKeys {
        let ((sent, tx), (received, rx)) = (secrets.tx, secrets.rx);
        let sends = kind.of_direction(sent, &tx, true);
        KernelKeys { sends, receives: kind.of_direction(received, &rx, false), overhead }
    }
}

/// Where the records end in the bytes of a client.
#[derive(Debug, Default)]
pub(crate) struct RecordEnds {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that are there.
    begun: usize,
    /// Bytes of the record that are to come behind its header.
    left: usize,
}

impl RecordEnds {
    pub fn bytes_of_record(&mut self, wire: &[u8]) -> usize {
        let mut taken = 0;
        if self.left == 0 {
            taken = wire.len().min(HEADER_BYTES - self.begun);
            self.header[self.begun..][..taken].copy_from_slice(&wire[..taken]);
            self.begun += taken;
            if self.begun < HEADER_BYTES {
                return taken;
            }
            self.begun = 0;
            self.left = u16::from_be_bytes([self.header[3], self.header[4]]).into();
        }
        let content = self.left.min(wire.len() - taken);
        self.left -= content;
        taken + content
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `linux/tls.h` has them: struct tls12_crypto_info_aes_gcm_128, ..._256, ..._chacha20_poly1305.
    #[test]
    fn the_kernel_s_layout() {
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let info = |version, cipher, key: &[u8]| Kind { version, cipher }.info(key, &iv, 7).bytes().to_vec();
        let begin = |version: u16, cipher: u16| [version.to_ne_bytes(), cipher.to_ne_bytes()].concat();
        let number = [0, 0, 0, 0, 0, 0, 0, 7];
        let aes = |begin: Vec<u8>, key: &[u8]| [&begin, &iv[4..], key, &iv[..4], &number].concat();
        assert_eq!(info(0x0304, AES_GCM_128, &[9; 16]), aes(begin(0x0304, 51), &[9; 16]));
        assert_eq!(info(0x0303, AES_GCM_256, &[9; 32]), aes(begin(0x0303, 52), &[9; 32]));
        let chacha = [&begin(0x0304, 54), &iv[..], &[9; 32], &number].concat();
        assert_eq!(info(0x0304, CHACHA20_POLY1305, &[9; 32]), chacha);
        let lengths: Vec<usize> = Kind::all().map(|kind| kind.sample().bytes().len()).collect();
        assert_eq!(lengths, [40, 56, 56, 40, 56, 56]);
    }

    /// A nonce that comes twice gives the key away. rustls' nonce of record n is `iv ^ n`, the kernel's `iv + n` from where it begins.
    #[test]
    fn no_nonce_of_tls_1_2_comes_twice() {
        let secrets = |iv: [u8; 12]| ConnectionTrafficSecrets::Aes128Gcm { key: [0; 32].into(), iv: iv.into() };
        for first in [[0; 12], [0xff; 12], [0x7f; 12]] {
            let kind = Kind { version: 0x0303, cipher: AES_GCM_128 };
            let begins = |sends| {
                let info = kind.of_direction(1, &secrets(first), sends);
                u64::from_be_bytes(info.bytes()[4..12].try_into().unwrap())
            };
            let explicit = u64::from_be_bytes(first[4..].try_into().unwrap());
            assert_eq!(begins(false), explicit);
            for sealed in 0..1000 {
                assert!(begins(true).wrapping_sub(explicit ^ sealed) > 1 << 62, "far ahead of the next");
                assert!((explicit ^ sealed).wrapping_sub(begins(true)) > 1 << 62);
            }
        }
    }

    proptest! {
        #[test]
        fn records_end_where_their_lengths_say(
            lengths in prop::collection::vec(0_usize..300, 1..20),
            cuts in prop::collection::vec(1_usize..400, 1..20),
        ) {
            let record = |length: &usize| [&[23, 3, 3][..], &(*length as u16).to_be_bytes(), &vec![0xff; *length]].concat();
            let wire: Vec<u8> = lengths.iter().flat_map(record).collect();
            let (mut ends, mut at, mut reached) = (RecordEnds::default(), 0, Vec::new());
            for cut in cuts.iter().cycle() {
                if at == wire.len() {
                    break;
                }
                at += ends.bytes_of_record(&wire[at..wire.len().min(at + cut)]);
                if ends.left == 0 && ends.begun == 0 {
                    reached.push(at);
                }
            }
            let expected: Vec<usize> = lengths.iter().scan(0, |end, length| { *end += 5 + length; Some(*end) }).collect();
            prop_assert_eq!(reached, expected);
        }
    }
}
