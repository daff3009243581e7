//! Checks that a file is a complete picture of a certain type, by its outermost structure. Truncated and misnamed files
//! fail this check. Pixels are not decoded.

use http::ImageType;

/// The maximum number of boxes of an AVIF file that are visited. Encoders write three or four.
const BOXES_MAX: usize = 64;
/// The maximum length in bytes of the first box. It has room for more brands than any encoder writes.
const BRANDS_BYTES_MAX: u64 = 256;

/// Returns true if a file of this length is a complete picture. `read` fills the buffer with bytes from an offset, or
/// returns false.
pub fn is_whole(image: ImageType, bytes: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> bool {
    match image {
        ImageType::Avif => is_avif(bytes, read).unwrap_or(false),
        ImageType::Webp => is_webp(bytes, read),
    }
}

/// Checks a RIFF file (RFC 9649 section 2.3), which contains its length.
fn is_webp(bytes: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> bool {
    let mut head = [0; 12];
    if !read(0, &mut head) {
        return false;
    }
    let said = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
    head.starts_with(b"RIFF") && head.ends_with(b"WEBP") && said + 8 <= bytes
}

/// Checks a file of boxes (ISO/IEC 14496-12). Each contains its length, and the first names the brand.
fn is_avif(bytes: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<bool> {
    let mut at = 0;
    for nth in 0..BOXES_MAX {
        if at == bytes {
            return Some(nth > 1);
        }
        let mut head = [0; 8];
        read(at, &mut head).then_some(())?;
        let (length, kind) = head.split_first_chunk()?;
        let length = match u32::from_be_bytes(*length) {
            0 => bytes.checked_sub(at)?,
            1 => {
                let mut long = [0; 8];
                read(at.checked_add(8)?, &mut long).then_some(u64::from_be_bytes(long))?
            }
            length => u64::from(length),
        };
        // A box shorter than its own head would keep the loop in the same position.
        let end = at.checked_add(length).filter(|end| *end <= bytes && length >= 8)?;
        if nth == 0 && !(kind == b"ftyp" && has_brand(length, &read)) {
            return Some(false);
        }
        at = end;
    }
    Some(false)
}

/// Returns true if the first box, of this length, has an AVIF brand.
fn has_brand(length: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> bool {
    let mut brands = vec![0; length.min(BRANDS_BYTES_MAX) as usize];
    let is_brand = |brand: &[u8]| matches!(brand, b"avif" | b"avis");
    read(0, &mut brands) && brands.chunks(4).skip(2).any(is_brand)
}

#[cfg(test)]
pub(crate) mod testing {
    use http::ImageType;

    /// Makes the outermost structure of a picture of this length, at least 40 bytes, filled with this byte.
    pub fn picture(image: ImageType, bytes: usize, fill: u8) -> Vec<u8> {
        let mut made = match image {
            ImageType::Webp => [&b"RIFF"[..], &(bytes as u32 - 8).to_le_bytes(), b"WEBPVP8 "].concat(),
            ImageType::Avif => {
                let ftyp = b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif";
                [&ftyp[..], &(bytes as u32 - 24).to_be_bytes(), b"mdat"].concat()
            }
        };
        made.resize(bytes, fill);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::testing::picture;
    use super::*;

    fn is(image: ImageType, bytes: &[u8]) -> bool {
        is_whole(image, bytes.len() as u64, |at, into| {
            let part = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(into.len())?));
            part.map(|part| into.copy_from_slice(part)).is_some()
        })
    }

    #[test]
    fn pictures_are_told_by_their_structure() {
        for image in ImageType::ALL {
            let whole = picture(image, 1_000, 7);
            assert!(is(image, &whole), "{image:?}");
            for bytes in [&whole[..999], &whole[..30], &whole[..11], &[], &whole[1..], &[0; 1_000], &[0xff; 1_000]] {
                assert!(!is(image, bytes), "{image:?} {}", bytes.len());
            }
            let other = ImageType::ALL.into_iter().find(|other| *other != image).unwrap();
            assert!(!is(other, &whole), "{image:?}");
        }
    }

    #[test]
    fn boxes_end_where_the_file_ends() {
        let ftyp = b"\0\0\0\x14ftypavif\0\0\0\0miaf";
        let with = |rest: &[u8]| [&ftyp[..], rest].concat();
        for (why, rest, expected) in [
            ("no other box", &b""[..], false),
            ("to the end", b"\0\0\0\0mdatxyz", true),
            ("64 bits", b"\0\0\0\x01mdat\0\0\0\0\0\0\0\x12xx", true),
            ("64 bits, too short for itself", b"\0\0\0\x01mdat\0\0\0\0\0\0\0\x01xx", false),
            ("64 bits that wrap", b"\0\0\0\x01mdat\xff\xff\xff\xff\xff\xff\xff\xffxx", false),
            ("64 bits cut", b"\0\0\0\x01mdat\0\0", false),
            ("a length below its head", b"\0\0\0\x02mdat", false),
            ("bytes behind", b"\0\0\0\x08mdatx", false),
        ] {
            assert_eq!(is(ImageType::Avif, &with(rest)), expected, "{why}");
        }
        let many = with(&b"\0\0\0\x08free".repeat(BOXES_MAX));
        assert!(!is(ImageType::Avif, &many));
        let other = b"\0\0\0\x14ftypheic\0\0\0\0mif1\0\0\0\x08mdat";
        assert!(!is(ImageType::Avif, other), "HEIC");
    }
}
