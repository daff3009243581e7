//! Header fields of requests to programs that an operator sets or removes.

use crate::http3::Asking;
use crate::spellings::Guarded;

#[test]
fn a_program_gets_the_fields_that_are_set_and_not_those_removed() {
    let field = |path: &str, name: &str, rest: &str| {
        format!("[[site.request_header]]\npath = \"{path}\"\nname = \"{name}\"\n{rest}\n")
    };
    let guarded = Guarded::new(
        &[
            field("*", "X-Real-IP", "value = \"{client}\""),
            field("*", "X-URL", "value = \"{scheme}://{host}/\""),
            field("*", "User-Agent", ""),
            field("/a/*", "X-Part", "value = \"a\""),
            field("*", "X-Part", ""),
        ]
        .concat(),
    );
    let mut asking = Asking::to(&guarded.server);
    for (path, part) in [("/a/b", Some("a")), ("/b", None)] {
        assert_eq!(guarded.statuses(&mut asking, path), [200; 3]);
        let asked = guarded.upstream.asked();
        for asked in &asked[asked.len() - 3..] {
            assert_eq!((asked.field("X-Real-IP"), asked.field("X-Part")), (Some("127.0.0.1"), part));
            let url = asked.field("X-URL").unwrap();
            assert!(url.starts_with("https://localhost") && url.ends_with('/'), "{url}");
            assert_eq!(asked.field("User-Agent"), None);
            assert_eq!(asked.head.matches("X-Real-IP").count(), 1, "{}", asked.head);
        }
    }
    // A program may read either path.
    assert_eq!(guarded.statuses(&mut asking, "/a%2Fb"), [400; 3]);
}
