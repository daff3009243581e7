//! The keys of recently sent files.

use std::borrow::Borrow;
use std::sync::Arc;

/// A site's number, unique among the sites of the server.
pub type SiteNumber = u32;

const SITE_BYTES: usize = size_of::<SiteNumber>();

/// A request path of a site, as received: the number of the site followed by the path, in one allocation. Lookups use
/// plain bytes, so that a hit allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<[u8]>);

impl Key {
    pub fn new(site: SiteNumber, raw_path: &[u8]) -> Key {
        Key([&site.to_le_bytes(), raw_path].concat().into())
    }

    /// Writes the bytes that [`Key::from`] accepts.
    pub fn write(site: SiteNumber, raw_path: &[u8], into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(&site.to_le_bytes());
        into.extend_from_slice(raw_path);
    }

    pub fn site(&self) -> SiteNumber {
        let (site, _) = self.0.split_first_chunk::<SITE_BYTES>().expect("a key begins with a site");
        SiteNumber::from_le_bytes(*site)
    }

    /// The path, followed by the suffix of a [`super::ListingView`].
    pub fn raw_path(&self) -> &[u8] {
        &self.0[SITE_BYTES..]
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        assert!(bytes.len() >= SITE_BYTES, "a key begins with a site");
        Key(bytes.into())
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_paths_of_their_own() {
        let mut bytes = b"what was before".to_vec();
        let [one, other] = [1, 70_000].map(|site| {
            Key::write(site, b"/a", &mut bytes);
            Key::from(bytes.as_slice())
        });
        assert_ne!(one, other);
        assert_eq!([one.site(), other.site()], [1, 70_000]);
        assert_eq!([one.raw_path(), other.raw_path()], [b"/a", b"/a"]);
    }
}
