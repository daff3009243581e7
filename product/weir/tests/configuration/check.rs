//! `weir check` opens what `weir run` would open.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::{Folder, said, weir};

const WRONG: &str = r#"[server]
user = "no-such-user"
access_log = "absent/a.log"
[[listener]]
address = "198.18.255.254:0"
[[site]]
hosts = ["a.test"]
root = "www"
access_log = "made.log"
[[site]]
hosts = ["b.test"]
root = "absent"
[[site]]
hosts = ["c.test"]
root = "www"
cert = "absent.pem"
key = "absent.key"
[[site]]
hosts = ["d.test"]
root = "www"
[[site.error_page]]
status = 404
file = "/404.html"
[[site]]
hosts = ["e.test"]
root = "www"
[[site.proxy]]
to = ["http://no-such-host.invalid:80"]
"#;

/// A site in which everything is wrong.
const ALL_WRONG: &str = r#"[[site]]
root = "www"
autoindex = true
listing_page = "/.listing.html"
access_log = "absent/a.log"
cert = "absent.pem"
key = "absent.key"
[[site.error_page]]
status = 404
file = "/404.html"
[[site.error_page]]
status = 403
file = "/.listing.html"
[[site.error_page]]
status = 500
file = "/500.html"
[[site.proxy]]
path = "/a/*"
to = ["http://no-such-host.invalid:80"]
[[site.proxy]]
path = "/b/*"
to = ["http://127.0.0.1:9"]
accel_root = "absent"
"#;

#[test]
fn all_that_cannot_be_opened_is_found_at_its_line() {
    let folder = Folder::new("check-opens");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("weir.toml", WRONG);
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    let found: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("weir.toml:")).collect();
    let expected = [
        "2:8: server.user: user `no-such-user` is not known;",
        "3:14: server.access_log: cannot open access log `absent/a.log`: No such file or directory;",
        "5:11: cannot listen on 198.18.255.254:0: Cannot assign requested address;",
        "12:8: cannot serve `absent`: No such file or directory; expected a readable folder",
        "16:8: cannot read `absent.pem`: No such file or directory;",
        "17:7: cannot read `absent.key`: No such file or directory;",
        "21:1: error page `www/404.html` of status 404: No such file or directory;",
    ];
    assert_eq!((status, found.len()), (Some(1), expected.len()), "{out}{err}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{out}");
    assert_eq!(err, "weir: weir.toml: 7 mistakes\n");
    assert!(!folder.0.join("made.log").exists(), "a check leaves nothing behind");

    let (status, out, _) = said(&weir(&folder.0, &["check", "--syntax-only"]));
    assert!(status == Some(0) && out.starts_with("weir.toml: correct: 1 listener, 5 sites, 0 classes\n"), "{out}");
}

#[test]
fn all_faults_of_one_site_are_found_at_once() {
    let folder = Folder::new("check-all-of-a-site");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/.listing.html", "<h1>{{path}}</h1>\n{{rows}}\n");
    folder.write("weir.toml", ALL_WRONG);
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    let found: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("weir.toml:")).collect();
    let expected = [
        "4:16: listing page `www/.listing.html:2`: unknown mark {{rows}}; expected {{listing}} or {{path}}",
        "5:14: cannot open access log `absent/a.log`: No such file or directory;",
        "6:8: cannot read `absent.pem`: No such file or directory;",
        "7:7: cannot read `absent.key`: No such file or directory;",
        "8:1: error page `www/404.html` of status 404: No such file or directory;",
        "14:1: error page `www/500.html` of status 500: No such file or directory;",
        "20:1: cannot serve `absent`: No such file or directory; expected a readable folder",
    ];
    assert_eq!((status, found.len()), (Some(1), expected.len()), "{out}{err}");
    assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{out}");
    std::fs::remove_dir_all(folder.0.join("www")).unwrap();
    let (_, out, err) = said(&weir(&folder.0, &["check"]));
    assert!(out.starts_with("weir.toml:2:8: cannot serve `www`: No such file or directory;"), "{out}");
    assert_eq!(err, "weir: weir.toml: 5 mistakes\n", "what is in the folder is not told of: {out}");
}

/// The name may have an address later, and a start does not wait for it.
#[test]
fn a_name_without_an_address_is_told_of_and_right() {
    let folder = Folder::new("check-name");
    let text =
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n[[site.proxy]]\nto = [\"no-such-host.invalid:80\"]\n";
    folder.write("weir.toml", text);
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    let told = "\nweir.toml: cannot find upstream no-such-host.invalid:80: ";
    assert!(status == Some(0) && out.contains(told), "{out}{err}");
}

#[test]
fn an_address_in_use_and_a_certificate_of_another_host_are_told_and_right() {
    let folder = Folder::new("check-tells");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(["other.test".to_string()]).unwrap().self_signed(&key).unwrap();
    folder.write("a.pem", &made.pem());
    folder.write("a.key", &key.serialize_pem());
    let used = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap();
    folder.write(
        "weir.toml",
        &format!(
            "[[listener]]\naddress = '{address}'\ntls = true\nhttp3 = false\n[[site]]\nhosts = ['a.test']\nroot = 'www'\ncert = 'a.pem'\nkey = 'a.key'\n"
        ),
    );
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((status, lines.len()), (Some(0), 3), "{out}{err}");
    assert_eq!(lines[0], "weir.toml: correct: 1 listener, 1 site, 0 classes");
    // Whether another Weir runs here depends on the machine.
    assert!(lines[1].starts_with(&format!("weir.toml: {address} is in use")), "{out}");
    assert_eq!(lines[2], "weir.toml: certificate `a.pem` is not for a.test: clients refuse it there");

    folder.write(
        "admin.toml",
        "[server]\nadmin = '127.0.0.1:18'\n[[listener]]\naddress = ':18'\n[[site]]\nroot = 'www'\n",
    );
    let (status, out, _) = said(&weir(&folder.0, &["check", "admin.toml"]));
    let overlap = "admin.toml:2:9: server.admin: 127.0.0.1:18 is of the listener of line 4; expected another port\n";
    assert_eq!((status, &*out), (Some(1), overlap));

    std::fs::remove_file(folder.0.join("a.key")).unwrap();
    let (_, out, _) = said(&weir(&folder.0, &["check"]));
    assert!(out.starts_with("weir.toml:9:7: cannot read `a.key`: "), "{out}");
}

/// The link is answered with 404, which otherwise only a visitor would notice.
#[test]
fn a_symlink_that_leaves_the_root_is_told() {
    let folder = Folder::new("check-symlinks");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    std::fs::create_dir(folder.0.join("media")).unwrap();
    std::os::unix::fs::symlink("../media", folder.0.join("www/films")).unwrap();
    let text = "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = 'www'\n";
    folder.write("weir.toml", text);
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    let media = folder.0.join("media").canonicalize().unwrap();
    let told = format!("www/films`: it is a symlink to `{}`, outside the root", media.display());
    assert!(status == Some(0) && out.contains(&told) && out.contains("site.follow_symlinks_into"), "{out}{err}");
    folder.write("weir.toml", &format!("{text}follow_symlinks_into = ['media']\n"));
    let (status, out, err) = said(&weir(&folder.0, &["check"]));
    assert!(status == Some(0) && !out.contains("symlink"), "{out}{err}");
    folder.write("weir.toml", &format!("{text}follow_symlinks_into = ['none']\n"));
    let (status, out, _) = said(&weir(&folder.0, &["check"]));
    assert!(
        status == Some(1) && out.starts_with("weir.toml:5:24: cannot serve `none`: No such file or directory"),
        "{out}"
    );
}

#[test]
fn a_request_is_explained_by_its_answer() {
    let folder = Folder::new("check-answer");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/index.html", "hello");
    let cache = "[[site.cache]]\npath = '/*'\ncontrol = 'max-age=60'\n";
    let proxy = "[[site.proxy]]\npath = '/api/*'\nto = ['127.0.0.1:1']\n";
    folder.write(
        "weir.toml",
        &format!("[server]\nuser = 'no-such-user'\n[[site]]\nhosts = ['a.test']\nroot = 'www'\n{cache}{proxy}"),
    );
    let explained = |url: &str, more: &[&str]| {
        let (status, out, err) = said(&weir(&folder.0, &[&["check", "--explain", url], more].concat()));
        assert_eq!((status, &*err), (Some(0), ""), "{out}");
        out
    };
    let out = explained("https://a.test/", &[]);
    for line in [
        "note: no listener speaks TLS: expected tls = true in one for https://",
        "answer: 200 OK",
        "file: www/index.html",
        "field: Content-Length: 5",
        "field: Cache-Control: max-age=60",
    ] {
        assert!(out.lines().any(|of| of == line), "{line}: {out}");
    }
    assert!(!out.contains("site.root") && !out.contains("Alt-Svc"), "{out}");
    assert!(explained("http://a.test/", &["--all"]).contains("\nsite.root = www (weir.toml:5)\n"));
    assert!(explained("http://a.test/absent", &[]).contains("\nanswer: 404 Not Found\n"));
    assert!(explained("http://b.test/", &[]).contains("\nanswer: 421 Misdirected Request\n"));
    for (url, more) in [("http://a.test/api/x", &[][..]), ("http://a.test/", &["--syntax-only"])] {
        assert!(!explained(url, more).contains("answer:"), "{url}");
    }
    std::fs::remove_dir_all(folder.0.join("www")).unwrap();
    let out = explained("http://a.test/", &[]);
    assert!(out.contains("\nanswer: none: cannot serve `www`: No such file or directory;"), "{out}");
}

/// The size of a browser's response, and of a given client's.
#[test]
fn an_explanation_has_the_coding_and_the_size() {
    let folder = Folder::new("check-coding");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/index.html", &"A page that repeats itself. ".repeat(200));
    let explained = |more: &str, args: &[&str]| {
        folder.write("weir.toml", &format!("[[site]]\nhosts = ['a.test']\nroot = 'www'\n{more}\n"));
        said(&weir(&folder.0, &[&["check", "--explain", "http://a.test/"], args].concat())).1
    };
    let out = explained("", &[]);
    let coding = out.lines().find_map(|line| line.strip_prefix("coding: br, ")).unwrap_or_else(|| panic!("{out}"));
    let bytes: u64 = coding.split(' ').next().unwrap().parse().unwrap();
    assert!(bytes < 1_000 && coding.ends_with(" bytes, for a client that accepts br, zstd, gzip"), "{out}");
    assert!(out.contains("\nfield: Content-Length: 5600\n"), "the answer is to a client that accepts none: {out}");
    assert!(explained("codings = ['gzip']", &[]).contains("\ncoding: gzip, "));
    assert!(!explained("compression = false", &[]).contains("coding"));
    let out = explained("", &["--header", "Accept-Encoding: zstd"]);
    assert!(out.contains("\nfield: Content-Encoding: zstd\n") && !out.contains("coding: br"), "{out}");
}

/// A page of a folder, for a browser that has the folder's dictionary, and for one that has the page.
#[test]
fn an_explanation_has_the_size_with_a_dictionary() {
    let folder = Folder::new("check-dictionary");
    std::fs::create_dir_all(folder.0.join("www/docs")).unwrap();
    let common: String = (0..400_u32).map(|at| format!("<li>{}</li>\n", at.wrapping_mul(2_654_435_761))).collect();
    let own: String = (0..40_u32).map(|at| format!("<p>{}</p>\n", at.wrapping_mul(40_503_001) ^ 0xabcd)).collect();
    folder.write("www/docs/index.html", &common);
    folder.write("www/docs/a.html", &format!("{common}{own}"));
    folder.write("www/docs/a.js", &common);
    folder.write("www/docs/a.jpg", &"jpeg".repeat(100));
    folder.write("www/docs/a.jpg.webp", &format!("RIFF\u{5c}\0\0\0WEBPVP8 {}", "1".repeat(84)));
    folder
        .write("weir.toml", "[[listener]]\naddress = ':443'\ntls = true\n[[site]]\nhosts = ['a.test']\nroot = 'www'\ncert = 'c'\nkey = 'k'\n");
    let explained = |url: &str, args: &[&str]| said(&weir(&folder.0, &[&["check", "--explain", url], args].concat())).1;
    let bytes_of = |out: &str, end: &str| -> Option<u64> {
        let line = out.lines().find(|line| line.starts_with("dictionary: dcb, ") && line.contains(end))?;
        line.split(' ').nth(2)?.parse().ok()
    };
    let out = explained("https://a.test/docs/a.html?q", &[]);
    let with_folder = bytes_of(&out, "for a browser that has /docs/").unwrap_or_else(|| panic!("{out}"));
    let with_own = bytes_of(&out, "for a browser that has this file").unwrap_or_else(|| panic!("{out}"));
    assert!(with_own < 150 && with_own < with_folder && with_folder < 600, "{out}");
    let out = explained("https://a.test/docs/", &[]);
    assert!(bytes_of(&out, "this file").is_some() && bytes_of(&out, "/docs/").is_none(), "{out}");
    let out = explained("https://a.test/docs/a.js", &[]);
    assert!(bytes_of(&out, "this file").is_some() && bytes_of(&out, "/docs/").is_none(), "a page is for pages: {out}");
    for (url, args) in [
        ("http://a.test/docs/a.html", &[][..]),
        ("https://a.test/docs/a.html", &["--header", "Accept-Encoding: gzip"]),
        ("https://a.test/docs/absent.html", &[]),
    ] {
        let out = explained(url, args);
        assert!(!out.contains("dictionary: "), "{url}: {out}");
    }
    let out = explained("http://a.test/docs/a.jpg", &[]);
    assert!(
        out.contains("\npicture: image/webp, 100 bytes, for a client that names image/avif, image/webp\n"),
        "{out}"
    );
}

/// No upstream is queried, so the answer comes only from the configuration.
#[test]
fn an_explanation_says_whether_pages_of_a_program_are_dictionaries() {
    let folder = Folder::new("check-upstream-dictionary");
    let line =
        "dictionary: its pages, over https, for requests without Cookie, Authorization and query (weir.toml:4)\n";
    for (keys, is_said) in [
        ("upstream_dictionaries = true", true),
        ("", false),
        ("upstream_dictionaries = true\ncodings = ['gzip']", false),
        ("upstream_dictionaries = true\ndictionaries = false", false),
        ("upstream_dictionaries = true\ncompression = false", false),
    ] {
        let listener = "[[listener]]\naddress = ':443'\ntls = true\n";
        let site = format!("[[site]]\nhosts = ['a.test']\ncert = 'c'\nkey = 'k'\n{keys}\n");
        folder.write("weir.toml", &format!("{listener}{site}[[site.proxy]]\nto = ['http://127.0.0.1:9']\n"));
        let out = said(&weir(&folder.0, &["check", "--explain", "https://a.test/a"])).1;
        assert_eq!(out.contains(line), is_said, "{keys}: {out}");
        assert!(is_said || !out.contains("dictionary:"), "{keys}: {out}");
    }
}

/// The fields belong to a server with TLS, although the queried server has none.
#[test]
fn an_explanation_has_the_fields_of_a_response_over_tls() {
    let folder = Folder::new("check-secure");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let listeners = "[[listener]]\naddress = '[::]:443'\ntls = true\n[[listener]]\naddress = '[::]:8443'\ntls = true\nhttp3 = false\n[[listener]]\naddress = '[::]:80'\n";
    let site = "[[site]]\nhosts = ['a.test']\nroot = 'www'\ncert = 'c'\nkey = 'k'\nhsts = 'max-age=60'\n";
    folder.write("weir.toml", &format!("{listeners}{site}"));
    let explained = |url: &str| said(&weir(&folder.0, &["check", "--explain", url])).1;
    let out = explained("https://a.test/");
    let fields = "\nfield: Strict-Transport-Security: max-age=60\nfield: Alt-Svc: h3=\":443\"; ma=86400\n";
    assert!(out.contains("\nanswer: 403 Forbidden\n") && out.contains(fields), "{out}");
    let out = explained("https://a.test:8443/");
    assert!(out.contains("Strict-Transport-Security") && !out.contains("Alt-Svc"), "no HTTP/3 is spoken there: {out}");
    let out = explained("http://a.test/");
    assert!(!out.contains("Strict-Transport-Security") && !out.contains("Alt-Svc"), "nor without TLS: {out}");
}

/// Runs only as root: otherwise the user cannot be another.
#[test]
fn folders_are_opened_as_the_user() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none(), "only root becomes another user");
        println!("SKIPPED: only root becomes another user");
        return;
    }
    let folder = Folder::new("check-user");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write(
        "weir.toml",
        "[server]\nuser = 'nobody'\n[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = 'www'\n",
    );
    let allow = |mode| std::fs::set_permissions(folder.0.join("www"), PermissionsExt::from_mode(mode)).unwrap();
    allow(0o700);
    let (status, out, _) = said(&weir(&folder.0, &["check"]));
    let expected = "weir.toml:6:8: cannot serve `www`: Permission denied; expected a readable folder\n";
    assert_eq!((status, &*out), (Some(1), expected));
    let log = "access_log = 'www/a.log'\n";
    let of_file = std::fs::read_to_string(folder.0.join("weir.toml")).unwrap();
    folder.write("logged.toml", &format!("{of_file}{log}"));
    let (status, _, err) = said(&weir(&folder.0, &["run", "logged.toml"]));
    let expected = "weir: as user nobody: logged.toml:7:14: cannot open access log `www/a.log`: Permission denied";
    assert!(status == Some(1) && err.starts_with(expected), "{err}");
    allow(0o711);
    assert_eq!(weir(&folder.0, &["check"]).status.code(), Some(0));
}

/// Users whose passwords can be guessed quickly, and a missing file of users, keep the server from starting, and `weir
/// check` reports that.
#[test]
fn a_file_of_users_is_read_as_at_a_start() {
    let folder = Folder::new("check-users");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    let text = "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = 'www'\n[[site.access]]\nusers = 'users'\n";
    folder.write("weir.toml", text);
    let checked = || said(&weir(&folder.0, &["check"]));
    let (status, out, _) = checked();
    assert!(status == Some(1) && out.starts_with("weir.toml:6:9: cannot read users `users`: No such file"), "{out}");
    folder.write("users", "# all\nada:$apr1$aaaaaaaa$bbbbbbbbbbbbbbbbbbbbbb\n");
    let (status, out, _) = checked();
    let expected = "weir.toml:6:9: users `users`: line 2: user `ada` has an MD5 hash (apr1): expected bcrypt or Argon2";
    assert!(status == Some(1) && out.starts_with(expected) && !out.contains("bbbbb"), "{out}");
    folder.write("users", &format!("ada:{}\n", bcrypt::hash("right", 4).unwrap()));
    assert_eq!(checked().0, Some(0), "{}", checked().1);
    let (_, out, _) = said(&weir(&folder.0, &["check", "--explain", "http://a.test/none"]));
    assert!(out.contains("\nanswer: 401 without a login; with one 404 Not Found\n"), "{out}");
    folder.write("weir.toml", &text.replace("127.0.0.1:0", "[::]:0"));
    let (status, out, _) = checked();
    assert!(status == Some(0) && out.contains("site.access.users at a listener without TLS ([::]:0)"), "{out}");
}

const RULES: &str = "[[site]]\nroot = 'www'\n[[site.rewrite]]\nfrom = '/*.html'\nto = '/*.txt'\n\
        [[site.access]]\npath = '/app/*'\nauth_url = 'http://127.0.0.1:1/auth'\n\
        [[site.access]]\nallow = ['192.0.2.0/24']\ndeny = ['192.0.2.7']\n\
        [[site.proxy]]\npath = '/app/*'\nstrip_prefix = '/app'\nmax_body = '1KB'\nto = ['127.0.0.1:1']\n\
        [[site.request_header]]\nname = 'X-Real-IP'\nvalue = '{client}'\n";

/// Each rule that decides, with its line, and the response to the resulting path.
#[test]
fn rewrites_and_access_are_explained() {
    let folder = Folder::new("check-access");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/page.txt", "hello");
    folder.write("weir.toml", RULES);
    let explained = |url: &str, more: &[&str]| said(&weir(&folder.0, &[&["check", "--explain", url], more].concat())).1;
    for (url, client, lines) in [
        (
            "http://a/page.html",
            "192.0.2.1",
            &[
                "rewrite: to /page.txt (weir.toml:3)",
                "access: client 192.0.2.1 is let in, of 192.0.2.0/24 (weir.toml:9)",
                "answer: 200 OK",
                "file: www/page.txt",
                "field: Cache-Control: private",
            ][..],
        ),
        ("http://a/page.txt", "192.0.2.7", &["access: 403 for client 192.0.2.7, of 192.0.2.7/32 (weir.toml:9)"]),
        ("http://a/page.txt", "::1", &["access: 403 for client ::1, of no network of the table (weir.toml:9)"]),
        (
            "http://a/app/x",
            "::1",
            &[
                "access: as http://127.0.0.1:1/auth answers (weir.toml:6)",
                "proxy: without /app at the beginning of the path (weir.toml:12)",
                "proxy: 413 for a body over 1000 bytes (weir.toml:12)",
                "request header: X-Real-IP: {client} (weir.toml:17)",
            ],
        ),
        ("http://a//page.html", "192.0.2.1", &["redirect: 308 to /page.html, without empty segments (weir.toml:1)"]),
    ] {
        let out = explained(url, &["--client", client]);
        for line in lines {
            assert!(out.lines().any(|of| of == *line), "{line}: {out}");
        }
    }
    let refused = explained("http://a/page.txt", &["--client", "192.0.2.7"]);
    assert!(!refused.contains("answer:"), "{refused}");
}

#[test]
fn a_media_type_is_explained_with_its_line() {
    let folder = Folder::new("check-types");
    std::fs::create_dir(folder.0.join("www")).unwrap();
    folder.write("www/page.TXT", "hello");
    let text = "[[site]]\nroot = 'www'\ncharset = 'koi8-r'\n[[site.type]]\nextensions = ['md', 'txt']\nmedia_type = 'text/x-a'\n";
    folder.write("weir.toml", text);
    let (_, out, _) = said(&weir(&folder.0, &["check", "--all", "--explain", "http://a/page.TXT"]));
    for line in
        ["type: text/x-a; charset=koi8-r, of files in .TXT (weir.toml:5)", "site.charset = koi8-r (weir.toml:3)"]
    {
        assert!(out.lines().any(|of| of == line), "{line}: {out}");
    }
}

/// Shaping that this machine does not have is reported together with all other mistakes.
#[test]
fn a_shaping_that_is_not_there_has_its_place() {
    let folder = Folder::new("check-shaping");
    let text = "[uplink]\nshaping = 'bands'\n[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = 'absent'\n";
    folder.write("weir.toml", text);
    let (status, out, _) = said(&weir(&folder.0, &["check"]));
    let lines: Vec<&str> = out.lines().collect();
    assert!(status == Some(1) && lines.len() == 2, "{out}");
    assert!(lines[0].starts_with("weir.toml:2:11: uplink.shaping: lo has no bands; run `weir uplink up lo"), "{out}");
    assert!(lines[1].starts_with("weir.toml:6:8: cannot serve `absent`"), "{out}");
}
