//! The load of one page: the objects found so far, the next request, and the completion times.

use units::Nanos;

use crate::{Found, ObjectKind, PageObject};

/// A page that is being loaded. It is notified of responses and returns requests; it reads no clock.
#[derive(Debug, Clone)]
pub struct Progress {
    objects: Vec<PageObject>,
    /// The objects that the browser does not know yet.
    unknown: Vec<u16>,
    /// The objects that were found and not requested yet.
    waiting: Vec<u16>,
    under_way: u32,
    html_bytes: u64,
    left: Left,
    first_view_at: Option<Nanos>,
    with_fonts_at: Option<Nanos>,
    full_at: Option<Nanos>,
}

/// The objects that have not ended.
#[derive(Debug, Clone, Copy, Default)]
struct Left {
    styles: u32,
    blocking: u32,
    /// Fonts, and all that blocks the first view.
    with_fonts: u32,
    /// All but those that wait for the visitor to scroll.
    full: u32,
}

impl Progress {
    /// Creates the load of a page with these objects. The first is the HTML, which is known from the start.
    pub fn new(objects: Vec<PageObject>) -> Progress {
        let mut left = Left::default();
        objects.iter().for_each(|object| left.change(object, 1));
        let (first_view_at, with_fonts_at, full_at) = (None, None, None);
        let unknown = (1..objects.len() as u16).collect();
        let (waiting, under_way, html_bytes) = (vec![0], 0, 0);
        Progress { objects, unknown, waiting, under_way, html_bytes, left, first_view_at, with_fonts_at, full_at }
    }

    pub fn objects(&self) -> &[PageObject] {
        &self.objects
    }

    /// The instant at which the HTML, all style sheets and all blocking scripts had ended.
    pub fn first_view_at(&self) -> Option<Nanos> {
        self.first_view_at
    }

    /// The instant at which these and all fonts had ended.
    pub fn with_fonts_at(&self) -> Option<Nanos> {
        self.with_fonts_at
    }

    /// The instant at which everything had ended that does not wait for the visitor to scroll.
    pub fn full_at(&self) -> Option<Nanos> {
        self.full_at
    }

    /// Returns the next object to request, the most urgent first, as long as fewer than `under_way_max` are in flight.
    pub fn next(&mut self, under_way_max: u32) -> Option<u16> {
        if self.under_way >= under_way_max {
            return None;
        }
        let urgency = |at: &u16| (self.objects[usize::from(*at)].kind.urgency(), *at);
        let (place, _) = self.waiting.iter().enumerate().min_by_key(|(_, at)| urgency(at))?;
        self.under_way += 1;
        Some(self.waiting.swap_remove(place))
    }

    /// Records that so many bytes of the HTML have arrived in all.
    pub fn on_html(&mut self, bytes: u64) {
        self.html_bytes = self.html_bytes.max(bytes);
        self.find(None);
    }

    /// Records the end of a request. Returns the objects that are requested when the visitor scrolls to them, with the
    /// instants, once the first view is complete.
    pub fn on_end(&mut self, object: u16, at: Nanos) -> Vec<(u16, Nanos)> {
        let ended = self.objects[usize::from(object)];
        if ended.found.is_by_scrolling() {
            return vec![];
        }
        self.under_way -= 1;
        self.left.change(&ended, -1);
        let had_view = self.first_view_at.is_some();
        for (left, done_at) in [
            (self.left.blocking, &mut self.first_view_at),
            (self.left.with_fonts, &mut self.with_fonts_at),
            (self.left.full, &mut self.full_at),
        ] {
            if left == 0 {
                done_at.get_or_insert(at);
            }
        }
        if ended.kind == ObjectKind::Html {
            self.html_bytes = u64::MAX;
        }
        self.find(Some(object));
        if had_view || self.first_view_at.is_none() { vec![] } else { self.scrolled_from(at) }
    }

    /// Makes all objects wait that the HTML so far, the style sheets or this script name.
    fn find(&mut self, ended: Option<u16>) {
        let (html_bytes, styles_left, objects) = (self.html_bytes, self.left.styles, &self.objects);
        let is_found = |object: &mut u16| match objects[usize::from(*object)].found {
            Found::Html(offset) => offset <= html_bytes,
            Found::Styles => styles_left == 0 && html_bytes > 0,
            Found::Script(script) => ended == Some(script),
            Found::Scrolled(_) => false,
        };
        self.waiting.extend(self.unknown.extract_if(.., is_found));
    }

    fn scrolled_from(&mut self, first_view_at: Nanos) -> Vec<(u16, Nanos)> {
        let due = |&object: &u16| match self.objects[usize::from(object)].found {
            Found::Scrolled(after) => Some((object, first_view_at + after)),
            _ => None,
        };
        self.unknown.iter().filter_map(due).collect()
    }
}

impl Left {
    fn change(&mut self, object: &PageObject, by: i32) {
        let (kind, waits) = (object.kind, object.found.is_by_scrolling());
        for (left, counts) in [
            (&mut self.styles, kind == ObjectKind::Style),
            (&mut self.blocking, kind.is_blocking()),
            (&mut self.with_fonts, kind.is_blocking() || kind == ObjectKind::Font),
            (&mut self.full, !waits),
        ] {
            *left = left.wrapping_add_signed(by * i32::from(counts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Found::{Script as By, Scrolled, Styles};
    use ObjectKind::{AsyncScript, Data, FirstImage, Font, Html, Image, Script, Style};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn page_of(objects: &[(ObjectKind, Found)]) -> Progress {
        Progress::new(objects.iter().map(|&(kind, found)| PageObject { kind, size_bytes: 100, found }).collect())
    }

    fn asked(page: &mut Progress, most: u32) -> Vec<u16> {
        std::iter::from_fn(|| page.next(most)).collect()
    }

    #[test]
    fn requests_follow_from_the_html_as_it_arrives() {
        let named = |offset| Found::Html(offset);
        let mut page =
            page_of(&[(Html, named(0)), (Image, named(90)), (Style, named(10)), (Script, named(10)), (Font, Styles)]);
        assert_eq!(asked(&mut page, 100), [0]);
        page.on_html(9);
        assert_eq!(asked(&mut page, 100), [], "nothing is named in the first bytes");
        page.on_html(10);
        assert_eq!(asked(&mut page, 100), [2, 3], "the most urgent first");
        page.on_html(89);
        page.on_html(5);
        assert_eq!(asked(&mut page, 100), []);
        assert_eq!(page.on_end(0, MS(1)), []);
        assert_eq!(asked(&mut page, 100), [1], "the end of the HTML names the rest");
        page.on_end(3, MS(2));
        page.on_end(2, MS(3));
        assert_eq!((page.first_view_at(), page.with_fonts_at(), page.full_at()), (Some(MS(3)), None, None));
        assert_eq!(asked(&mut page, 100), [4]);
        page.on_end(4, MS(5));
        assert_eq!((page.with_fonts_at(), page.full_at()), (Some(MS(5)), None));
        page.on_end(1, MS(7));
        assert_eq!(
            (page.first_view_at(), page.with_fonts_at(), page.full_at()),
            (Some(MS(3)), Some(MS(5)), Some(MS(7)))
        );
    }

    #[test]
    fn scripts_ask_for_more_when_they_have_arrived() {
        let mut page = page_of(&[
            (Html, Found::Html(0)),
            (Script, Found::Html(1)),
            (AsyncScript, By(1)),
            (Data, By(2)),
            (Data, By(1)),
        ]);
        assert_eq!(asked(&mut page, 100), [0]);
        page.on_end(0, MS(1));
        assert_eq!(asked(&mut page, 100), [1]);
        page.on_end(1, MS(2));
        assert_eq!((page.first_view_at(), asked(&mut page, 100)), (Some(MS(2)), vec![2, 4]));
        page.on_end(4, MS(3));
        assert_eq!(asked(&mut page, 100), []);
        page.on_end(2, MS(4));
        assert_eq!((asked(&mut page, 100), page.full_at()), (vec![3], None));
        page.on_end(3, MS(5));
        assert_eq!((page.with_fonts_at(), page.full_at()), (Some(MS(2)), Some(MS(5))));
    }

    #[test]
    fn fonts_do_not_wait_for_style_sheets_in_the_cache() {
        let mut page = page_of(&[(Html, Found::Html(0)), (Font, Styles)]);
        assert_eq!(asked(&mut page, 100), [0], "nothing is known before the HTML begins");
        page.on_html(1);
        assert_eq!(asked(&mut page, 100), [1]);
    }

    #[test]
    fn images_further_down_wait_for_the_visitor_and_are_not_of_the_whole_page() {
        let mut page = page_of(&[
            (Html, Found::Html(0)),
            (Script, Found::Html(1)),
            (Image, Scrolled(MS(50))),
            (Image, Scrolled(MS(70))),
        ]);
        assert_eq!(asked(&mut page, 100), [0]);
        assert_eq!(page.on_end(0, MS(1)), [], "there is no first view yet");
        assert_eq!(asked(&mut page, 100), [1]);
        assert_eq!(page.on_end(1, MS(2)), [(2, MS(52)), (3, MS(72))]);
        assert_eq!((page.full_at(), asked(&mut page, 100)), (Some(MS(2)), vec![]));
        assert_eq!((page.on_end(3, MS(99)), page.full_at()), (vec![], Some(MS(2))));
    }

    #[test]
    fn few_connections_carry_the_most_urgent() {
        let named = Found::Html(1);
        let mut page =
            page_of(&[(Html, Found::Html(0)), (Image, named), (Script, named), (Style, named), (FirstImage, named)]);
        assert_eq!(asked(&mut page, 2), [0]);
        page.on_end(0, MS(1));
        assert_eq!(asked(&mut page, 2), [3, 2]);
        page.on_end(2, MS(2));
        assert_eq!(asked(&mut page, 2), [4]);
    }

    #[test]
    fn a_page_of_html_alone_is_there_with_it() {
        let mut page = page_of(&[(Html, Found::Html(0))]);
        assert_eq!(asked(&mut page, 6), [0]);
        page.on_end(0, MS(4));
        assert_eq!((page.first_view_at(), page.full_at(), page.next(6)), (Some(MS(4)), Some(MS(4)), None));
    }
}
