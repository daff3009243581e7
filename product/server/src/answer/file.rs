//! Responses with a file: in the form that the client prefers among the ready ones, or with parts of the file.
//!
//! If the threads that make forms are behind, the file is coded while it is sent, like a program's response. This
//! happens on a server that has just started and has many readers. An uncoded page would occupy the line five times as
//! long.
//!
//! Each form has different bytes, so each form has its own entity tag. Ranges are always ranges of the uncoded file
//! (RFC 9110 section 14.2). A client may hold any form that it accepts; the tag of any such form shows that it has the
//! file.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use http::{
    AcceptedCodings, Coding, Codings, Entity, EntityFields, Method, Request, Response, Status, Verdict,
    available_dictionary, listed_tags, multipart, tag_asked_with,
};
use units::Nanos;

use super::error_replies::text;
use super::form_waits::{WAIT_MAX, Wished};
use super::pictures::chosen_picture;
use super::with_dictionary::WithDictionary;
use super::{Handler, To, bare};
use crate::body::{Body, Piece};
use crate::codec::{Level, STREAM_BYTES, STREAMED, WITH_DICTIONARY};
use crate::coded::{FormId, Known};
use crate::files::{Entry, Way};
use crate::stages::{coded_on_its_way, has_stages, staged_head};

/// The hexadecimal digits of a dictionary in a tag.
const DIGITS: usize = 16;

/// The rule by which a request waits for a form that is being made.
#[derive(Clone, Copy, PartialEq)]
enum WaitRule {
    /// Sends a form that is ready.
    Never,
    /// Waits for the form if the response then arrives sooner.
    IfSooner,
    /// Waits for the form because the client prefers few bytes to an early response, or accepts no other form.
    Always,
}

impl WaitRule {
    /// Returns the maximum wait under this rule. `worth` is the longest wait that pays off.
    fn at_most(self, worth: Nanos) -> Nanos {
        if self == WaitRule::Always { WAIT_MAX } else { worth }
    }
}

/// The form in which a file is sent.
enum Form {
    /// The bytes of the file itself.
    Plain,
    Coded(Arc<Entry>),
    /// The file itself, coded while it is sent, because no form is ready and the threads that make forms are behind.
    OnItsWay(Coding),
    /// A form that is being made. Waiting for it lets the response arrive sooner.
    Awaited(Wished),
}

impl Handler {
    /// Returns the response with a file in a form that is ready.
    pub(super) fn file(&mut self, to: To, request: &Request, entry: &Arc<Entry>) -> Response<Body> {
        self.file_or_wait(to, request, entry, false).unwrap_or_else(|_| self.plain(request, entry))
    }

    /// Returns the response with a file, or the form for which the request should wait. It waits only if that is
    /// permitted.
    pub(super) fn file_or_wait(
        &mut self,
        to: To,
        request: &Request,
        entry: &Arc<Entry>,
        may_wait: bool,
    ) -> Result<Response<Body>, Wished> {
        // A file that only some clients may get does not become a dictionary for other files.
        let is_open = to.site.is_some_and(|site| self.sites().access(site, request).is_none());
        let to = To { dictionaries: to.dictionaries.filter(|_| is_open), ..to };
        let response = self.in_some_form(to, request, entry, may_wait)?;
        Ok(self.with_offer(to, request, entry, response).immutable_if(entry.forms.has_hash))
    }

    fn in_some_form(
        &mut self,
        to: To,
        request: &Request,
        entry: &Arc<Entry>,
        may_wait: bool,
    ) -> Result<Response<Body>, Wished> {
        if let Some(picture) = chosen_picture(request, entry) {
            return Ok(self.plain(request, picture));
        }
        if !entry.forms.are_any() || self.asks_for_part(request, entry) {
            return Ok(self.plain(request, entry));
        }
        let accepted = AcceptedCodings::of(request);
        let held = held_tag(to, request, entry, &accepted).map(Cow::Borrowed);
        if let Some(tag) = held.or_else(|| tag_on_its_way(request, entry, &accepted).map(Cow::Owned)) {
            let response = bare(Status::NOT_MODIFIED).of(entry.fields.validators()).unshared();
            return Ok(response.without("ETag").with("ETag", &tag));
        }
        let rule = match may_wait {
            true if accepted.refuses_identity() || saves_data(request) => WaitRule::Always,
            true => WaitRule::IfSooner,
            false => WaitRule::Never,
        };
        let form = match self.with_dictionary(to, request, entry, &accepted) {
            Some(with) => self.form_with(to, entry, &accepted, rule, with),
            None => self.form(to, entry, &accepted, rule),
        };
        match form {
            Form::Plain => Ok(self.plain(request, entry)),
            Form::Coded(form) => Ok(self.coded(request, entry, &form)),
            Form::OnItsWay(coding) => Ok(self.on_its_way(request, entry, coding)),
            Form::Awaited(wished) => Err(wished),
        }
    }

    /// Returns true if the request is for a part of the file, even if that part does not exist.
    fn asks_for_part(&self, request: &Request, entry: &Entry) -> bool {
        let is_asked = request.fields.range.is_some() && request.method == Method::Get;
        is_asked
            && matches!(
                http::evaluate(request, &entity(request, entry)),
                Verdict::Ranges(_) | Verdict::RangeNotSatisfiable
            )
    }

    /// Chooses the form of a file. If the preferred form is not ready, starts to make it and uses a less preferred form
    /// meanwhile.
    fn form(&mut self, to: To, entry: &Arc<Entry>, accepted: &AcceptedCodings, rule: WaitRule) -> Form {
        let coder = self.forms.as_ref().map(|forms| &forms.coder);
        let made = coder.map_or(Codings::NONE, |coder| coder.offers(entry));
        let offered = made.iter().chain(entry.forms.coded().map(|(coding, _)| coding)).collect();
        let (mut awaited, mut is_first, mut is_late) = (None, true, false);
        for coding in accepted.wanted(offered) {
            if let Some(sidecar) = entry.forms.sidecar(coding) {
                return Form::Coded(Arc::clone(sidecar));
            }
            let Some(coder) = coder else { continue };
            let found = match std::mem::take(&mut is_first) {
                true => coder.find(entry, coding, to.client),
                false => coder.ready(entry, coding).map_or(Known::None, Known::Ready),
            };
            match found {
                Known::Ready(form) => return Form::Coded(form),
                Known::Busy => is_late = true,
                Known::Pending(ready_in) => {
                    is_late = true;
                    if rule == WaitRule::Always || self.line.is_sooner(entry.len, ready_in) {
                        let at_most = rule.at_most(self.line.worth(entry.len));
                        awaited = Some(Wished { id: FormId::of(entry, coding), at_most });
                    }
                }
                Known::None => {}
            }
        }
        match awaited.filter(|_| rule != WaitRule::Never) {
            Some(wished) => Form::Awaited(wished),
            None if is_late => self.streamed(to, entry, accepted).map_or(Form::Plain, Form::OnItsWay),
            None => Form::Plain,
        }
    }

    /// Returns the coding in which to send a file while its form is being made, if that is faster and there is memory
    /// for it.
    fn streamed(&self, to: To, entry: &Entry, accepted: &AcceptedCodings) -> Option<Coding> {
        let codings = STREAMED.into_iter().filter(|coding| entry.forms.codings.has(*coding)).collect();
        let is_worth_it = to.room_bytes >= STREAM_BYTES && self.line.is_sooner_on_its_way(entry.len);
        accepted.best(codings).filter(|_| is_worth_it)
    }

    /// Returns the response with a file that is coded while it is sent.
    fn on_its_way(&mut self, request: &Request, entry: &Arc<Entry>, coding: Coding) -> Response<Body> {
        match http::evaluate(request, &entity(request, entry)) {
            Verdict::Whole => {
                let whole = Response::new(Status::OK, part(entry, 0..entry.len).into()).of(entry.fields.whole());
                coded_on_its_way(request, whole, coding)
            }
            _ => self.plain(request, entry),
        }
    }

    /// Chooses between the form with a dictionary and the other forms. The shortest ready form is sent, but the request
    /// waits for the form with a dictionary if that is much shorter than the ready ones.
    fn form_with(
        &mut self,
        to: To,
        entry: &Arc<Entry>,
        accepted: &AcceptedCodings,
        rule: WaitRule,
        with: WithDictionary,
    ) -> Form {
        let Some(coder) = self.forms.as_ref().map(|forms| &forms.coder) else { return Form::Plain };
        let sidecar = |coding| entry.forms.sidecar(coding).cloned();
        let other = || accepted.wanted(Codings::ALL).find_map(|coding| sidecar(coding).or(coder.ready(entry, coding)));
        match coder.find_with(entry, with.id, with.dictionary_bytes, to.client) {
            Known::Ready(form) => Form::Coded(other().filter(|other| other.len < form.len).unwrap_or(form)),
            Known::Pending(ready_in) => {
                let is_much = with.is_next || other().is_none();
                let is_due = match rule {
                    WaitRule::Never => false,
                    WaitRule::IfSooner => self.line.is_soon(entry.len, ready_in),
                    WaitRule::Always => true,
                };
                match is_much && is_due {
                    true => {
                        let at_most = rule.at_most(self.line.worth_of_short(entry.len));
                        Form::Awaited(Wished { id: with.id, at_most })
                    }
                    false => self.form(to, entry, accepted, rule),
                }
            }
            Known::Busy | Known::None => self.form(to, entry, accepted, rule),
        }
    }

    /// Returns the response with a coded form of a file.
    fn coded(&mut self, request: &Request, entry: &Arc<Entry>, form: &Arc<Entry>) -> Response<Body> {
        match http::evaluate(request, &entity(request, form)) {
            Verdict::NotModified => bare(Status::NOT_MODIFIED).of(form.fields.validators()),
            // The client may have the uncoded file.
            Verdict::PreconditionFailed => self.plain(request, entry),
            Verdict::Whole | Verdict::Ranges(_) | Verdict::RangeNotSatisfiable => {
                Response::new(Status::OK, part(form, 0..form.len).into()).of(form.fields.whole())
            }
        }
    }

    /// Returns the response with an uncoded file.
    pub(super) fn plain(&mut self, request: &Request, entry: &Arc<Entry>) -> Response<Body> {
        let fields = &entry.fields;
        let whole = || Response::new(Status::OK, part(entry, 0..entry.len).into()).of(fields.whole());
        match http::evaluate(request, &entity(request, entry)) {
            Verdict::Whole => whole(),
            Verdict::Ranges(_) | Verdict::RangeNotSatisfiable if has_stages(request, &whole()) => whole(),
            Verdict::Ranges(ranges) if ranges.len() == 1 => {
                let range = ranges[0].clone();
                let response = Response::new(Status::PARTIAL_CONTENT, part(entry, range.clone()).into());
                response.of(fields.part()).with_range(&range, entry.len).with_length(range.end - range.start)
            }
            Verdict::Ranges(ranges) => self.ranges(entry, fields, &ranges),
            Verdict::NotModified if has_stages(request, &whole()) => {
                staged_head(bare(Status::NOT_MODIFIED).of(fields.validators()))
            }
            Verdict::NotModified => bare(Status::NOT_MODIFIED).of(fields.validators()),
            Verdict::PreconditionFailed => text(Status::PRECONDITION_FAILED, "the file is not in the state asked for"),
            Verdict::RangeNotSatisfiable => {
                text(Status::RANGE_NOT_SATISFIABLE, "the file is shorter than that").without_range(entry.len)
            }
        }
    }

    fn ranges(&mut self, entry: &Arc<Entry>, fields: &EntityFields, ranges: &[Range<u64>]) -> Response<Body> {
        let boundary = self.boundary(entry);
        let mut body = Body::default();
        for range in ranges {
            let mut head = Vec::new();
            multipart::part_head(&mut head, &boundary, &entry.mime, range, entry.len);
            body.push(Piece::Bytes(head));
            body.push(part(entry, range.clone()));
        }
        let mut end = Vec::new();
        multipart::closing(&mut end, &boundary);
        body.push(Piece::Bytes(end));
        let bytes = multipart::total_bytes(&boundary, &entry.mime, ranges, entry.len);
        debug_assert_eq!(bytes, body.len());
        let response = Response::new(Status::PARTIAL_CONTENT, body).of(fields.validators());
        response.with("Content-Type", multipart::content_type(&boundary).as_bytes()).with_length(bytes)
    }

    /// Returns a boundary that cannot be guessed from the file's content: the entity tag and a counter.
    fn boundary(&mut self, entry: &Entry) -> String {
        self.boundaries += 1;
        let tag: String = entry.etag.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        format!("weir{tag}x{:x}", self.boundaries)
    }
}

/// Returns true if the client asks for as few bytes as possible.
fn saves_data(request: &Request) -> bool {
    request.values("save-data").any(|value| value.trim_ascii().eq_ignore_ascii_case(b"on"))
}

fn entity<'e>(request: &Request, entry: &'e Entry) -> Entity<'e> {
    // Only If-Range needs the time.
    let now = if request.fields.if_range.is_some() { SystemTime::now() } else { entry.last_modified };
    Entity { len: entry.len, etag: &entry.etag, last_modified: entry.last_modified, now }
}

/// Returns the entity tag of the form that the client has, if the request only asks whether the file has changed and
/// the client accepts that form. Forms that no longer exist count as well, because their bytes represent the same file.
fn held_tag<'r>(to: To, request: &Request<'r>, entry: &Entry, accepted: &AcceptedCodings) -> Option<&'r [u8]> {
    let is_held = |tag: &&[u8]| is_of(entry, tag, accepted) || is_with_dictionary(to, request, entry, tag, accepted);
    listed_tags(request).filter(|_| is_only_question(request)).find(is_held)
}

/// Returns true if the only conditions of the request are the entity tags that the client has.
fn is_only_question(request: &Request) -> bool {
    request.fields.if_match.is_none() && request.fields.if_unmodified_since.is_none()
}

/// Returns the tag of this file coded while it was sent, if the client has that tag and accepts the coding.
fn tag_on_its_way(request: &Request, entry: &Entry, accepted: &AcceptedCodings) -> Option<Vec<u8>> {
    let takes_any = STREAMED.into_iter().any(|coding| accepted.takes(coding));
    tag_asked_with(request, entry.etag.as_bytes()).filter(|_| takes_any && is_only_question(request))
}

/// Returns true if `tag` belongs to a form of this file that was coded with a dictionary, and this client can have
/// stored only those bytes under the tag. A shared cache keeps the coded bytes, which only clients with the dictionary
/// can decode.
fn is_with_dictionary(to: To, request: &Request, entry: &Entry, tag: &[u8], accepted: &AcceptedCodings) -> bool {
    let Some(suffix) = entry.suffix_of(tag).filter(|_| to.dictionaries.is_some()) else { return false };
    let dictionary = available_dictionary(request).filter(|_| !to.is_direct);
    let has_form = |coding, level: Level| {
        let way = Way { coding, level: level.number(coding), dictionary: Some(dictionary.unwrap_or_default()) };
        let own = way.suffix();
        // A client that has its own cache has decoded the bytes before it stored them.
        let common = if to.is_direct { own.len() - DIGITS } else { own.len() };
        suffix.len() == own.len() && suffix.starts_with(&own.as_bytes()[..common])
    };
    let offered = accepted.wanted_with_dictionary(Codings::ALL).collect::<Codings>();
    let may_decode = |coding| to.is_direct || dictionary.is_some() && offered.has(coding);
    let mut codings = WITH_DICTIONARY.into_iter().filter(|coding| may_decode(*coding));
    codings.any(|coding| [Level::Fast, Level::Best].into_iter().any(|level| has_form(coding, level)))
}

/// Returns true for the tag of a form that the client accepts.
fn is_of(entry: &Entry, tag: &[u8], accepted: &AcceptedCodings) -> bool {
    if tag == entry.etag.as_bytes() {
        return !accepted.refuses_identity();
    }
    let mut sidecars = entry.forms.coded().filter(|(coding, _)| accepted.takes(*coding));
    let mut codings = entry.forms.codings.iter().filter(|coding| accepted.takes(*coding));
    let is_level = |coding| {
        let way = |level: Level| Way { coding, level: level.number(coding), dictionary: None };
        [Level::Fast, Level::Best].into_iter().any(|level| entry.tag_of(&way(level)).as_bytes() == tag)
    };
    sidecars.any(|(_, sidecar)| sidecar.etag.as_bytes() == tag) || codings.any(is_level)
}

fn part(entry: &Arc<Entry>, range: Range<u64>) -> Piece {
    Piece::File { entry: Arc::clone(entry), range }
}
