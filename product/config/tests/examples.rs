//! The files of `examples/` are valid, and have the effects that their comments describe.

use std::path::PathBuf;

use config::{Configuration, Question, explain, read_file};

fn example(name: &str) -> Configuration {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    read_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn explained(configuration: &Configuration, url: &str, client: Option<&str>, headers: &[&str]) -> String {
    let headers: Vec<String> = headers.iter().map(ToString::to_string).collect();
    let question = Question::new(url, client.map(|client| client.parse().unwrap()), &headers).unwrap();
    let explanation = explain(configuration, &question);
    format!("{}{}", explanation.of_file("weir.toml"), explanation.settings_of_file("weir.toml"))
}

#[test]
fn every_example_has_a_test_here() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    names.sort();
    assert_eq!(names, ["hoster.toml", "proxy.toml", "several-sites.toml", "small-site.toml"]);
}

#[test]
fn the_recipes_are_right() {
    let recipes = include_str!("../../../docs/recipes.md");
    let files: Vec<&str> =
        recipes.split("```toml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(files.len() >= 5);
    for file in files {
        let read = config::read(file.as_bytes());
        let notes = read.unwrap_or_else(|mistakes| panic!("{mistakes:?} in\n{file}")).notes;
        assert!(notes.is_empty(), "{notes:?} in\n{file}");
    }
}

#[test]
fn the_small_site_uses_only_what_works() {
    let small = example("small-site.toml");
    assert_eq!((small.sites.len(), small.classes.len(), small.notes.len()), (1, 0, 0));
    assert!(small.sites[0].is_default);
}

#[test]
fn several_sites_are_told_apart_by_their_hosts() {
    let several = example("several-sites.toml");
    for (url, line) in [
        ("http://example.org/", "site: example.org, by its host example.org (weir.toml:21)"),
        ("http://A.EXAMPLE.ORG:80/", "site: members, by its host *.example.org (weir.toml:51)"),
        ("http://other.net/", "site: downloads, the default (weir.toml:56)"),
        ("http://www.example.org/a", "redirect: 301 to http://example.org/a (weir.toml:26)"),
        ("http://example.org/2024/a?q", "redirect: 302 to /archive/2024/a (weir.toml:32)"),
        ("http://example.org/assets/a.css", "header: Cache-Control: max-age=31536000, immutable (weir.toml:36)"),
        ("http://example.org/a", "header: X-Content-Type-Options: nosniff (weir.toml:40)"),
        ("http://a.example.org/", "site.access_log = /var/log/weir/members.log (weir.toml:53)"),
        ("http://example.org/", "site.autoindex = false (default)"),
        ("http://example.org/", "uplink.starvation_share = 2% (weir.toml:9)"),
    ] {
        let said = explained(&several, url, None, &[]);
        assert!(said.lines().any(|said| said == line), "{url}\n{said}");
    }
}

#[test]
fn a_program_and_its_files_are_told_apart_by_their_paths() {
    let proxy = example("proxy.toml");
    for (path, line) in [
        ("api/a", Some("proxy: to 127.0.0.1:3000, 127.0.0.1:3001 (weir.toml:9)")),
        ("chat", Some("proxy: to unix:/run/chat.sock (weir.toml:15)")),
        ("a.css", None),
    ] {
        let said = explained(&proxy, &format!("http://example.org/{path}"), None, &[]);
        let found = said.lines().find(|said| said.starts_with("proxy:"));
        assert_eq!(found, line, "{path}");
        assert_eq!(said.contains("the running server learns a size"), line.is_some(), "{path}");
    }
}

#[test]
fn the_hosters_rules_decide_before_its_sites() {
    let hoster = example("hoster.toml");
    let token = "Authorization: Bearer bWlycm9yLWN1c3RvbWVyLTAx";
    for (url, client, headers, line) in [
        ("http://shop.example.net/", None, &[][..], "class: premium, by its site (weir.toml:14)"),
        ("http://shop.example.net/downloads/a", None, &[], "class: standard, by a rule (weir.toml:49)"),
        ("http://shop.example.net/downloads/a", Some("192.0.2.7"), &[], "class: premium, by a rule (weir.toml:35)"),
        ("http://mirror.example.com/", Some("203.0.113.1"), &[], "class: economy, the default (weir.toml:5)"),
        ("http://mirror.example.com/", None, &[token], "class: premium, by a rule (weir.toml:39)"),
        ("http://a.b.blog.example.org/", None, &[], "class: standard, by its site (weir.toml:20)"),
        (
            "http://nobody.example/",
            None,
            &[],
            "site: none; host `nobody.example` belongs to no site, and no site is the default",
        ),
    ] {
        let said = explained(&hoster, url, client, headers);
        assert!(said.lines().any(|said| said == line), "{url}\n{said}");
    }
    assert!(!explained(&hoster, "http://mirror.example.com/", None, &[token]).contains("bWlycm9y"), "a token is shown");
    assert!(hoster.objectives()[0].is_some());
}

#[test]
fn wrong_questions_say_what_is_right() {
    for (url, header, said) in [
        ("example.org/a", None, "URL `example.org/a`: expected http:// or https://"),
        ("http:///a", None, "URL `http:///a`"),
        ("http://a.org/../b", None, "path of the URL `/../b`: "),
        (
            "http://a.org/a/./../b?x",
            None,
            "path of the URL `/a/./../b`: the server redirects it (308) to `/b`; ask about",
        ),
        ("http://a.org/", Some("X"), "header `X`: expected a name, a colon and a value"),
    ] {
        let headers: Vec<String> = header.into_iter().map(String::from).collect();
        let error = Question::new(url, None, &headers).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// The server refuses or redirects such paths.
#[test]
fn a_path_of_several_readings_is_explained() {
    let text = "[[site]]\ndefault = true\n[[site.redirect]]\nfrom = '/old/*'\nto = '/new/*'\n[[site.proxy]]\nto = ['127.0.0.1:1']\n\
        [[site]]\nhosts = ['files']\nroot = 'a'\n[[site.redirect]]\nfrom = '/old/*'\nto = '/new/*'\n";
    let configuration = config::read(text.as_bytes()).unwrap();
    for (url, line) in [
        ("http://a/old/x", "redirect: 302 to /new/x (weir.toml:3)"),
        ("http://a/old//b%2fc%20d:e", "redirect: 302 to /new/b%2fc%20d:e (weir.toml:3)"),
        ("http://a//old/x", "redirect: 308 to /old/x, without empty segments (weir.toml:1)"),
        (
            "http://a/old%2Fx",
            "refused: 400 Bad Request: path that a program may read in several ways, with other rules for each (weir.toml:1)",
        ),
        ("http://a/new/b%5Cc%00", "proxy: to 127.0.0.1:1 (weir.toml:6)"),
        // Files have one reading.
        ("http://files/old;a/b%252Fc", "site: files, by its host files (weir.toml:9)"),
    ] {
        let said = explained(&configuration, url, None, &[]);
        assert!(said.lines().any(|said| said == line), "{url}\n{said}");
    }
    assert!(!explained(&configuration, "http://files/old;a/b", None, &[]).contains("refused"));
}
