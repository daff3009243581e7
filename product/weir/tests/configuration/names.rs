//! `weir check` reports which file a request gets, and by which key.

use super::{Folder, said, weir};

const SITE: &str = "[[listener]]\naddress = '127.0.0.1:0'\n[[site]]\nroot = 'www'\n";

fn folder(name: &str, keys: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::create_dir_all(folder.0.join("www/d")).unwrap();
    for file in ["index.html", "about.html", "index.php", "a.php"] {
        folder.write(&format!("www/{file}"), "x");
    }
    folder.write("weir.toml", &format!("{SITE}{keys}"));
    folder
}

/// The lines of an explanation that begin with one of these words.
fn explained(folder: &Folder, path: &str, more: &[&str]) -> Vec<String> {
    let url = format!("http://a.org{path}");
    let (status, out, err) = said(&weir(&folder.0, &[&["check", "--explain", &url], more].concat()));
    assert_eq!(status, Some(0), "{err}");
    let is_of_file =
        |line: &&str| ["answer:", "file:", "script:", "fallback:"].iter().any(|word| line.starts_with(word));
    out.lines().filter(is_of_file).map(String::from).collect()
}

#[test]
fn a_file_is_named_with_the_key_that_led_to_it() {
    let folder = folder("explain-names", "clean_urls = true\nfallback = '/index.html'\n");
    let navigation = ["--header", "Accept: text/html"];
    assert_eq!(explained(&folder, "/", &[]), ["answer: 200 OK", "file: www/index.html"]);
    let about = "file: www/about.html, by its clean URL (weir.toml:5)";
    assert_eq!(explained(&folder, "/about", &[]), ["answer: 200 OK", about]);
    assert_eq!(explained(&folder, "/about.html", &[]), ["answer: 308 Permanent Redirect"]);
    let fallback =
        "file: www//index.html, the fallback of a navigation that leads nowhere (weir.toml:6)".replace("//", "/");
    assert_eq!(explained(&folder, "/route", &navigation), ["answer: 200 OK", &fallback]);
    let refused = explained(&folder, "/route.js", &[]);
    assert!(
        refused[0] == "answer: 404 Not Found" && refused[1].starts_with("fallback: not for this request"),
        "{refused:?}"
    );
    folder.write("weir.toml", &format!("{SITE}fallback = '/none.html'\n"));
    let (status, out, _) = said(&weir(&folder.0, &["check"]));
    assert!(status == Some(0) && out.contains("site.fallback `www/none.html` of default: expected a file"), "{out}");
}

#[test]
fn a_script_is_named_and_not_run() {
    let keys = "index = ['index.php', 'index.html']\nfastcgi = '127.0.0.1:9'\nfallback = '/index.php'\n";
    let folder = folder("explain-scripts", keys);
    for (path, line) in [
        ("/", "script: www/index.php"),
        ("/a.php?x=1", "script: www/a.php"),
        ("/a.php/b", "script: www/a.php"),
        ("/about.html", "file: www/about.html"),
        ("/no/such", "script: www/index.php, for what leads nowhere (weir.toml:7)"),
    ] {
        assert_eq!(explained(&folder, path, &[]), [line], "{path}");
    }
}
