//! Alternative files in a coding, or in another picture format.

use http::{Coding, Codings, ImageType};

use super::picture::testing::picture;
use super::*;
use crate::codec::testing::{decoded, text};
use crate::codec::{Level, encoded};

fn coded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    encoded(coding, Level::Fast, bytes).unwrap()
}

/// A site with one page of this length.
fn page(bytes: usize) -> (Site, Vec<u8>) {
    let site = Site::new(nothing_hidden()).large();
    let plain = text(bytes);
    site.folder.put("a.html", &plain);
    (site, plain)
}

fn sidecars(entry: &Entry) -> Vec<Coding> {
    entry.forms.coded().map(|(coding, _)| coding).collect()
}

fn bytes(entry: &Entry) -> Vec<u8> {
    entry.whole().unwrap().into_owned()
}

#[test]
fn sidecars_are_forms_of_their_file() {
    for length in [5_000, 2_000_000] {
        let (mut site, plain) = page(length);
        for coding in Coding::ALL {
            site.folder.put(format!("a.html.{}", coding.extension()), coded(coding, &plain));
        }
        let entry = site.entry("/a.html");
        assert_eq!(sidecars(&entry), Coding::ALL);
        let mut tags: Vec<&str> = vec![&entry.etag];
        for (coding, sidecar) in entry.forms.coded() {
            assert!(decoded(coding, &bytes(sidecar)) == plain, "{coding:?}");
            assert_eq!((&sidecar.mime, sidecar.last_modified), (&entry.mime, entry.last_modified));
            tags.push(&sidecar.etag);
        }
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 4, "each has its own tag");
        // Under its own name a sidecar is an ordinary file.
        let own = site.entry("/a.html.br");
        assert!(!own.forms.are_any() && bytes(&own) == coded(Coding::Brotli, &plain) && own.mime != entry.mime);
        let (open, held) = (entry.files_open(), entry.held_bytes());
        let all = [&entry].into_iter().chain(entry.forms.sidecars.iter().map(|(_, sidecar)| sidecar));
        let lengths: Vec<u64> = all.map(|one| one.len).collect();
        let is_held = |length: &&u64| **length <= BODY_BYTES_HELD_MAX;
        assert_eq!(open, lengths.iter().filter(|length| !is_held(length)).count());
        assert_eq!(held as u64, lengths.iter().filter(is_held).sum::<u64>());
    }
}

/// A wrong sidecar counts as none, and the file is sent as it is.
#[test]
fn wrong_sidecars_are_not_sent() {
    let (site, plain) = page(5_000);
    let good = coded(Coding::Brotli, &plain);
    let other = coded(Coding::Gzip, &plain);
    let cases: [(&str, Vec<u8>); 8] = [
        ("followed by other bytes", [&good[..], b"x"].concat()),
        ("cut", good[..good.len() - 1].to_vec()),
        ("empty", Vec::new()),
        ("of another coding", other),
        ("not coded", plain[..4_000].to_vec()),
        ("of another file", coded(Coding::Brotli, &plain[..4_000])),
        ("longer than its file", vec![7; 5_000]),
        ("a bomb", coded(Coding::Brotli, &vec![0; 4 << 20])),
    ];
    for (why, bytes) in cases {
        let mut site = Site::new(nothing_hidden()).large();
        site.folder.put("a.html", &plain);
        site.folder.put("a.html.br", bytes);
        assert_eq!(sidecars(&site.entry("/a.html")), [], "{why}");
        let lines = site.cache.take_lines();
        assert!(
            lines.len() == 1 && lines[0].starts_with("`a.html.br` is not sent for `a.html`: it "),
            "{why}: {lines:?}"
        );
        site.cache.clear();
        assert_eq!(sidecars(&site.entry("/a.html")), []);
        assert!(site.cache.take_lines().is_empty(), "{why}: it was said");
    }
    let mut site = site;
    fs::create_dir(site.folder.path("a.html.br")).unwrap();
    assert_eq!(sidecars(&site.entry("/a.html")), [], "a folder");
}

#[test]
fn an_older_sidecar_is_not_sent() {
    let (mut site, plain) = page(5_000);
    let sidecar = site.folder.put("a.html.gz", coded(Coding::Gzip, &plain));
    let modified = fs::metadata(site.folder.path("a.html")).unwrap().modified().unwrap();
    let set = |at| File::options().write(true).open(&sidecar).unwrap().set_modified(at).unwrap();
    set(modified - Duration::from_secs(1));
    assert_eq!(sidecars(&site.entry("/a.html")), []);
    // Tools give it the modification time of its file.
    set(modified);
    site.now += REVALIDATE_AFTER;
    assert_eq!(sidecars(&site.entry("/a.html")), [Coding::Gzip]);
}

/// The sidecar is made, changed and removed; its file stays as it is, and in memory.
#[test]
fn a_change_of_a_sidecar_is_noticed_within_a_second() {
    let (mut site, plain) = page(5_000);
    assert_eq!(sidecars(&site.entry("/a.html")), []);
    let path = site.folder.put("a.html.zst", coded(Coding::Zstd, &plain));
    site.now += REVALIDATE_AFTER;
    let first = site.entry("/a.html");
    assert_eq!(sidecars(&first), [Coding::Zstd]);
    std::thread::sleep(TICK);
    fs::write(&path, encoded(Coding::Zstd, Level::Best, &plain).unwrap()).unwrap();
    site.now += REVALIDATE_AFTER;
    let second = site.entry("/a.html");
    let [first, second] = [&first, &second].map(|entry| entry.forms.sidecar(Coding::Zstd).unwrap().etag.clone());
    assert_ne!(first, second);
    fs::remove_file(path).unwrap();
    site.now += REVALIDATE_AFTER;
    assert_eq!(sidecars(&site.entry("/a.html")), []);
}

#[test]
fn only_codings_of_the_site_are_looked_for() {
    let codings: Codings = [Coding::Gzip].into_iter().collect();
    let mut site = Site::new(Options { codings, ..Options::default() }).large();
    let plain = text(5_000);
    site.folder.put("a.html", &plain);
    site.folder.put("a.png", &plain);
    for (coding, name) in [(Coding::Gzip, "a.html.gz"), (Coding::Brotli, "a.html.br"), (Coding::Gzip, "a.png.gz")] {
        site.folder.put(name, coded(coding, &plain));
    }
    let entry = site.entry("/a.html");
    assert_eq!((sidecars(&entry), entry.forms.codings), (vec![Coding::Gzip], codings));
    assert!(!site.entry("/a.png").forms.are_any(), "a picture is compressed already");
    let mut off = Site::new(Options { codings: Codings::NONE, ..Options::default() }).large();
    off.folder.put("a.html", &plain);
    assert!(!off.entry("/a.html").forms.are_any());
}

fn images(entry: &Entry) -> Vec<ImageType> {
    entry.forms.images().map(|(image, _)| image).collect()
}

#[test]
fn pictures_in_other_types_are_forms_of_their_file() {
    for (name, length) in [("a.jpg", 5_000), ("b.JPEG", 5_000), ("c.png", 200_000), ("d.gif", 300_000)] {
        let mut site = Site::new(nothing_hidden()).large();
        site.folder.put(name, vec![7; length]);
        for image in ImageType::ALL {
            site.folder.put(format!("{name}.{}", image.extension()), picture(image, length / 2, 1));
        }
        let entry = site.entry(&format!("/{name}"));
        assert_eq!(images(&entry), ImageType::ALL, "{name}");
        assert!(entry.forms.codings.is_empty() && sidecars(&entry).is_empty());
        let mut tags: Vec<&str> = vec![&entry.etag];
        for (image, other) in entry.forms.images() {
            assert_eq!((other.mime.as_str(), bytes(other)), (image.mime(), picture(image, length / 2, 1)));
            tags.push(&other.etag);
        }
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 3, "each has its own tag");
        let own = site.entry(&format!("/{name}.avif"));
        assert!(!own.forms.are_any() && own.mime == "image/avif", "under its own name it is what it is");
    }
}

#[test]
fn wrong_pictures_are_not_sent() {
    let good = picture(ImageType::Avif, 4_000, 1);
    let cases = [
        ("cut", good[..3_999].to_vec()),
        ("empty", Vec::new()),
        ("of another type", picture(ImageType::Webp, 4_000, 1)),
        ("text", text(4_000)),
        ("longer than its file", picture(ImageType::Avif, 5_000, 1)),
        ("cut, and not held in memory", picture(ImageType::Avif, 150_000, 1)[..149_999].to_vec()),
    ];
    for (why, bytes) in cases {
        let mut site = Site::new(nothing_hidden()).large();
        site.folder.put("a.jpg", vec![7; if bytes.len() > 100_000 { 200_000 } else { 5_000 }]);
        site.folder.put("a.jpg.avif", bytes);
        assert_eq!(images(&site.entry("/a.jpg")), [], "{why}");
        let lines = site.cache.take_lines();
        assert!(lines.len() == 1 && lines[0].starts_with("`a.jpg.avif` is not sent for `a.jpg`: it is "), "{lines:?}");
    }
    let mut site = Site::new(nothing_hidden()).large();
    site.folder.put("a.jpg", vec![7; 5_000]);
    let older = site.folder.put("a.jpg.avif", &good);
    let modified = fs::metadata(site.folder.path("a.jpg")).unwrap().modified().unwrap();
    let set = |at| File::options().write(true).open(&older).unwrap().set_modified(at).unwrap();
    set(modified - Duration::from_secs(1));
    assert_eq!(images(&site.entry("/a.jpg")), []);
    set(modified);
    site.now += REVALIDATE_AFTER;
    assert_eq!(images(&site.entry("/a.jpg")), [ImageType::Avif], "noticed within a second");
    site.folder.put("a.webp", picture(ImageType::Webp, 100, 1));
    fs::remove_file(older).unwrap();
    site.now += REVALIDATE_AFTER;
    assert_eq!(images(&site.entry("/a.jpg")), [], "the picture of another file may have that name");
}

#[test]
fn other_files_and_sites_have_no_pictures() {
    let mut site = Site::new(nothing_hidden()).large();
    let mut off = Site::new(Options { image_sidecars: false, ..nothing_hidden() }).large();
    for site in [&mut site, &mut off] {
        for name in ["a.jpg", "a.svg", "a.avif", "a.html"] {
            site.folder.put(name, vec![7; 5_000]);
            site.folder.put(format!("{name}.webp"), picture(ImageType::Webp, 100, 1));
        }
    }
    for path in ["/a.svg", "/a.avif", "/a.html"] {
        assert_eq!(images(&site.entry(path)), [], "{path}");
    }
    assert_eq!((images(&site.entry("/a.jpg")), images(&off.entry("/a.jpg"))), (vec![ImageType::Webp], vec![]));
}
