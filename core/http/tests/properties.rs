//! Properties that hold for every byte sequence of a peer.

use http::http1::{Head, parse_request};
use http::{
    BodyLength, Entity, Fields, Limits, Method, OwnedRequest, PeerLength, Refused, Reject, Request, RequestBuilder,
    SHOWN_BYTES_MAX, Status, Verdict, decode_path, evaluate,
};
use proptest::prelude::*;

/// Small limits, so that random requests reach them.
const LIMITS: Limits = Limits { head_bytes_max: 220, fields_max: 8 };

/// Requests to mutate: one for each feature of the grammar.
const SEEDS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /a/b%20c?q=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    "HEAD http://a.com:80/x HTTP/1.1\r\nHost: b\r\nIf-None-Match: \"a\", W/\"b\"\r\n\r\n",
    "GET /r HTTP/1.1\r\nHost: a\r\nRange: bytes=0-5,-5\r\nIf-Range: \"t\"\r\n\r\n",
    "GET /d HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-Match: *\r\n\r\n",
    "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /v HTTP/1.2\r\nHost: a\r\nX: y\r\nContent-Length: 0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX:\r\nX: y\r\nX: z\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\nX: y\r\n\r\n",
];

/// Bytes with a meaning in HTTP are likelier than the rest.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(&b"\r\n :/?#%\t\0,*\"-;@[]A1"[..]), any::<u8>()]
}

#[derive(Debug, Clone)]
enum Edit {
    Set(u8),
    Insert(u8),
    Remove,
    Repeat(usize),
}

fn edit() -> impl Strategy<Value = (usize, Edit)> {
    let kind = prop_oneof![
        byte().prop_map(Edit::Set),
        byte().prop_map(Edit::Insert),
        Just(Edit::Remove),
        (1..200usize).prop_map(Edit::Repeat),
    ];
    (any::<usize>(), kind)
}

/// A seed with up to three edits.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(SEEDS), prop::collection::vec(edit(), 0..4)).prop_map(|(seed, edits)| {
        let mut bytes = seed.as_bytes().to_vec();
        for (place, edit) in edits {
            let place = place % bytes.len();
            match edit {
                Edit::Set(b) => bytes[place] = b,
                Edit::Insert(b) => bytes.insert(place, b),
                Edit::Remove if bytes.len() > 1 => drop(bytes.remove(place)),
                Edit::Remove => {}
                Edit::Repeat(count) => {
                    let repeated = vec![bytes[place]; count];
                    bytes.splice(place..place, repeated);
                }
            }
        }
        bytes
    })
}

/// The result for every prefix is "more" or the result for the whole.
fn check_prefixes(bytes: &[u8], limits: &Limits) -> Result<(), TestCaseError> {
    let whole = parse_request(bytes, limits);
    for end in 0..bytes.len() {
        match parse_request(&bytes[..end], limits) {
            Ok(None) => prop_assert!(end < limits.head_bytes_max),
            early => prop_assert_eq!(early, whole, "at {}", end),
        }
    }
    Ok(())
}

fn check_request(parsed: &Head, bytes: &[u8], limits: &Limits) -> Result<(), TestCaseError> {
    let (head, request) = (&bytes[..parsed.bytes], parsed.request);
    prop_assert!(head.len() <= limits.head_bytes_max && head.ends_with(b"\r\n\r\n"));
    let line_feeds = head.iter().filter(|&&b| b == b'\n').count();
    let line_ends = head.windows(2).filter(|pair| pair == b"\r\n").count();
    let returns = head.iter().filter(|&&b| b == b'\r').count();
    prop_assert!(line_feeds == line_ends && returns == line_ends && !head.contains(&0));
    prop_assert!(request.path.starts_with(b"/") || (request.path == b"*" && request.method == Method::Options));
    prop_assert!(request.target.iter().all(|b| b.is_ascii_graphic() && *b != b'#'));
    prop_assert!(parsed.minor_version == 0 || request.fields.host.is_some());
    prop_assert!(!parsed.expect_continue || request.body != BodyLength::None);
    let count = |name| request.values(name).count();
    prop_assert!(count("host") <= 1);
    let framing = count("content-length") + count("transfer-encoding");
    prop_assert!(framing <= 1 && (framing == 1 || request.body == BodyLength::None));
    Ok(())
}

/// Every request for a file gets a verdict that can be sent.
fn check_verdict(request: &Request, len: u64) -> Result<(), TestCaseError> {
    let entity = Entity { len, etag: "\"t\"", last_modified: std::time::UNIX_EPOCH, now: std::time::UNIX_EPOCH };
    match evaluate(request, &entity) {
        Verdict::Ranges(ranges) => {
            prop_assert!(request.method == Method::Get && !ranges.is_empty());
            prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len));
        }
        Verdict::Whole => {}
        _ => prop_assert!(matches!(request.method, Method::Get | Method::Head)),
    }
    Ok(())
}

fn check_all(bytes: &[u8], limits: &Limits, len: u64) -> Result<(), TestCaseError> {
    check_prefixes(bytes, limits)?;
    match parse_request(bytes, limits) {
        Ok(Some(head)) => {
            check_request(&head, bytes, limits)?;
            check_verdict(&head.request, len)?;
            let _: Result<(), Reject> = decode_path(head.request.path, &mut Vec::new());
        }
        Ok(None) => {}
        Err(reject) => {
            prop_assert!((400..=599).contains(&reject.status.0) && !reject.reason.is_empty());
            prop_assert!(!reject.status.reason().is_empty());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_requests(bytes in mutated(), len in 0..20u64) {
        check_all(&bytes, &LIMITS, len)?;
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(byte(), 0..300), len in 0..20u64) {
        check_all(&bytes, &LIMITS, len)?;
    }

    #[test]
    fn random_limits(bytes in mutated(), head in 0..60usize, fields in 0..4usize) {
        let limits = Limits { head_bytes_max: head, fields_max: fields };
        check_all(&bytes, &limits, 10)?;
    }

    #[test]
    fn pipelined_requests_are_read_one_by_one(first in mutated(), second in mutated()) {
        let Ok(Some(head)) = parse_request(&first, &LIMITS) else { return Ok(()) };
        let both = [&first[..head.bytes], &second].concat();
        prop_assert_eq!(parse_request(&both, &LIMITS), Ok(Some(head)));
    }
}

/// Names and values with a meaning, and some invalid ones.
fn field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = prop_oneof![
        prop::sample::select(
            &["host", "range", "if-match", "content-length", "transfer-encoding", "expect", "x", "x y", ""][..]
        )
        .prop_map(|name| name.as_bytes().to_vec()),
        prop::collection::vec(byte(), 1..4).prop_filter("a text has another name then", |name| !name.contains(&b':')),
    ];
    let value = prop_oneof![
        prop::sample::select(
            &["a", "5", "05", "chunked", "gzip, chunked", "100-continue", "bytes=0-1", " v\t", ""][..]
        )
        .prop_map(|value| value.as_bytes().to_vec()),
        prop::collection::vec(byte(), 0..30),
    ];
    (name, value)
}

fn line() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let method = prop::sample::select(&["GET", "HEAD", "OPTIONS", "PUT", "BREW", "CONNECT", "G T", "GE\0T"][..]);
    let target = prop_oneof![
        prop::sample::select(&["/", "/a?b?c", "*", "http://a.com:80/x?y", "http://a?b", "http://u@a/", "/#", "a"][..])
            .prop_map(|target| target.as_bytes().to_vec()),
        prop::collection::vec(byte(), 1..60).prop_map(|rest| [b"/", &rest[..]].concat()),
    ];
    (method.prop_map(|method| method.as_bytes().to_vec()), target)
}

/// Builds the text of a request. No line ends early: CR and LF are replaced with another invalid byte.
fn text(method: &[u8], target: &[u8], fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let inner = |bytes: &[u8]| bytes.iter().map(|b| if b"\r\n".contains(b) { 0 } else { *b }).collect::<Vec<u8>>();
    let mut text = [&inner(method)[..], b" ", &inner(target), b" HTTP/1.1\r\n"].concat();
    for (name, value) in fields {
        text.extend([&inner(name)[..], b": ", &inner(value), b"\r\n"].concat());
    }
    [&text[..], b"\r\n"].concat()
}

/// Method, path, query, target, body, and the fields of ranges and hosts.
type Meaning<'a> = (Method, &'a [u8], Option<&'a [u8]>, &'a [u8], BodyLength, Fields<&'a [u8]>);

fn meaning<'a>(request: &Request<'a>) -> Meaning<'a> {
    (request.method, request.path, request.query, request.target, request.body, request.fields)
}

fn built_of(line: &(Vec<u8>, Vec<u8>), authority: Option<&str>, fields: &[(Vec<u8>, Vec<u8>)]) -> Built {
    let mut builder = RequestBuilder::new(LIMITS, true);
    // An earlier request leaves no trace.
    builder.begin();
    builder.push(b":path", b"/other");
    builder.push(b"host", b"a");
    let _ = builder.finish();
    builder.begin();
    builder.push(b":method", &line.0);
    builder.push(b":scheme", b"http");
    authority.iter().for_each(|authority| builder.push(b":authority", authority.as_bytes()));
    builder.push(b":path", &line.1);
    fields.iter().for_each(|(name, value)| builder.push(name, value));
    builder.finish()
}

/// Returns the first name, value or line that HTTP/2 and HTTP/3 call malformed.
fn wrong_in_frames(
    (method, path): &(Vec<u8>, Vec<u8>),
    authority: Option<&str>,
    fields: &[(Vec<u8>, Vec<u8>)],
) -> Option<&'static str> {
    let ends = |value: &[u8]| value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'));
    let token = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(b);
    let numbers = || fields.iter().filter(|(name, _)| name == b"content-length").map(|(_, value)| value.trim_ascii());
    let is_number = |value: &[u8]| {
        str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok() && !text.starts_with(['+', '-']))
    };
    let connection = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let is_odd = |name: &[u8]| connection.iter().any(|odd| odd.as_bytes() == name);
    match () {
        () if ends(method) || ends(path) => Some("a line that ends early"),
        () if !path.starts_with(b"/") && (path != b"*" || method != b"OPTIONS") => Some("a path that is none"),
        () if method == b"CONNECT" => Some("CONNECT with a path"),
        () if authority.is_some_and(|authority| authority.contains([' ', '/'])) => Some("an authority that is none"),
        () if fields.iter().any(|(name, value)| name.is_empty() || !name.iter().all(token) || ends(value)) => {
            Some("a field")
        }
        () if fields.iter().any(|(name, _)| is_odd(name)) => Some("a field of a connection"),
        () if fields
            .iter()
            .any(|(name, value)| name == b"te" && !value.trim_ascii().eq_ignore_ascii_case(b"trailers")) =>
        {
            Some("te")
        }
        () if !numbers().all(is_number) => Some("a length that is none"),
        () if authority.is_none()
            && !fields.iter().any(|(name, value)| name == b"host" && !value.trim_ascii().is_empty()) =>
        {
            Some("no host")
        }
        () => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// The fields give the same request as their text, or are refused as the text is.
    #[test]
    fn fields_have_the_answer_of_the_text(
        line in line(),
        authority in prop::option::of(prop::sample::select(&["a", "b:80", "a b", "x/"][..])),
        fields in prop::collection::vec(field(), 0..10),
    ) {
        let built = built_of(&line, authority, &fields);
        let is_authority = |(name, value): &(Vec<u8>, Vec<u8>)| {
            name == b"host" && authority.is_some_and(|authority| value.eq_ignore_ascii_case(authority.as_bytes()))
        };
        let host = authority.map(|authority| (b"host".to_vec(), authority.as_bytes().to_vec()));
        let others = fields.iter().filter(|field| !is_authority(field)).cloned();
        let lines: Vec<_> = host.into_iter().chain(others).collect();
        let text = text(&line.0, &line.1, &lines);
        let wrong = wrong_in_frames(&line, authority, &fields);
        let built = match built {
            Ok(built) if wrong.is_none() => built,
            // Fields after the one that is refused are ignored.
            Ok(built) => {
                prop_assert!(built.is_err(), "{wrong:?}");
                return Ok(());
            }
            Err(malformed) => {
                let is_refused_as_text = !matches!(parse_request(&text, &LIMITS), Ok(Some(_)));
                prop_assert!(wrong.is_some() || is_refused_as_text, "{malformed:?}");
                return Ok(());
            }
        };
        match (parse_request(&text, &LIMITS), built) {
            (Ok(Some(head)), Ok(request)) => {
                prop_assert_eq!(meaning(&request.view()), meaning(&head.request));
                prop_assert_eq!(request.view().all().collect::<Vec<_>>(), head.request.all().collect::<Vec<_>>());
                let kept = OwnedRequest::from(&head.request);
                prop_assert_eq!(meaning(&kept.view()), meaning(&head.request));
            }
            (Err(reject), Err(refused)) if text.len() <= LIMITS.head_bytes_max && lines.len() <= LIMITS.fields_max => {
                prop_assert_eq!(reject, refused.reject);
            }
            // The mistake reported for a large head may depend on how much of it was read.
            (Err(_), Err(_)) => {}
            (parsed, built) => prop_assert!(false, "{parsed:?}, {built:?}"),
        }
    }
}

/// The seeds are valid, as the generator assumes.
#[test]
fn most_seeds_are_accepted() {
    let accepted =
        SEEDS.iter().filter(|seed| matches!(parse_request(seed.as_bytes(), &Limits::default()), Ok(Some(_))));
    assert_eq!(accepted.count(), SEEDS.len() - 1); // all but HTTP/2's preface
}

type Built = Result<Result<Box<OwnedRequest>, Box<Refused>>, Box<Refused>>;

fn built(limits: Limits, fields: &[(&str, &str)]) -> Built {
    let mut builder = RequestBuilder::new(limits, false);
    builder.begin();
    fields.iter().for_each(|(name, value)| builder.push(name.as_bytes(), value.as_bytes()));
    builder.finish()
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];

fn with(more: &[(&str, &str)]) -> Built {
    built(Limits::default(), &[&GET[..], more].concat())
}

/// Fields that each make a request malformed.
const MALFORMED: [(&str, &str); 25] = [
    ("Accept", "a"),
    ("", "a"),
    ("a b", "a"),
    ("a:", "a"),
    ("connection", "close"),
    ("keep-alive", "1"),
    ("proxy-connection", "close"),
    ("transfer-encoding", "chunked"),
    ("upgrade", "h2c"),
    ("te", "gzip"),
    (":path", "/"),
    (":authority", "a"),
    (":status", "200"),
    (":protocol", "websocket"),
    (":other", "a"),
    ("content-length", "-1"),
    ("content-length", ""),
    ("content-length", "9223372036854775808"),
    ("content-length", "18446744073709551615"),
    ("content-length", "99999999999999999999"),
    ("a", "b\r\nc: d"),
    ("a", "b\rc"),
    ("a", "b\nc"),
    ("a", "\0"),
    ("cookie", "a=\0"),
];

/// RFC 9113 sections 8.1.1, 8.2 and 8.3, RFC 9114 sections 4.1.2, 4.2 and 4.3.
#[test]
fn what_is_malformed_is_no_request() {
    assert!(with(&[]).is_ok());
    for more in MALFORMED {
        assert!(with(&[more]).is_err(), "{more:?}");
    }
    assert!(with(&[("content-length", "1"), ("content-length", "2")]).is_err());
    let [method, scheme, authority, path] = GET;
    assert!(built(LIMITS, &[("a", "b"), method, scheme, authority, path]).is_err(), "pseudo-fields behind others");
    for at in 0..4 {
        for value in ["", "\0", "a\r\nb: c", "a\nb"] {
            let mut fields = GET;
            fields[at].1 = value;
            assert!(built(LIMITS, &fields).is_err(), "{:?} of {value:?}", GET[at].0);
        }
    }
    for missing in [0, 1, 3] {
        let mut fields = GET.to_vec();
        fields.remove(missing);
        assert!(built(LIMITS, &fields).is_err(), "without {:?}", GET[missing].0);
    }
    for wrong in ["b", "http://b/", "https://b", "*", "?a", "#"] {
        assert!(built(LIMITS, &[method, scheme, authority, (":path", wrong)]).is_err(), "{wrong}");
    }
    for wrong in ["u@a", "a b", "a/", "a\u{1}", "\u{e9}", "a?b", "a\\b"] {
        assert!(built(LIMITS, &[method, scheme, (":authority", wrong), path]).is_err(), "{wrong}");
    }
    assert!(built(LIMITS, &[method, (":scheme", "1 "), authority, path]).is_err());
}

/// The log has the reason, and method and path also if they came after the mistake.
#[test]
fn a_malformed_request_has_a_reason_and_is_shown() {
    let [method, scheme, authority, path] = GET;
    let shown = |fields: &[(&str, &str)]| {
        let refused = built(LIMITS, fields).unwrap_err();
        assert_eq!(refused.reject.status, Status::BAD_REQUEST);
        let [method, target] = [&refused.shown.method, &refused.shown.target].map(|text| String::from_utf8_lossy(text));
        (refused.reject.reason, format!("{method} {target}"))
    };
    let of_authority = "an invalid :authority";
    assert_eq!(shown(&[(":authority", "a b"), scheme, path, method]), (of_authority, "GET /".into()));
    assert_eq!(shown(&[method, scheme, authority]), ("pseudo-fields other than those of the method", "GET ".into()));
    let long = "/x".repeat(SHOWN_BYTES_MAX);
    let of_field = shown(&[scheme, authority, ("A", "b"), method, (":path", &long)]);
    assert_eq!(
        of_field,
        ("a field name that is not a token in lower case", format!("GET {}", &long[..SHOWN_BYTES_MAX]))
    );
}

/// Requests that both call well-formed and HTTP/1.1 refuses get the answer of HTTP/1.1.
#[test]
fn what_is_only_wrong_has_a_response() {
    for (more, reason) in [
        (&[("host", "b")][..], "more than one host field"),
        (&[("content-length", "3"), ("content-length", "3")], "content-length is not one decimal number below 2^63"),
        (&[("a", "\u{1}")], "control character or bare carriage return in a field value"),
        (&[("expect", "a")], "expectation other than 100-continue"),
    ] {
        assert_eq!(with(more).unwrap().unwrap_err().reject.reason, reason);
    }
    let [method, scheme, _, path] = GET;
    let host = built(LIMITS, &[method, scheme, (":authority", "a,b"), path]);
    assert_eq!(host.unwrap().unwrap_err().reject.reason, "malformed host field");
}

#[test]
fn the_host_is_an_authority_and_connect_has_nothing_else() {
    let [method, scheme, authority, path] = GET;
    assert!(built(LIMITS, &[method, scheme, path, ("host", "a")]).is_ok());
    assert!(built(LIMITS, &[method, scheme, path]).is_err());
    assert!(built(LIMITS, &[method, scheme, path, ("host", "")]).is_err());
    assert!(built(LIMITS, &[(":method", "OPTIONS"), scheme, authority, (":path", "*")]).unwrap().is_ok());
    let connect = (":method", "CONNECT");
    assert_eq!(built(LIMITS, &[connect, authority]).unwrap().unwrap_err().reject.reason, "connect is for proxies");
    for wrong in [&[connect][..], &[connect, authority, path], &[connect, authority, scheme]] {
        assert!(built(LIMITS, wrong).is_err(), "{wrong:?}");
    }
    let tunnel = |fields: &[(&str, &str)]| {
        let mut builder = RequestBuilder::new(LIMITS, true);
        builder.begin();
        fields.iter().for_each(|(name, value)| builder.push(name.as_bytes(), value.as_bytes()));
        builder.finish()
    };
    let protocol = (":protocol", "websocket");
    let asked = tunnel(&[connect, authority, scheme, path, protocol]).unwrap().unwrap();
    assert_eq!(asked.view().method, Method::Connect);
    assert!(tunnel(&[connect, authority, protocol]).is_err());
    assert!(tunnel(&[connect, authority, scheme, path, protocol, protocol]).is_err());
    assert!(tunnel(&[method, authority, scheme, path, protocol]).is_err());
}

#[test]
fn the_length_of_the_content_is_told_also_of_one_that_is_refused() {
    let said = |more: &[(&str, &str)]| {
        let mut builder = RequestBuilder::new(Limits::default(), false);
        builder.begin();
        GET.iter().chain(more).for_each(|(name, value)| builder.push(name.as_bytes(), value.as_bytes()));
        (builder.finish().unwrap().is_ok(), builder.content_length().map(PeerLength::bytes))
    };
    assert_eq!(said(&[]), (true, None));
    assert_eq!(said(&[("content-length", " 07\t")]), (true, Some(7)));
    assert_eq!(said(&[("content-length", "9223372036854775807")]), (true, Some((1 << 63) - 1)));
    assert_eq!(said(&[("content-length", "7"), ("expect", "a")]), (false, Some(7)));
}

/// RFC 9113 section 8.2.3, RFC 9114 section 4.2.1.
#[test]
fn crumbs_are_one_field_also_for_limits() {
    let cookies = |count: usize| (0..count).map(|n| format!("c{n:02}=v")).collect::<Vec<_>>();
    let crumbs = |count: usize, limits: Limits| {
        let values = cookies(count);
        let fields = values.iter().map(|value| ("cookie", value.as_str()));
        built(limits, &GET.into_iter().chain([("accept", "*/*")]).chain(fields).collect::<Vec<_>>()).unwrap()
    };
    let request = crumbs(90, Limits::default()).unwrap();
    let expected = cookies(90).join("; ");
    assert_eq!(request.view().values("cookie").collect::<Vec<_>>(), [expected.as_bytes()]);
    // The limit is the same as over HTTP/1.1, to the byte.
    let text = format!("GET / HTTP/1.1\r\nhost: a\r\naccept: */*\r\ncookie: {expected}\r\n\r\n");
    let limits = |head_bytes_max| Limits { head_bytes_max, fields_max: 3 };
    assert!(crumbs(90, limits(text.len())).is_ok() && parse_request(text.as_bytes(), &limits(text.len())).is_ok());
    assert_eq!(crumbs(90, limits(text.len() - 1)).unwrap_err().reject.status.0, 431);
    let few = Limits { fields_max: 2, ..Limits::default() };
    assert_eq!(crumbs(1, few).unwrap_err().reject.status.0, 431, "a cookie is a field too");
}

/// A crumb counts as memory like any other field. No memory is kept between requests, even after a refused one.
#[test]
fn crumbs_are_counted_as_memory() {
    for last in [("accept", "*/*"), ("expect", "a"), ("connection", "close")] {
        let mut builder = RequestBuilder::new(Limits::default(), false);
        builder.begin();
        GET.iter().for_each(|(name, value)| builder.push(name.as_bytes(), value.as_bytes()));
        let before = builder.memory_bytes();
        (0..40).for_each(|_| builder.push(b"cookie", &[b'c'; 100]));
        assert!(builder.memory_bytes() >= before + 4000);
        builder.push(last.0.as_bytes(), last.1.as_bytes());
        let _ = builder.finish();
        assert_eq!(builder.memory_bytes(), 0, "{last:?}");
    }
}
