//! The served site: a page of several files, whose script reports its results by requesting `report`.

use std::path::Path;
use std::{fs, io};

pub const LARGE_BYTES: usize = 1_000_000;
pub const IMAGES: usize = 8;

/// The page, in which `%IMAGES%` stands for the images.
const PAGE: &str = "<!DOCTYPE html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>Conformance</title>
<link rel=\"stylesheet\" href=\"style.css\"><link rel=\"icon\" href=\"1.svg\"><script src=\"script.js\"></script>
<body>%IMAGES%</body></html>
";

const STYLE: &str = "body { color: rgb(1, 2, 3) }\n";

/// The script. `by` is the name at the end of the page's address.
const SCRIPT: &str = "\
addEventListener('load', async () => {
  const failed = [...document.images].filter(image => !image.naturalWidth).map(image => image.src);
  if (getComputedStyle(document.body).color !== 'rgb(1, 2, 3)') failed.push('style.css');
  const large = await fetch('large.bin').then(answer => answer.arrayBuffer()).catch(() => new ArrayBuffer(0));
  if (new Uint8Array(large).some((byte, at) => byte !== 97 + at % 26)) failed.push('bytes of large');
  const [page] = performance.getEntriesByType('navigation');
  fetch(`report?by=${location.search.slice(1)}&protocol=${page.nextHopProtocol}&images=${document.images.length}`
    + `&large=${large.byteLength}&failed=${encodeURIComponent(failed)}`);
});
";

/// Files that clients compare.
pub const FILES: [&str; 3] = ["index.html", "style.css", "large.bin"];

pub fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut images = String::new();
    for number in 1..=IMAGES {
        images += &format!("<img src=\"{number}.svg\" alt=\"\">");
        let size = 10 * number;
        let image = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{size}\" height=\"{size}\"/>\n");
        fs::write(folder.join(format!("{number}.svg")), image)?;
    }
    let large: Vec<u8> = (0..LARGE_BYTES).map(|at| b'a' + (at % 26) as u8).collect();
    fs::write(folder.join("index.html"), PAGE.replace("%IMAGES%", &images))?;
    fs::write(folder.join("style.css"), STYLE)?;
    fs::write(folder.join("script.js"), SCRIPT)?;
    fs::write(folder.join("large.bin"), large)?;
    fs::write(folder.join("report"), "")
}
