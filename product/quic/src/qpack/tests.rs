use proptest::prelude::*;

use super::static_table::{FIELDS, Found, find};
use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn encoded(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut section = Vec::new();
    encode(fields.iter().copied(), &mut section);
    section
}

fn decoded(section: &[u8]) -> Result<Fields, Undecodable> {
    let mut fields = Vec::new();
    decode(section, &mut Vec::new(), |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        true
    })?;
    Ok(fields)
}

/// The encoded texts come from RFC 7541 appendices C.4 and C.6.
#[test]
fn texts_of_the_standard_are_in_its_code() {
    let cases: [(&str, &[u8]); 4] = [
        ("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
        ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
        ("private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
        (
            "https://www.example.com",
            &[0x9d, 0x29, 0xad, 0x17, 0x18, 0x63, 0xc7, 0x8f, 0x0b, 0x97, 0xc8, 0xe9, 0xae, 0x82, 0xae, 0x43, 0xd3],
        ),
    ];
    for (text, code) in cases {
        let (mut coded, mut back) = (Vec::new(), Vec::new());
        huffman::encode(text.as_bytes(), &mut coded);
        assert_eq!(coded, code, "{text}");
        assert!(huffman::decode(code, &mut back), "{text}");
        assert_eq!(back, text.as_bytes());
    }
}

#[test]
fn padding_that_is_none_and_the_end_are_refused() {
    let is_text = |coded: &[u8]| huffman::decode(coded, &mut Vec::new());
    // The code of "0" is 00000; three ones follow.
    assert!(is_text(&[0b0000_0111]));
    assert!(!is_text(&[0b0000_0110]), "zeros");
    assert!(!is_text(&[0b0000_0111, 0xff]), "a byte of it");
    assert!(!is_text(&[0xff, 0xff, 0xff, 0xff]), "the end");
    assert!(!is_text(&[0xff, 0xff, 0xff, 0xfc]), "the end");
    assert!(is_text(&[]));
}

#[test]
fn indices_of_the_standard_are_found() {
    assert_eq!(find(b":status", b"200"), Found::Field(25));
    assert_eq!(find(b":status", b"416"), Found::Name(24));
    assert_eq!(find(b"Content-Type", b"text/html; charset=utf-8"), Found::Field(52));
    assert_eq!(find(b"x-frame-options", b"sameorigin"), Found::Field(98));
    assert_eq!(find(b"server", b"weir"), Found::Name(92));
    assert_eq!(find(b"x", b""), Found::Nothing);
    assert_eq!(find(&[b'x'; 100], b""), Found::Nothing);
    for (index, (name, value)) in FIELDS.iter().enumerate() {
        assert_eq!(find(name.as_bytes(), value.as_bytes()), Found::Field(index));
    }
}

#[test]
fn sections_of_the_standard_are_read() {
    // RFC 9204 appendix B.1: a literal with a name reference to the static table.
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(decoded(section), Ok(vec![(b":path".to_vec(), b"/index.html".to_vec())]));
    assert_eq!(encoded(&[(b":status", b"200"), (b"Accept-Ranges", b"bytes")]), [0, 0, 0xc0 | 25, 0xc0 | 32]);
}

#[test]
fn the_dynamic_table_is_refused() {
    let cases: [(&str, &[u8]); 9] = [
        ("nothing", &[]),
        ("half a prefix", &[0]),
        ("an insert count", &[1, 0, 0xc0]),
        ("a negative base", &[0, 0x80, 0xc0]),
        ("indexed", &[0, 0, 0x80]),
        ("a name of it", &[0, 0, 0x40, 0]),
        ("indexed behind the base", &[0, 0, 0x10]),
        ("a name behind the base", &[0, 0, 0x00, 0]),
        ("an index past the static table", &[0, 0, 0xff, 99 - 63]),
    ];
    for (what, section) in cases {
        assert_eq!(decoded(section), Err(Undecodable), "{what}");
    }
    assert_eq!(decoded(&[0, 0, 0xff, 98 - 63]).unwrap()[0].1, b"sameorigin");
    assert_eq!(decoded(&[0, 0]), Ok(vec![]));
}

#[test]
fn integers_have_a_greatest() {
    assert_eq!(integer::read(&[0x1f, 0x9a, 0x0a], 5), Integer::Whole(1337, 3));
    assert_eq!(integer::read(&[0x1f, 0x9a], 5), Integer::Part);
    assert_eq!(integer::read(&[0xff; 20], 8), Integer::TooGreat);
    let mut zeros = vec![0xff];
    zeros.extend([0x80; 20]);
    assert_eq!(integer::read(&zeros, 8), Integer::TooGreat);
}

proptest! {
    #[test]
    fn integers_come_back(value in 0u64..1 << 40, bits in 3u32..9) {
        let mut bytes = Vec::new();
        integer::write(0, bits, value, &mut bytes);
        prop_assert_eq!(integer::read(&bytes, bits), Integer::Whole(value, bytes.len()));
    }

    #[test]
    fn coded_texts_come_back(text: Vec<u8>) {
        let (mut coded, mut back) = (Vec::new(), Vec::new());
        huffman::encode(&text, &mut coded);
        prop_assert_eq!(coded.len(), huffman::coded_bytes(&text));
        prop_assert!(huffman::decode(&coded, &mut back));
        prop_assert_eq!(back, text);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
        let mut text = Vec::new();
        if huffman::decode(&bytes, &mut text) {
            let mut coded = Vec::new();
            huffman::encode(&text, &mut coded);
            prop_assert_eq!(coded, bytes);
        }
    }

    #[test]
    fn fields_come_back(fields: Vec<(String, Vec<u8>)>) {
        let fields: Fields = fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase().into_bytes(), value)).collect();
        let borrowed: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        prop_assert_eq!(decoded(&encoded(&borrowed)), Ok(fields));
    }

    #[test]
    fn any_section_is_read_or_refused(mut section: Vec<u8>, is_begun: bool) {
        if is_begun {
            section.splice(0..0, [0, 0]);
        }
        // The number of fields is limited by the bytes of the section.
        if let Ok(fields) = decoded(&section) {
            prop_assert!(fields.len() <= section.len());
        }
    }
}
