//! The keys that reduce the bytes that a site sends, in the order of the reference.

use super::Unset::{Absent, Is};
use super::table::key;
use super::{Form, Key, Kind};

pub static COMPRESSION: &[Key] = &[
    key(
        "site.compression",
        Kind::Flag,
        Is("true"),
        "Enable [compression](compression.md) of text for clients that accept it.",
        "false",
    ),
    key(
        "site.codings",
        Kind::Texts(Form::OneOf(&["br", "zstd", "gzip"])),
        Absent("br, zstd and gzip"),
        "Codings of compression. If a client accepts several alike, br comes before zstd and gzip.",
        r#"["br", "gzip"]"#,
    ),
    key(
        "site.compress_private",
        Kind::Flag,
        Is("false"),
        "Enable compression of upstreams' responses to requests with Cookie or Authorization, [whose length may then give secrets away](compression.md#secrets).",
        "true",
    ),
    key(
        "site.dictionaries",
        Kind::Flag,
        Is("true"),
        "Enable [dictionaries](compression.md#dictionaries) over HTTPS: a page, script or style that a browser has makes the next one shorter.",
        "false",
    ),
    key(
        "site.upstream_dictionaries",
        Kind::Flag,
        Is("false"),
        "Enable [dictionaries of upstreams' pages](compression.md#dictionaries-of-programs) over HTTPS, where visitors without cookies get the same pages.",
        "true",
    ),
    key(
        "site.immutable",
        Kind::Flag,
        Is("true"),
        "Enable `Cache-Control: max-age=31536000, immutable` for scripts, styles and fonts [with a hash in their name](compression.md#names-with-a-hash).",
        "false",
    ),
    key(
        "site.image_sidecars",
        Kind::Flag,
        Is("true"),
        "Enable sending of `photo.jpg.avif` and `photo.jpg.webp` [in place of `photo.jpg`](compression.md#pictures) to clients that name these types in Accept.",
        "false",
    ),
];
