//! What a client asks for, and what is right.

use std::ops::Range;

use super::super::files::{ABSENT, Site};
use super::super::random::Random;

#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub kind: Kind,
    file: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Get,
    Head,
    /// Of bytes that are there.
    Part(Range<usize>),
    /// If-None-Match that anything matches.
    Unchanged,
    Late,
}

impl Request {
    pub fn of(site: &Site, random: &mut Random) -> Request {
        if random.once_in(12) {
            return Request { path: format!("/none{}", random.below(ABSENT)), kind: Kind::Get, file: None };
        }
        let file = random.below(site.count() as u64) as usize;
        let size = site.file(file).len();
        let kind = match random.below(8) {
            0 => Kind::Head,
            1 if size > 0 => {
                let from = random.below(size as u64) as usize;
                Kind::Part(from..from + 1 + random.below((size - from) as u64) as usize)
            }
            2 => Kind::Unchanged,
            _ => Kind::Get,
        };
        Request { path: format!("/f{file}"), kind, file: Some(file) }
    }

    /// One that takes too long.
    pub fn late() -> Request {
        Request { path: String::new(), kind: Kind::Late, file: None }
    }

    pub fn method(&self) -> &'static str {
        if self.kind == Kind::Head { "HEAD" } else { "GET" }
    }

    /// Name and value of the field that it has besides.
    pub fn field(&self) -> Option<(&'static str, String)> {
        match &self.kind {
            Kind::Part(range) => Some(("range", format!("bytes={}-{}", range.start, range.end - 1))),
            Kind::Unchanged => Some(("if-none-match", "*".into())),
            Kind::Get | Kind::Head | Kind::Late => None,
        }
    }

    pub fn status(&self) -> u16 {
        match (&self.kind, self.file) {
            (Kind::Late, _) => 408,
            (_, None) => 404,
            (Kind::Part(_), _) => 206,
            (Kind::Unchanged, _) => 304,
            _ => 200,
        }
    }

    /// `None` where any body will do.
    pub fn body<'s>(&self, site: &'s Site) -> Option<&'s [u8]> {
        let whole = site.file(self.file?);
        Some(match &self.kind {
            Kind::Get | Kind::Late => whole,
            Kind::Part(range) => &whole[range.clone()],
            Kind::Head | Kind::Unchanged => &[],
        })
    }

    pub fn body_bytes(&self, site: &Site) -> usize {
        self.body(site).map_or(0, <[u8]>::len)
    }
}
