//! Starting: the server is ready immediately without configuration, or prints one line that says what is wrong, where,
//! and what would be right. Exit status 1 is for failures, 2 for wrong usage.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::common::{Server, Site, run_to_end, run_to_end_under, wait_until, weir_under};

#[test]
fn ready_means_ready() {
    let site = Site::with(&[("a", b"hello")]);
    for args in [
        &[][..],
        &["--workers", "1"],
        &["--workers", "7"],
        &["--policy", "las", "--starvation-share", "5%"],
        &["--uplink", "off"],
    ] {
        let server = Server::start(&site, args);
        assert_eq!(server.connect().get("/a").text(), "hello");
        let said = server.stdout();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(&format!("serving {} at", site.served().display())), "{said:?}");
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
    }
}

/// Runs in a network namespace, in which the port is free.
#[test]
fn without_an_address_it_serves_this_machine_alone_and_says_so() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let probe = run_to_end_under(&["unshare", "-rn"], &["--version"]);
    if !probe.status.success() {
        assert!(std::env::var_os("WEIR_REQUIRE_PRIVILEGED").is_none(), "{probe:?}");
        return println!("SKIPPED: {}", String::from_utf8_lossy(&probe.stderr));
    }
    for (listen, is_said) in [(&[][..], true), (&["--listen", "127.0.0.1:8081"], false)] {
        let mut command = weir_under(&["unshare", "-rn"]);
        command.args(["serve", &dir]).args(listen);
        let server = Server::spawn(command);
        let said = &server.stdout()[0];
        assert_eq!(server.address.to_string(), listen.last().copied().unwrap_or("127.0.0.1:8080"));
        assert_eq!(said.contains("; for this machine only, address 0.0.0.0:8080 serves others"), is_said, "{said}");
    }
}

/// The kernel never grants the second address, and earlier another program was blamed for that.
#[test]
fn an_address_that_is_given_twice_is_named() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    for (flags, expected) in [
        (
            ["--listen", "127.0.0.1:8080", "--listen", "127.0.0.1:8080"],
            "--listen 127.0.0.1:8080: --listen 127.0.0.1:8080 ",
        ),
        (["--listen", "0.0.0.0:8080", "--listen", "127.0.0.1:8080"], "--listen 127.0.0.1:8080: --listen 0.0.0.0:8080 "),
        (["--listen", "[::1]:8080", "--listen", "[::]:8080"], "--listen [::]:8080: --listen [::1]:8080 "),
    ] {
        let output = run_to_end(&[&["serve", &dir][..], &flags].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{flags:?}: {said}");
    }
    let output = run_to_end(&["serve", &dir, "--listen", "0.0.0.0:8080", "--admin", "127.0.0.1:8080"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && said.contains("127.0.0.1:8080 is of the listener 0.0.0.0:8080"),
        "{said}"
    );
    let port = TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
    let [v4, v6] = ["0.0.0.0", "[::]"].map(|address| format!("{address}:{port}"));
    let mut command = weir_under(&[]);
    command.args(["serve", &dir, "--listen", &v6, "--listen", &v4]);
    let server = Server::spawn(command);
    assert!(server.stdout()[0].contains(&format!("http://{v4}/")), "{:?}", server.stdout());
}

#[test]
fn a_folder_that_is_refused_is_told_of() {
    let (bare, indexed) = (Site::with(&[("a", b"")]), Site::with(&[("index.html", b"")]));
    for (site, args, is_said) in [(&bare, &[][..], true), (&bare, &["--autoindex"], false), (&indexed, &[], false)] {
        let said = &Server::start(site, args).stdout()[0];
        let remark = "; the folder has no index.html, so / is 403: --autoindex (site.autoindex) lists its names";
        assert_eq!(said.contains(remark), is_said, "{said}");
    }
}

/// A single line names the shaping and the reason for it.
#[test]
fn it_says_which_shaping_and_why() {
    let site = Site::new();
    for (args, said) in [
        (
            &["--uplink", "10mbit"][..],
            "(shaping paced at 98 % of 10mbit, policy srpt: the rate is configured (--uplink, uplink.rate); at most ",
        ),
        (&["--uplink", "10mbit", "--policy", "las"], "(shaping paced at 98 % of 10mbit, policy las: "),
        (
            &["--shaping", "off"],
            "(order OFF, as requested; --uplink auto or a rate (uplink.rate) turns it on; at most ",
        ),
        (&["--uplink", "off"], "(order OFF, as requested; --uplink auto or a rate (uplink.rate) turns it on; at most "),
        (
            &["--shaping", "paced"],
            "(shaping paced, policy srpt: the uplink's rate is searched (--uplink auto); at most ",
        ),
        (&[], "(shaping paced, policy srpt: the uplink's rate is searched (--uplink auto); at most "),
        (
            &["--uplink", "2mbit..20mbit"],
            "(shaping paced at 20mbit, policy srpt: the uplink's rate is searched from 2mbit to 20mbit (--uplink); ",
        ),
    ] {
        let server = Server::start(&site, args);
        assert!(server.stdout()[0].contains(said), "{args:?}: {:?}", server.stdout());
    }
}

fn start_with_state(site: &Site, state: &str) -> Server {
    let mut command = weir_under(&[]);
    command.arg("serve").arg(site.served()).args(["--listen", "127.0.0.1:0"]).env("STATE_DIRECTORY", state);
    Server::spawn(command)
}

/// After a restart the search does not begin from nothing.
#[test]
fn a_rate_that_was_kept_is_begun_with() {
    let site = Site::with(&[("a", b"hello")]);
    let folder = site.outside("state");
    std::fs::create_dir(&folder).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (line, said) in [
        (format!("lo 127.0.0.1 10000000 {now}\n"), "(--uplink auto), from 10.0 Mbit/s found "),
        (format!("lo 127.0.0.1 10000000 {}\n", now - 25 * 3600), "(--uplink auto); "),
        ("\0 nonsense\n".to_string(), "(--uplink auto); "),
    ] {
        std::fs::write(folder.join("uplink"), line).unwrap();
        let server = start_with_state(&site, &folder.display().to_string());
        assert!(server.stdout()[0].contains(said), "{:?}", server.stdout());
        assert!(server.stderr().is_empty(), "{:?}", server.stderr());
        assert_eq!(server.connect().get("/a").text(), "hello");
    }
}

#[test]
fn a_state_folder_that_cannot_be_had_is_one_line() {
    let site = Site::with(&[("a", b"hello")]);
    let server = start_with_state(&site, "/dev/null/weir");
    assert_eq!(server.connect().get("/a").text(), "hello");
    wait_until("it is told", || !server.stderr().is_empty());
    let said = server.stderr();
    assert!(
        said.len() == 1 && said[0].contains("rate cannot be stored in `/dev/null/weir`: Not a directory"),
        "{said:?}"
    );
}

/// Earlier it was reported for each part of the site.
#[test]
fn authorities_that_cannot_be_read_are_told_once() {
    let site = Site::new();
    let (dir, file) = (site.served().display().to_string(), site.outside("weir.toml"));
    let state = site.outside("state").display().to_string();
    let flags = ["--domain", "example.org", "--acme-ca", "missing.pem", "--state", &state];
    let by_flags =
        run_to_end(&[&["serve", &dir, "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"], &flags[..]].concat());
    let text = format!(
        "[server]\nstate = {state:?}\n[acme]\nca = \"missing.pem\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n\
         [[site]]\nhosts = [\"example.org\"]\nroot = {dir:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let by_file = run_to_end(&["run", &file]);
    for (output, place) in [(by_flags, String::new()), (by_file, format!("{file}:4:"))] {
        let said = String::from_utf8(output.stderr).unwrap();
        let told: Vec<&str> = said.lines().filter(|line| line.contains("cannot be verified")).collect();
        assert!(output.status.code() == Some(1) && told.len() == 1 && told[0].contains(&place), "{said}");
    }
}

#[test]
fn lines_have_their_time_unless_the_journal_adds_it() {
    let site = Site::new();
    for is_journal in [false, true] {
        let path = site.outside(&format!("errors-{is_journal}"));
        let file = File::create(&path).unwrap();
        let about = file.metadata().unwrap();
        // As systemd sets it; an earlier process of a service may have had another stream.
        let inode = if is_journal { about.ino() } else { about.ino() + 1 };
        let mut command = weir_under(&[]);
        command.args(["serve", &site.served().display().to_string(), "--listen", "127.0.0.1:0", "--tls-self-signed"]);
        command.env("JOURNAL_STREAM", format!("{}:{inode}", about.dev())).stdout(Stdio::null()).stderr(file);
        let mut child = command.spawn().unwrap();
        let said = || std::fs::read_to_string(&path).unwrap();
        wait_until("a line", || said().contains("the certificate is self-signed"));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in said().lines() {
            let time = line.find("weir: ").map(|at| &line[..at]);
            let is_time = time.is_some_and(|time| time.len() == 25 && time.starts_with("20") && time.ends_with("Z "));
            assert!(if is_journal { time == Some("") } else { is_time }, "{line}");
        }
    }
}

#[test]
fn every_policy_serves() {
    let site = Site::of_sizes(&[100, 100_000]);
    for policy in [
        "fair",
        "fcfs",
        "srpt",
        "psjf",
        "las",
        "srpt-bands",
        "srpt-bands:1000,2KB,50000",
        "quick-fix",
        "fcf",
        "fcf:1.5",
        "srrt",
        "srrt:5",
        "srrt:50ms,1s",
        "fsp",
        "rank:step(size, 9KB) * max(left, window) / throughput + arrived + class * 1s",
        "rank:floor(log2(gittins)) + noisy(sent, 1) / (sent - size)",
    ] {
        for drain in [&["--shaping", "off"][..], &["--uplink", "100mbit"]] {
            let server = Server::start(&site, &[&["--policy", policy], drain].concat());
            let mut client = server.connect();
            assert_eq!(client.get("/size-100000").body.len(), 100_000, "{policy}");
            assert_eq!(client.get("/size-100").body.len(), 100, "{policy}");
        }
    }
}

/// The arguments after `serve`, the status, and the parts of the message.
#[test]
fn mistakes_are_told() {
    let site = Site::with(&[("file", b"")]);
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    let at = |name: &str| site.outside(name).display().to_string();
    let (dir, missing, file) = (at("site"), at("missing"), at("site/file"));
    let no_log = at("missing/log");
    let free = "127.0.0.1:0";
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[&missing, "--listen", free], 1, &[&missing, "No such file", "folder"]),
        (&[&file, "--listen", free], 1, &[&file, "Not a directory", "folder"]),
        (&[&dir, "--listen", &taken], 1, &[&taken, "another program", "--listen"]),
        (&[&dir, "--listen", "192.0.2.1:0"], 1, &["192.0.2.1", "address of this host", "--listen"]),
        (&[&dir, "--listen", free, "--access-log", &no_log], 1, &["access log", &no_log, "No such file"]),
        (&[&dir, "--listen", free, "--access-log", &dir], 1, &["access log", &dir, "Is a directory"]),
        (&[&dir, "--listen", "nonsense"], 2, &["--listen", "nonsense", "127.0.0.1:8080"]),
        (&[&dir, "--listen", "host:8080"], 2, &["--listen", "host:8080", "127.0.0.1:8080"]),
        (&[&dir, "--workers", "0"], 2, &["--workers", "1..=256"]),
        (&[&dir, "--workers", "257"], 2, &["--workers", "1..=256"]),
        (&[&dir, "--connections", "0"], 2, &["--connections"]),
        (&[&dir, "--connections", "2000000"], 2, &["--connections", "1000000"]),
        (&[&dir, "--client-prefix", "33,64"], 2, &["--client-prefix", "33,64", "IPv4 (1 to 32)", "32,56"]),
        (&[&dir, "--client-requests", "many"], 2, &["--client-requests", "many"]),
        (&[&dir, "--client-connections", "1000001"], 2, &["--client-connections", "0..=1000000"]),
        (&[&dir, "--starvation-share", "10"], 2, &["--starvation-share", "'10'", "from 0% to 100%"]),
        (&[&dir, "--idle-timeout", "5"], 2, &["--idle-timeout", "`5` is not a duration", "10s"]),
        (&[&dir, "--min-send-rate", "1kbit"], 2, &["--min-send-rate", "64KiB"]),
        (&[&dir, "--log-format", "xml"], 2, &["--log-format", "combined", "json"]),
        (&[&dir, &dir], 2, &["unexpected argument"]),
        (&[&dir, "--uplnk", "10mbit"], 2, &["--uplnk", "--uplink", "see `weir serve --help`"]),
    ];
    let wrong: Vec<String> =
        cases.iter().filter_map(|(args, status, mentions)| told(args, *status, mentions)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Tests each flag and command of the table.
#[test]
fn an_old_flag_is_refused_with_its_new_name() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let mut refused = 0;
    for renamed in config::RENAMED.iter().filter(|renamed| renamed.old.contains(['-', ' '])) {
        let words: Vec<&str> = match renamed.old.strip_prefix("weir ") {
            Some(command) => command.split(' ').collect(),
            None => vec!["serve", &dir, renamed.old, "1"],
        };
        let output = run_to_end(&words);
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = format!(" `{}` is now `{}`", renamed.old, renamed.new);
        assert!(output.status.code() == Some(2) && said.contains(&expected) && said.lines().count() == 1, "{said}");
        assert!(said.contains(format!("{} {}", renamed.new, renamed.value).trim_end()), "{said}");
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn mistakes_in_the_uplink_are_told() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &[&dir, "--uplink", "10mb/s"],
            2,
            &["--uplink", "`10mb/s`: expected auto, off, a rate or two rates", "10mbit"],
        ),
        (&[&dir, "--uplink", "20mbit..2mbit"], 2, &["--uplink", "20mbit", "2mbit", "the lower rate first"]),
        (&[&dir, "--uplink", "2mbit..2mbit"], 2, &["--uplink", "`2mbit..2mbit`", "the lower rate first"]),
        (&[&dir, "--no-http3"], 2, &["--no-http3: no effect without HTTPS"]),
        (&[&dir, "--uplink", "off", "--shaping", "paced"], 2, &["--shaping paced", "--uplink off"]),
        (&[&dir, "--uplink", "0mbit"], 2, &["--uplink", "0mbit", "10mbit"]),
    ];
    let wrong: Vec<String> =
        cases.iter().filter_map(|(args, status, mentions)| told(args, *status, mentions)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mistakes_in_shaping_are_told() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let free = "127.0.0.1:0";
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[&dir, "--shaping", "bends"], 2, &["--shaping", "bends", "bands", "paced"]),
        (
            &[&dir, "--listen", free, "--shaping", "bands"],
            1,
            &["--shaping bands: lo", "`weir uplink up lo --rate RATE`"],
        ),
        (&[&dir, "--listen", "192.0.2.1:0", "--shaping", "bands"], 1, &["192.0.2.1", "--listen"]),
        (&[&dir, "--shaping", "ranked"], 2, &["`--shaping ranked` is gone: write bands"]),
        (&[&dir, "--drain", "off"], 2, &["`--drain` is gone: write --shaping"]),
        (&[&dir, "--records", "r.csv"], 2, &["`--records` is gone: the JSON access log has them", "--log-format json"]),
        (&[&dir, "--promotion", "plain"], 2, &["`--promotion` is gone: a response moves to a better band when"]),
    ];
    let wrong: Vec<String> =
        cases.iter().filter_map(|(args, status, mentions)| told(args, *status, mentions)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mistakes_in_a_policy_are_told() {
    let site = Site::new();
    let dir = site.served().display().to_string();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[&dir, "--policy", "sprt"], 2, &["--policy", "sprt", "srpt", "fcfs"]),
        (&[&dir, "--policy", "srpt-bands:9,8"], 2, &["--policy", "cut points `9,8`", "increase"]),
        (&[&dir, "--policy", "rank:left * rt"], 2, &["--policy", "column 8: unknown name `rt`", "write a number"]),
        (&[&dir, "--policy", "rank:mserpt"], 2, &["`rank:mserpt`", "expected gittins"]),
        (&[&dir, "--policy", "strict/srpt"], 2, &["--policy", "`strict/srpt`", "are gone: write [[class]] tables"]),
        (&[&dir, "--class", "/a/"], 2, &["`--class` is gone: write [[class]] tables"]),
    ];
    let wrong: Vec<String> =
        cases.iter().filter_map(|(args, status, mentions)| told(args, *status, mentions)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sockets that share a port among workers must not share it with another server.
#[test]
fn a_second_server_on_the_port_is_refused() {
    let site = Site::with(&[("a", b"")]);
    let server = Server::start(&site, &["--workers", "2"]);
    let (dir, taken) = (site.served().display().to_string(), server.address.to_string());
    assert_eq!(told(&[&dir, "--workers", "2", "--listen", &taken], 1, &[&taken, "another program"]), None);
}

/// Returns the difference between the output and the expectation.
fn told(args: &[&str], status: i32, mentions: &[&str]) -> Option<String> {
    let output = run_to_end(&[&["serve"], args].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{args:?}: {said}");
    let lines = said.lines().count();
    assert!(lines == 1 && said.starts_with("weir: "), "not one line: {said}");
    let missing: Vec<_> = mentions.iter().filter(|mention| !said.contains(**mention)).collect();
    (!missing.is_empty()).then(|| format!("{args:?} does not mention {missing:?}: {said}"))
}

#[test]
fn without_a_command_it_helps() {
    for (args, status) in [(&[][..], 2), (&["--help"], 0), (&["serve", "--help"], 0), (&["--version"], 0)] {
        let output = run_to_end(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
}
