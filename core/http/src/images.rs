//! Image types that clients accept by name.
//!
//! A picture is smaller in a newer type, but old programs cannot show that. Programs that can show it name the type in
//! Accept; all programs send `*/*`, which proves nothing.

use crate::Request;
use crate::codings::weighed;
use crate::list::members;

/// A type in which a picture may be sent instead of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageType {
    Avif,
    Webp,
}

/// The types of pictures that a request names in Accept, with weights at least as high as the picture's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AcceptedImages {
    /// The weight of each type in thousandths; 0 for a type that is not wanted.
    weights: [u16; ImageType::ALL.len()],
}

/// The maximum number of members of Accept that are read; browsers send eight.
const MEMBERS_MAX: usize = 32;

impl ImageType {
    pub const ALL: [ImageType; 2] = [ImageType::Avif, ImageType::Webp];

    /// The media type.
    pub fn mime(self) -> &'static str {
        match self {
            ImageType::Avif => "image/avif",
            ImageType::Webp => "image/webp",
        }
    }

    /// The extension of files of this type, without its dot.
    pub fn extension(self) -> &'static str {
        match self {
            ImageType::Avif => "avif",
            ImageType::Webp => "webp",
        }
    }
}

impl AcceptedImages {
    /// Reads all lines of Accept, for a picture of type `own`. If two members have the same name, the first counts.
    pub fn of(request: &Request, own: &str) -> AcceptedImages {
        let (mut weights, mut by_name, mut by_range, mut any) = ([None; ImageType::ALL.len()], None, None, None);
        for member in request.values("accept").flat_map(members).take(MEMBERS_MAX) {
            let (name, weight) = weighed(member);
            let is = |mime: &str| name.eq_ignore_ascii_case(mime.as_bytes());
            let said: &mut Option<u16> = match ImageType::ALL.into_iter().find(|image| is(image.mime())) {
                Some(image) => &mut weights[image as usize],
                None if is(own) => &mut by_name,
                None if is("image/*") => &mut by_range,
                None if is("*/*") => &mut any,
                None => continue,
            };
            said.get_or_insert(weight);
        }
        let floor = by_name.or(by_range).or(any).unwrap_or(0);
        let wanted = |weight: Option<u16>| weight.filter(|weight| *weight >= floor).unwrap_or(0);
        AcceptedImages { weights: weights.map(wanted) }
    }

    /// The weight of a type in thousandths; 0 if it is not wanted.
    pub fn weight(&self, image: ImageType) -> u16 {
        self.weights[image as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::http1::parse_request;

    /// Returns the weights of AVIF and WebP for a picture in JPEG.
    fn weights(lines: &[&str]) -> [u16; 2] {
        let lines: String = lines.iter().map(|value| format!("Accept: {value}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let request = parse_request(bytes.as_bytes(), &Limits::default()).unwrap().unwrap().request;
        ImageType::ALL.map(|image| AcceptedImages::of(&request, "image/jpeg").weight(image))
    }

    #[test]
    fn types_are_accepted_by_name_alone() {
        for (value, expected) in [
            ("image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", [1000, 1000]),
            ("image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", [1000, 1000]),
            ("*/*", [0, 0]),
            ("image/*", [0, 0]),
            ("", [0, 0]),
            ("IMAGE/WebP", [0, 1000]),
            ("image/avif;q=0, image/webp;q=0.5", [0, 500]),
            ("image/avif ; q=0.9 , */*;q=0.1", [900, 0]),
            ("image/avif;q=0.5, image/jpeg", [0, 0]),
            ("image/avif;q=0.5, image/jpeg;q=0.5", [500, 0]),
            ("image/avif;q=0.5, image/*", [0, 0]),
            ("image/avif;q=0.5, image/jpeg;q=0.4, image/*", [500, 0]),
            ("image/avif;q=2", [0, 0]),
            ("image/avif, image/avif;q=0", [1000, 0]),
            ("ximage/avif, image/avifs, image/web p", [0, 0]),
            (";,;image/webp,=,\"image/avif\"", [0, 0]),
        ] {
            assert_eq!(weights(&[value]), expected, "{value}");
        }
        assert_eq!(weights(&[]), [0, 0]);
        assert_eq!(weights(&["image/webp", "image/avif;q=0.1"]), [100, 1000], "all lines count");
    }

    #[test]
    fn a_long_field_is_read_to_its_bound() {
        assert_eq!(weights(&[&format!("{}image/webp", "a/b,".repeat(2_500))]), [0, 0]);
        assert_eq!(weights(&[&format!("{}image/webp", "a/b,".repeat(MEMBERS_MAX - 1))]), [0, 1000]);
        assert_eq!(weights(&[&format!("image/webp;{}=1", "p".repeat(10_000))]), [0, 1000]);
    }
}
