//! The kinds of files that may be sent in place of another.

use http::{Coding, ImageType};

/// The kind of a sidecar: the same file in a coding, or the same picture in another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidecarKind {
    Coded(Coding),
    Image(ImageType),
}

impl SidecarKind {
    pub const COUNT: usize = Coding::ALL.len() + ImageType::ALL.len();

    /// The index of this kind among all kinds.
    pub fn index(self) -> usize {
        match self {
            SidecarKind::Coded(coding) => coding as usize,
            SidecarKind::Image(image) => Coding::ALL.len() + image as usize,
        }
    }

    /// Returns the extension, without its dot, that is appended to the name of a file.
    pub fn extension(self) -> &'static str {
        match self {
            SidecarKind::Coded(coding) => coding.extension(),
            SidecarKind::Image(image) => image.extension(),
        }
    }

    /// The suffix of the sidecar's entity tag.
    pub fn suffix(self) -> &'static str {
        match self {
            SidecarKind::Coded(coding) => coding.token(),
            SidecarKind::Image(image) => image.extension(),
        }
    }
}
