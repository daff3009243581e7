//! The load of one page: the objects found so far, the next request, and the completion times.

use units::Nanos;

use crate::{ObjectKind, PageObject};

/// A page that is being loaded. It is notified of responses and returns requests; it reads no clock.
#[derive(Debug, Clone)]
pub struct Visit {
    objects: Vec<PageObject>,
    /// The objects in the browser that were found and not requested yet.
    waiting: Vec<u16>,
    under_way: u32,
    styles_left: u32,
    blocking_left: u32,
    left: u32,
    first_view_at: Option<Nanos>,
    full_at: Option<Nanos>,
}

impl Visit {
    /// Creates a visit of these objects. The first is the HTML, which is known from the start.
    pub fn new(objects: Vec<PageObject>) -> Visit {
        let count = |is: fn(ObjectKind) -> bool| objects.iter().filter(|object| is(object.kind)).count() as u32;
        Visit {
            waiting: vec![0],
            under_way: 0,
            styles_left: count(|kind| kind == ObjectKind::Style),
            blocking_left: count(ObjectKind::is_blocking),
            left: objects.len() as u32,
            first_view_at: None,
            full_at: None,
            objects,
        }
    }

    pub fn objects(&self) -> &[PageObject] {
        &self.objects
    }

    /// The instant at which the HTML, all style sheets and all blocking scripts had ended.
    pub fn first_view_at(&self) -> Option<Nanos> {
        self.first_view_at
    }

    /// The instant at which everything had ended.
    pub fn full_at(&self) -> Option<Nanos> {
        self.full_at
    }

    /// Returns true if nothing is left to be requested.
    pub fn has_asked_all(&self) -> bool {
        self.under_way == self.left
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

    /// Records the end of a request that [`Visit::next`] returned.
    pub fn on_end(&mut self, object: u16, at: Nanos) {
        let kind = self.objects[usize::from(object)].kind;
        self.under_way -= 1;
        self.left -= 1;
        self.blocking_left -= u32::from(kind.is_blocking());
        if self.blocking_left == 0 && kind.is_blocking() {
            self.first_view_at = Some(at);
        }
        if self.left == 0 {
            self.full_at = Some(at);
        }
        self.styles_left -= u32::from(kind == ObjectKind::Style);
        if kind == ObjectKind::Html {
            self.find(false);
        }
        if self.styles_left == 0 && (kind == ObjectKind::Style || kind == ObjectKind::Html) {
            self.find(true);
        }
    }

    fn find(&mut self, follows_styles: bool) {
        let found = (0u16..).zip(&self.objects).skip(1);
        let found = found.filter(|(_, object)| object.kind.follows_styles() == follows_styles);
        self.waiting.extend(found.map(|(at, _)| at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ObjectKind::{Font, Html, Image, Script, Style};

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn visit(kinds: &[ObjectKind]) -> Visit {
        Visit::new(kinds.iter().map(|&kind| PageObject { kind, size_bytes: 1 }).collect())
    }

    fn asked(visit: &mut Visit, most: u32) -> Vec<u16> {
        std::iter::from_fn(|| visit.next(most)).collect()
    }

    #[test]
    fn requests_follow_from_answers() {
        let mut page = visit(&[Html, Style, Image, Script, Font]);
        assert_eq!(asked(&mut page, 100), [0], "the HTML names the rest");
        page.on_end(0, MS(1));
        assert_eq!(asked(&mut page, 100), [1, 3, 2], "the most urgent first; the style sheet names the font");
        page.on_end(3, MS(2));
        page.on_end(1, MS(3));
        assert_eq!((page.first_view_at(), page.full_at()), (Some(MS(3)), None));
        assert!(!page.has_asked_all());
        assert_eq!(asked(&mut page, 100), [4]);
        assert!(page.has_asked_all());
        page.on_end(4, MS(5));
        page.on_end(2, MS(7));
        assert_eq!((page.first_view_at(), page.full_at()), (Some(MS(3)), Some(MS(7))));
    }

    #[test]
    fn few_connections_carry_the_most_urgent() {
        let mut page = visit(&[Html, Image, Script, Style, Image]);
        assert_eq!(asked(&mut page, 2), [0]);
        page.on_end(0, MS(1));
        assert_eq!(asked(&mut page, 2), [3, 2]);
        page.on_end(2, MS(2));
        assert_eq!(asked(&mut page, 2), [1]);
    }

    #[test]
    fn a_page_of_html_alone_is_there_with_it() {
        let mut page = visit(&[Html]);
        assert_eq!(asked(&mut page, 6), [0]);
        page.on_end(0, MS(4));
        assert_eq!((page.first_view_at(), page.full_at(), page.next(6)), (Some(MS(4)), Some(MS(4)), None));
    }
}
