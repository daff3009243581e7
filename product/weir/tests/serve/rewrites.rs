//! Changed paths of requests: rewrites of a site, and prefixes that programs do not receive. Rules apply to the result,
//! in every spelling.

use crate::common::{Server, Site, Upstream, answer};
use crate::http3::Asking;
use crate::spellings::{Guarded, SPELLINGS};

#[test]
fn a_program_gets_the_path_that_is_left() {
    let guarded = Guarded::new(
        "[[site.rewrite]]\nfrom = \"/docs/*\"\nto = \"/app/*\"\n\
        [[site.rewrite]]\nfrom = \"/app/secret/*\"\nto = \"/nothing\"\n\
        [[site.rewrite]]\nfrom = \"/page/*\"\nto = \"/index.php?p=*\"\n\
        [[site.proxy]]\npath = \"/app/*\"\nstrip_prefix = \"/app\"\nto = [\"UPSTREAM\"]",
    );
    let mut asking = Asking::to(&guarded.server);
    for (path, got) in [
        ("/docs/a%2Fb?q", "/a%2Fb?q"),
        ("/d%6Fcs/%61;b", "/%61;b"),
        ("/app/", "/"),
        ("/app/x/y?", "/x/y?"),
        // One rewrite, however many match its result.
        ("/docs/secret/x", "/secret/x"),
        ("/app/secret/x", "/nothing"),
        ("/page/a&b=c?d=e", "/index.php?p=a%26b%3Dc&d=e"),
        ("/other", "/other"),
    ] {
        assert_eq!(guarded.statuses(&mut asking, path), [200; 3], "{path}");
        let asked = guarded.upstream.asked();
        let paths: Vec<&str> = asked[asked.len() - 3..].iter().map(|asked| asked.path()).collect();
        assert_eq!(paths, [got; 3], "{path}");
    }
    let before = guarded.upstream.asked().len();
    for path in
        ["/app//host/x", "/docs//x", "/app/..;/x", "/docs%2Fx", "/app/%2e%2e/x", "/app/..%2Fx", "/docs/..;/app/x"]
    {
        for status in guarded.statuses(&mut asking, path) {
            assert!(matches!(status, 308 | 400), "{path}: {status}");
        }
    }
    assert_eq!(guarded.upstream.asked().len(), before);
}

/// The rules treat `/pub/old/x` as `/old/x`, and also every spelling of it.
#[test]
fn rules_go_by_the_result_of_a_rewrite() {
    let guarded = Guarded::new(
        "[[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/*\"\n[[site.redirect]]\nfrom = \"/old/*\"\nto = \"/closed\"",
    );
    let mut asking = Asking::to(&guarded.server);
    for path in SPELLINGS {
        for path in [format!("/pub{path}"), format!("/%70ub{path}")] {
            for status in guarded.statuses(&mut asking, &path) {
                assert!(matches!(status, 302 | 308 | 400), "{path}: {status}");
            }
            assert!(guarded.upstream.asked().is_empty(), "{path} reaches the program");
        }
    }
    assert_eq!(guarded.statuses(&mut asking, "/pub/new/x"), [200; 3]);
    assert_eq!(guarded.upstream.asked()[0].path(), "/new/x");
}

#[test]
fn a_redirect_to_one_slash_names_the_path_that_came() {
    let guarded = Guarded::new("[[site.rewrite]]\nfrom = \"/pub/*\"\nto = \"/inside/*\"");
    let mut asking = Asking::to(&guarded.server);
    let redirected = asking.get("/pub//x?q");
    assert_eq!((redirected.field(":status"), redirected.field("location")), (Some("308"), Some("/pub/x?q")));
}

#[test]
fn files_are_found_by_the_result_and_bodies_come_with_it() {
    let site = Site::new();
    let upstream = Upstream::start(|asked, socket| {
        let body = asked.body(socket);
        let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        answer(socket, &[length.as_bytes(), &body])
    });
    site.write("page.txt", b"page");
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n\
        [[site.rewrite]]\nfrom = \"/*.html\"\nto = \"/*.txt\"\n\
        [[site.rewrite]]\nfrom = \"/up/*\"\nto = \"/app/*\"\n\
        [[site.proxy]]\npath = \"/app/*\"\nstrip_prefix = \"/app\"\nto = [\"{}\"]\n",
        site.served().display(),
        upstream.address
    );
    std::fs::write(site.outside("weir.toml"), text).unwrap();
    let server = Server::run(&site.outside("weir.toml"));
    let mut client = server.connect();
    assert_eq!(client.get("/page.html?q").text(), "page");
    assert_eq!(client.get("/page.txt").text(), "page");
    for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
        client.send(format!("POST /up/a?b HTTP/1.1\r\nHost: a\r\n{body}"));
        assert_eq!(client.response().text(), "hello");
        assert_eq!(upstream.asked().last().unwrap().path(), "/a?b");
    }
    assert_eq!(client.get("/..%2Fpage.html").status, 400);
}
