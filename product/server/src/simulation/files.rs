//! Files whose contents are known.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use http::Coding;

use super::certificate::{CERT, KEY};
use super::random::Random;
use crate::body::{Body, Stage};
use crate::codec::testing::text;
use crate::codec::{Level, encoded};
use crate::files::fake_disk::FakeDisk;
use crate::files::temporary::Folder;
use crate::stages::staging::{self, Folding, Upper, applied};

/// The number of names without a file.
pub const ABSENT: u64 = 3;

/// The sizes of the files: small ones, which are held in memory, and larger ones, which are read.
const SIZES: [usize; 9] = [0, 1, 5, 1_000, 20_000, 65_536, 65_537, 300_000, 1_000_000];

/// The sizes of pages of text, which may be coded; the second page has sidecars.
const PAGES: [usize; 5] = [255, 5_000, 40_000, 150_000, 600_000];
const PAGE_WITH_SIDECARS: usize = 1;

/// The modification time of all files, since 1970.
const MODIFIED_AT: Duration = Duration::from_secs(1_600_000_000);

pub struct Site {
    pub folder: Folder,
    files: Vec<Vec<u8>>,
    pages: Vec<Vec<u8>>,
    /// The bytes of the files after the stages of [`stages_of`].
    staged: Vec<Vec<u8>>,
}

/// The stages of all responses in a run that has stages.
pub fn stages_of(_request: &http::Request, _response: &http::Response<Body>) -> Vec<Box<dyn Stage>> {
    vec![Box::new(Upper), Box::<Folding>::default()]
}

impl Site {
    pub fn new() -> Site {
        let folder = Folder::new();
        let files: Vec<Vec<u8>> = SIZES.iter().map(|size| content(*size)).collect();
        let pages: Vec<Vec<u8>> = PAGES.iter().map(|size| text(*size)).collect();
        let put = |name: String, bytes: &[u8]| {
            let path = folder.put(name, bytes);
            // The path, state and date appear in compressed fields, and must have the same length in every run.
            let file = fs::File::options().write(true).open(path).expect("it was just written");
            file.set_modified(UNIX_EPOCH + MODIFIED_AT).expect("it is ours");
        };
        files.iter().enumerate().for_each(|(number, bytes)| put(format!("f{number}"), bytes));
        for (number, bytes) in pages.iter().enumerate() {
            put(format!("p{number}.html"), bytes);
            for coding in Coding::ALL {
                let name = format!("p{number}.html.{}", coding.extension());
                match encoded(coding, Level::Fast, bytes).expect("it is text") {
                    coded if number == PAGE_WITH_SIDECARS => put(name, &coded),
                    // The kernel remembers that as well.
                    _ => assert!(!folder.path(name).exists()),
                }
            }
        }
        folder.put("secret/cert.pem", CERT);
        folder.put("secret/key.pem", KEY);
        // Put into the kernel's cache, so that its answers do not depend on earlier lookups.
        (0..ABSENT).for_each(|number| assert!(!folder.path(format!("none{number}")).exists()));
        let staged =
            files.iter().map(|bytes| applied(vec![Box::new(Upper), Box::<Folding>::default()], bytes)).collect();
        Site { folder, files, pages, staged }
    }

    /// A disk that holds all but `permille` in a thousand of the paths in memory.
    pub fn cold(&self, permille: u64, random: &mut Random) -> FakeDisk {
        let files = (0..self.files.len()).map(|number| format!("f{number}"));
        let all = files.chain((0..ABSENT).map(|number| format!("none{number}")));
        let cold: Vec<String> = all.filter(|_| random.below(1_000) < permille).collect();
        FakeDisk::of(&cold.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The number of pages of text.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    pub fn page(&self, number: usize) -> &[u8] {
        &self.pages[number]
    }

    /// The files of a certificate and its key.
    pub fn certificate(&self) -> (PathBuf, PathBuf) {
        (self.folder.path("secret/cert.pem"), self.folder.path("secret/key.pem"))
    }

    pub fn count(&self) -> usize {
        self.files.len()
    }

    pub fn file(&self, number: usize) -> &[u8] {
        &self.files[number]
    }

    /// The bytes that a client receives of a file.
    pub fn sent(&self, number: usize) -> &[u8] {
        if staging::is_on() { &self.staged[number] } else { &self.files[number] }
    }
}

/// Returns content in which any two positions, of one file or of two, soon differ.
fn content(size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| ((at * 2_654_435_761 + size as u64) >> 11) as u8).collect()
}
