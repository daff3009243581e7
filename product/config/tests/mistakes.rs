//! Every mistake, as an operator sees it.

use config::{FILE_BYTES_MAX, FileError, RENAMED, Renamed, read, read_file};

fn mistakes(text: &str) -> Vec<String> {
    let mistakes = read(text.as_bytes()).map_or_else(|mistakes| mistakes, |_| Vec::new());
    mistakes.iter().map(|mistake| mistake.line("f")).collect()
}

/// The only mistake in this text together with a valid site.
fn one(text: &str) -> String {
    let all = mistakes(&format!("{text}\n[[site]]\nroot = \"r\"\ndefault = true\n"));
    assert_eq!(all.len(), 1, "{text}: {all:#?}");
    all[0].clone()
}

fn notes(text: &str) -> Vec<String> {
    let checked = read(text.as_bytes()).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
    checked.notes.iter().map(|note| note.line("f")).collect()
}

#[test]
fn all_mistakes_are_found_at_once() {
    let text = "\
uplnk = 1
[uplink]
rate = 10
policy = \"sprt\"
starvation_share = 10
[server]
workers = 0
max_accepted_connections = 0
[[listener]]
[[site]]
root = true
hosts = [\"a_b..c\"]
[[class]]
name = \"a\"
weight = 0
";
    assert_eq!(
        mistakes(text),
        [
            "f:1:1: unknown key `uplnk`: did you mean `uplink`?",
            "f:3:8: uplink.rate `10`: expected a string in quotes, auto, off, a rate or two rates, for example 10mbit or 2mbit..20mbit",
            "f:4:10: uplink.policy `sprt`: expected fair, fcfs, srpt, psjf, las, srpt-bands, quick-fix, fcf, srrt or fsp; did you mean `srpt`?",
            "f:5:20: uplink.starvation_share `10`: expected a string in quotes, a percentage from 0% to 100%, for example 0.5%",
            "f:7:11: server.workers `0`: expected a whole number from 1 to 256",
            "f:7:11: server.workers with server.max_accepted_connections: expected only one of them",
            "f:8:28: server.max_accepted_connections `0`: expected a whole number from 1 to 1000000",
            "f:9:1: listener.address missing: expected an address and a port, for example 127.0.0.1:8080, [::]:80, or \
                :80 for all addresses, for example \"[::]:80\"",
            "f:11:8: site.root `true`: expected a string in quotes, a path",
            "f:12:10: site.hosts `a_b..c`: expected a host name in ASCII without a port, for example example.org or *.example.org",
            "f:15:10: class.weight `0`: expected a whole number from 1 to 1000",
        ]
    );
}

#[test]
fn settings() {
    for (text, said) in [
        ("[uplink]\nrate = \"10\"", "f:2:8: uplink.rate `10`: expected auto, off, a rate or two rates"),
        ("[uplink]\nrate = \"2mbit..1mbit\"", "f:2:8: uplink.rate `2mbit..1mbit`: expected the lower rate first"),
        (
            "[uplink]\nrate = \"off\"\nshaping = \"paced\"",
            "f:2:8: uplink.rate `off` with shaping = \"paced\": expected",
        ),
        (
            "[uplink]\npolicy = \"strict/srpt\"",
            "f:2:10: uplink.policy: policy `strict/srpt`: classes above a policy are gone: write [[class]] tables",
        ),
        (
            "[uplink]\nshaping = \"pacd\"",
            "f:2:11: uplink.shaping `pacd`: expected auto, paced, bands or off; did you mean `paced`?",
        ),
        ("[timeouts]\nidle = 75", "f:2:8: timeouts.idle `75`: expected a string in quotes, a time of 1ms or more"),
        ("[limits]\nhead_bytes = \"1MiB\"", "f:2:14: limits.head_bytes `1048576`: expected 4KiB to 128KiB"),
        ("[limits]\nhead_bytes = 4095", "f:2:14: limits.head_bytes `4095`: expected 4KiB to 128KiB"),
        ("[limits]\nhead_fields = 1001", "f:2:15: limits.head_fields `1001`: expected a whole number from 16 to 1000"),
        ("[limits]\nmin_request_rate = -1", "f:2:20: limits.min_request_rate `-1`: expected bytes"),
        (
            "[server]\nmax_accepted_connections = 3\nconnections = 4",
            "f:3:15: server.connections with server.max_accepted_connections: expected only one of them",
        ),
        ("[server]\ngroup = \"web\"", "f:2:9: server.group without server.user: expected both, or none"),
        ("[server]\nbacklog = 1.5", "f:2:11: server.backlog `1.5`: expected a whole number from 1 to 65535"),
        ("listener = 3", "f:1:12: listener `3`: expected tables in double brackets, [[listener]]"),
        (
            "[listener]\naddress = \"[::]:80\"",
            "f:1:1: listener `[listener]`: expected tables in double brackets, [[listener]]",
        ),
        ("[[uplink]]\nrate = \"1mbit\"", "uplink"),
        ("[[listener]]\naddress = \"host:80\"", "f:2:11: listener.address `host:80`: expected an address and a port"),
        (
            "[[listener]]\naddress = \"1.1.1.1:80\"\n[[listener]]\naddress = \"0.0.0.0:80\"",
            "f:4:11: listener.address `0.0.0.0:80`: expected another address, 1.1.1.1:80 is line 2",
        ),
    ] {
        let mistake = one(text);
        assert!(mistake.contains(said), "{mistake}");
    }
}

#[test]
fn a_value_that_is_gone_names_another() {
    let said = one("[uplink]\nshaping = \"ranked\"");
    assert!(said.starts_with("f:2:11: `uplink.shaping ranked` is gone: write bands, which"), "{said}");
}

/// Each row of the table, at its place in a file.
#[test]
fn an_old_key_is_refused_with_its_new_name() {
    for Renamed { old, new, value } in RENAMED.iter().filter(|renamed| !renamed.old.contains(['-', ' '])) {
        let (table, name) = old.rsplit_once('.').unwrap();
        let before = match table {
            "site" => "[[site]]\nroot = 'r'\n",
            "site.proxy" => "[[site]]\nroot = 'r'\n[[site.proxy]]\nto = ['1']\n",
            "class" => "[uplink]\ndefault_class = 'a'\n[[site]]\nroot = 'r'\n[[class]]\nname = 'a'\n",
            _ => &format!("[[site]]\nroot = 'r'\n[{table}]\n"),
        };
        let said = mistakes(&format!("{before}  {name} = 1\n"));
        let (line, new) = (before.lines().count() + 1, new.rsplit('.').next().unwrap());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(&format!("f:{line}:3: key `{old}` is now `{new}`")), "{said:?}");
        assert!(said[0].ends_with(&if value.is_empty() { "`".into() } else { format!("write `{new} = {value}`") }));
    }
}

#[test]
fn a_share_is_a_percentage() {
    for (key, most) in [("starvation_share", "100"), ("other_traffic_share", "90")] {
        for right in ["0%", "0.5%", &format!("{most}%")] {
            let read = read(format!("[uplink]\n{key} = '{right}'\n[[site]]\nroot = 'r'\n").as_bytes());
            assert!(read.is_ok(), "{key} {right}");
        }
        let expected = format!("expected a percentage from 0% to {most}%, for example 0.5%");
        for wrong in ["10", "0.01", "0.05%", "100.1%", "-1%", "1 %"] {
            let said = one(&format!("[uplink]\n{key} = '{wrong}'"));
            assert!(said.contains(&format!("uplink.{key} `{wrong}`: {expected}")), "{said}");
        }
        let said = one(&format!("[uplink]\n{key} = 10"));
        assert!(said.contains(&expected.replace("expected a", "expected a string in quotes, a")), "{said}");
    }
}

#[test]
fn proxies_of_a_site() {
    let cases = [
        ("to=['app']", "f:3:5: site.proxy.to `app`: expected an upstream, for example 127.0.0.1:3000"),
        (
            "to=['h2c://app']",
            "f:3:5: site.proxy.to `h2c://app`: expected h2c://HOST:PORT or h2c:unix:/PATH, for example",
        ),
        (
            "to=['grpc://a:1']",
            "f:3:5: site.proxy.to `grpc://a:1`: expected h2c:// for gRPC, for example h2c://127.0.0.1:50051",
        ),
        (
            "to=['h2c://a:1', 'a:2']",
            "f:3:18: site.proxy.to has `a:2` together with `h2c://a:1`: expected upstreams of one protocol, all with h2c://",
        ),
        ("to=['https://app:1/x']", "f:3:5: site.proxy.to `https://app:1/x`: expected an upstream without a path;"),
        (
            "to=['app:1']\ntls_ca='ca.pem'\ntls_server_name='a'",
            "f:4:8: site.proxy.tls_ca without an upstream over TLS: expected https:// or h2:// before one",
        ),
        ("to=['https://app']\ntls_server_name='a:1'", "f:4:17: site.proxy.tls_server_name `a:1`: expected a host name"),
        ("to=[]", "f:3:4: site.proxy.to `[]`: expected one or more in the brackets"),
        (
            "path='/a'",
            "f:2:1: site.proxy.to missing: expected upstreams, for example [\"127.0.0.1:3000\"], or serve_files = true",
        ),
        (
            "path='/a'\nserve_files=true",
            "f:2:1: site.proxy.serve_files without site.root: expected the folder of the files",
        ),
        ("serve_files=true\nto=['1']", "f:4:4: site.proxy.to with serve_files = true: expected no such key"),
        ("serve_files=true\nhost='a'", "f:4:6: site.proxy.host with serve_files = true: expected no such key"),
        ("to=['1']\nhost='*.a'", "f:4:6: site.proxy.host `*.a`: expected a host name"),
        (
            "to=['1']\n[[site.proxy]]\npath='/a'\nto=['2']",
            "f:4:1: site.proxy is never reached: expected before the table of line 2",
        ),
    ];
    all_say("[[site]]\n[[site.proxy]]\n", "\n", &cases);
}

/// A value of another type has one message.
#[test]
fn a_wrong_flag_is_not_a_missing_upstream_too() {
    let text = "[[site]]\nroot='r'\n[[site.proxy]]\npath='/a/*'\nserve_files='yes'\n";
    assert_eq!(mistakes(text), ["f:5:13: site.proxy.serve_files `yes`: expected true or false"]);
    let not_set = text.replace("'yes'", "false");
    assert!(mistakes(&not_set)[0].starts_with("f:3:1: site.proxy.to missing"), "{:?}", mistakes(&not_set));
}

/// The exception would send the source of a script.
#[test]
fn files_are_no_exception_to_fastcgi() {
    let text = "[[site]]\nroot='r'\nfastcgi='127.0.0.1:9000'\n[[site.proxy]]\npath='/s/*'\nserve_files=true\n";
    let said = mistakes(text);
    let expected = "f:4:1: site.proxy.serve_files with FastCGI: expected no such table";
    assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
}

#[test]
fn rewrites_and_prefixes() {
    let cases = [
        (
            "[[site.proxy]]\nto=['1']\nstrip_prefix='/app'",
            "f:5:14: site.proxy.strip_prefix `/app` with path = \"*\": expected paths below it, for example path = \"/app/*\"",
        ),
        (
            "[[site.proxy]]\nto=['1']\npath='/app*'\nstrip_prefix='/app'",
            "f:6:14: site.proxy.strip_prefix `/app` with path = \"/app*\": expected paths below it, for example path",
        ),
        (
            "[[site.proxy]]\nto=['1']\npath='/*'\nstrip_prefix='/'",
            "f:6:14: site.proxy.strip_prefix `/`: expected a path that begins with a slash and ends without one",
        ),
        (
            "[[site.rewrite]]\nfrom='/a'",
            "f:3:1: site.rewrite.to missing: expected a path that begins with a slash, \
            without",
        ),
        (
            "[[site.rewrite]]\nto='/a/../b'",
            "f:4:4: site.rewrite.to `/a/../b`: expected a path that begins with a \
            slash, without",
        ),
        (
            "[[site.rewrite]]\nto='http://a'",
            "f:4:4: site.rewrite.to `http://a`: expected a path that begins with a slash",
        ),
        ("[[site.rewrite]]\nfrom='/a'\nto='/b/*'", "f:5:4: site.rewrite.to `/b/*`: expected no `*`, since `from` has"),
        (
            "[[site.rewrite]]\nfrom='/a*'\nto='/b/*'",
            "f:5:4: site.rewrite.to `/b/*`: expected a `*` after the same slash as in `from`",
        ),
        (
            "[[site.rewrite]]\nto='/a'\n[[site.rewrite]]\nfrom='/b'\nto='/c'",
            "f:5:1: site.rewrite is never reached: expected before the table of line 3, which matches all of it",
        ),
    ];
    all_say("[[site]]\nroot='r'\n", "\n", &cases);
}

#[test]
fn fields_of_requests() {
    let cases = [
        ("name='Host'\nvalue='a'", "f:5:6: site.request_header.name `Host`: expected site.proxy.host for it"),
        ("name='X_Real_IP'", "f:5:6: site.request_header.name `X_Real_IP`: expected letters, digits and `-`"),
        ("name='Transfer-Encoding'", "f:5:6: site.request_header.name `Transfer-Encoding`: expected a field that does"),
        (
            "name='X-Real-IP'\nvalue='{remote_addr}'",
            "f:6:7: site.request_header.value `{remote_addr}`: expected {client}, {host}, {scheme} or {user} for `{remote_addr}`",
        ),
        ("name='X-A'\nvalue=''", "f:6:7: site.request_header.value ``: expected the value of a header field"),
        (
            "name='X-A'\n[[site.request_header]]\npath='/a'\nname='x-a'",
            "f:6:1: site.request_header is never reached: expected before the table of line 4",
        ),
    ];
    all_say("[[site]]\n[[site.proxy]]\nto=['1']\n[[site.request_header]]\n", "\n", &cases);
    let alone = mistakes("[[site]]\nroot='r'\n[[site.request_header]]\nname='X-A'");
    assert_eq!(
        alone,
        ["f:3:1: site.request_header without site.proxy: expected a proxy whose upstreams get the field"]
    );
}

#[test]
fn networks_of_access() {
    let cases = [
        (
            "allow=['10.1.2.3/8']",
            "f:4:8: site.access.allow `10.1.2.3/8`: expected the first address of the network, 10.0.0.0/8",
        ),
        ("deny=['::ffff:10.0.0.0/104']", "f:4:7: site.access.deny `::ffff:10.0.0.0/104`: expected an address of IPv4"),
        ("allow=[]", "f:4:7: site.access.allow `[]`: expected one or more in the brackets"),
        (
            "allow=['10.0.0.0/8']\ndeny=['10.0.0.0/8']",
            "f:5:7: site.access.deny `10.0.0.0/8`: expected once, site.access.allow of line 4 has it",
        ),
        ("realm='a'", "f:4:7: site.access.realm without site.access.users: expected a file of users"),
        ("users='u'\nrealm='a\"b'", "f:5:7: site.access.realm `a\"b`: expected a text of visible characters without"),
        (
            "users='u'\nsatisfy='any'",
            "f:5:9: site.access.satisfy `any` without both kinds of conditions: expected networks, and users",
        ),
        ("auth_url='127.0.0.1:1/x'", "f:4:10: site.access.auth_url `127.0.0.1:1/x`: expected an address with http://"),
        ("auth_url='http://a:1'", "f:4:10: site.access.auth_url `http://a:1`: expected an address with http://"),
        ("copy_headers=['A']", "f:4:14: site.access.copy_headers without site.access.auth_url: expected the server"),
        (
            "auth_url='http://a:1/x'\ncopy_headers=['Host']",
            "f:5:15: site.access.copy_headers `Host`: expected site.proxy.host for it",
        ),
        (
            "users='u'\nauth_url='http://a:1/x'",
            "f:5:10: site.access.auth_url with site.access.users: expected only auth_url, whose server knows the \
                users, or only users",
        ),
        ("allow=['::1']\nsatisfy='any'", "f:5:9: site.access.satisfy `any` without both kinds of conditions"),
        (
            "allow=['::1']\n[[site.access]]\npath='/a/*'",
            "f:5:1: site.access is never reached: expected before the table of line 3, which matches all of it",
        ),
    ];
    all_say("[[site]]\nroot='r'\n[[site.access]]\n", "\n", &cases);
}

#[test]
fn places_and_health_checks_of_a_proxy() {
    let cases = [
        (
            "to=['1']\nmax_concurrent_requests=0",
            "f:4:25: site.proxy.max_concurrent_requests `0`: expected a whole number from 1 to 65535",
        ),
        ("to=['1']\nhealth_uri='up'", "f:4:12: site.proxy.health_uri `up`: expected a path of a request in ASCII"),
        ("to=['1']\nhealth_uri='/a b'", "f:4:12: site.proxy.health_uri `/a b`: expected a path of a request in ASCII"),
        (
            "to=['1']\nhealth_uri='/a'\nhealth_interval='20ms'",
            "f:5:17: site.proxy.health_interval below 1s: expected 1s or more",
        ),
        ("to=['1']\nconnect_timeout='0s'", "f:4:17: site.proxy.connect_timeout `0s`: expected a time of 1ms or more"),
        ("to=['1']\nread_timeout='0.5ms'", "f:4:14: site.proxy.read_timeout `0.5ms`: expected a time of 1ms or more"),
        (
            "to=['1']\nslow_start='9s'",
            "f:4:12: site.proxy.slow_start without site.proxy.health_uri: expected the path of the checks",
        ),
    ];
    all_say("[[site]]\n[[site.proxy]]\n", "\n", &cases);
}

#[test]
fn a_site_without_a_folder_has_a_proxy_of_every_path() {
    let some = mistakes("[[site]]\n[[site.proxy]]\npath='/a'\nto=['1']");
    assert_eq!(some, ["f:1:1: site.root missing: expected a folder, or a redirect or a proxy of every path"]);
}

#[test]
fn a_key_or_table_a_second_time_is_named() {
    let site = "[[site]]\nroot='a'\n";
    for (text, said) in [
        (
            "[site]\nroot='a'\n[site]\nroot='b'\n",
            "f:3:2: table `site` a second time: expected [[site]], in double brackets, each time",
        ),
        ("[sites]\nroot='a'\n[sites]\nroot='b'\n", "f:3:2: unknown key `sites`: did you mean `site`?"),
        ("[[sites]]\nroot='a'\n[sites]\nroot='b'\n", "f:3:2: unknown key `sites`: did you mean `site`?"),
        (
            &format!("{site}[site.proxy]\nto=['1']\n[site.proxy]\nto=['2']\n"),
            "f:5:7: table `site.proxy` a second time: expected [[site.proxy]], in double brackets, each time",
        ),
        (&format!("[uplink]\n{site}[uplink]\n"), "f:4:2: table `uplink` a second time: expected once"),
        (&format!("{site}root = 'b'\n"), "f:3:1: key `root` a second time: expected once per table"),
    ] {
        assert_eq!(mistakes(text), [said], "{text}");
    }
}

#[test]
fn sites() {
    for (text, said) in [
        ("", &["f:1:1: site missing: expected [[site]] with root = \"FOLDER\""][..]),
        ("site = []", &["f:1:8: site `[]`: expected tables in double brackets, [[site]]"]),
        ("[[site]]\n", &["f:1:1: site.root missing: expected a folder, or a redirect or a proxy of every path"]),
        (
            "[[site]]\nroot='a'\n[[site]]\nroot='b'\nhosts=['b']",
            &[
                "f:1:1: site without hosts: expected hosts = [\"example.org\"], or default = true for requests to all other hosts",
            ],
        ),
        ("[[site]]\nroot='a'\nhosts=[]", &["f:3:7: site.hosts `[]`: expected one or more in the brackets"]),
        (
            "[[site]]\nroot='a'\ndefault=true\n[[site]]\nroot='b'\ndefault=true\nname='x'",
            &["f:4:1: site `x` is a default: expected one, that of line 1"],
        ),
        (
            "[[site]]\nroot='a'\nhosts=['a.org','b.org']\n[[site]]\nroot='b'\nhosts=['*.b.org','A.org']",
            &["f:6:18: site.hosts `a.org`: expected once, line 3 has it"],
        ),
        (
            "[[site]]\nroot='a'\nname='x'\nhosts=['a']\n[[site]]\nroot='b'\nname='x'\nhosts=['b']",
            &["f:5:1: site `x`: expected a name of its own, line 1 has it"],
        ),
        (
            "[[site]]\nroot='a'\nhosts=['*']\n[site.header]\nname='x'",
            &[
                "f:3:8: site.hosts `*`: expected default = true in the site",
                "f:4:1: site.header `[site.header]`: expected tables in double brackets, [[site.header]]",
            ],
        ),
    ] {
        let all = mistakes(text);
        assert_eq!(all.len(), said.len(), "{text}: {all:#?}");
        for (mistake, said) in all.iter().zip(said) {
            assert!(mistake.contains(said), "{mistake}");
        }
    }
}

#[test]
fn a_unix_socket_is_told_what_is_listened_at() {
    let mistakes = mistakes("[[listener]]\naddress = 'unix:/run/weir.sock'\n[[site]]\nroot = 'r'");
    let said = "f:2:11: listener.address `unix:/run/weir.sock`: expected an address and a port, because Weir does not \
        listen on Unix sockets;";
    assert!(mistakes.len() == 1 && mistakes[0].starts_with(said), "{mistakes:#?}");
}

#[test]
fn a_page_around_listings_is_of_a_folder_that_is_listed() {
    let page = "listing_page = '/l.html'\n";
    let unlisted = "f:3:16: site.listing_page without site.autoindex: expected autoindex = true";
    assert_eq!(mistakes(&format!("[[site]]\nroot = 'r'\n{page}")), [unlisted]);
    let rootless = [
        "f:1:1: site.root missing: expected a folder, or a redirect or a proxy of every path",
        "f:3:16: site.listing_page without site.root: expected a folder with its file",
    ];
    assert_eq!(mistakes(&format!("[[site]]\nautoindex = true\n{page}")), rootless);
    assert!(mistakes(&format!("[[site]]\nroot = 'r'\nautoindex = true\n{page}")).is_empty());
}

#[test]
fn a_port_without_a_colon_does_not_show_whom_it_serves() {
    let of = |address: &str| format!("[[listener]]\naddress = '{address}'\n[[site]]\nroot = 'a'\n");
    let said = mistakes(&of("8080"));
    let expected = "expected :8080 for all addresses, or 127.0.0.1:8080 for this machine only";
    assert_eq!(said, [format!("f:2:11: listener.address `8080`: {expected}")]);
    for address in [":8080", "localhost:8080", "127.0.0.1:8080", "[::]:8080"] {
        assert!(config::read(of(address).as_bytes()).is_ok(), "{address}");
    }
    let localhost = config::listen_address("localhost:8080");
    assert_eq!(localhost, "127.0.0.1:8080".parse().ok(), "IPv4 alone, as the documentation says");
}

#[test]
fn tls_of_listeners_and_sites() {
    let secure = "[[listener]]\naddress = \"[::]:443\"\ntls = true\n[[site]]\nroot = \"r\"\n";
    let plain = "[[site]]\nroot = \"r\"\n";
    assert!(
        mistakes(&format!("{secure}cert = \"c\"\nkey = \"k\"\nhttps_redirect = true\nhsts = \"max-age=0; preload\"\n"))
            .is_empty()
    );
    for (text, said) in [
        (secure.to_string(), "f:2:11: listener.tls without a certificate: expected cert and key in a site, or [acme]"),
        (format!("{plain}cert = \"c\""), "f:3:8: site.cert without site.key: expected both"),
        (format!("{plain}key = \"c\""), "f:3:7: site.key without site.cert: expected both"),
        (
            format!("{plain}https_redirect = true"),
            "f:3:18: site.https_redirect without TLS: expected a listener with tls = true, or server.trusted_proxies that have TLS",
        ),
        (format!("{plain}https_redirect = \"on\""), "f:3:18: site.https_redirect `on`: expected true or false"),
        (
            format!("{plain}hsts = \"includeSubDomains\""),
            "f:3:8: site.hsts `includeSubDomains`: expected max-age=SECONDS first, for example max-age=31536000",
        ),
    ] {
        assert_eq!(mistakes(&text), [said], "{text}");
    }
    let unused = format!("{plain}cert = \"c\"\nkey = \"k\"");
    assert_eq!(notes(&unused), ["f:3:8: site.cert: no effect without a listener with tls = true"]);
    let unused =
        "[[listener]]\naddress = \"127.0.0.1:80\"\nhttp3 = true\n\n[[site]]\ndefault = true\nroot = \"/srv\"\n";
    assert_eq!(notes(unused), ["f:3:9: listener.http3: no effect without tls = true"]);
    assert_eq!(notes(&unused.replace("http3 = true", "http3 = false")), [""; 0]);
    let limited = |size: &str| format!("[limits]\nhead_bytes = \"{size}\"\n{}", unused.replace("http3 = true", ""));
    let said = "f:2:14: limits.head_bytes `65537`: over HTTP/2 one field or path has 65536 bytes at most; a longer one ends \
                its connection";
    assert_eq!(notes(&limited("65537")), [said]);
    assert_eq!(notes(&limited("64KiB")), [""; 0]);
}

fn all_say(before: &str, after: &str, cases: &[(&str, &str)]) {
    for (text, said) in cases {
        let all = mistakes(&format!("{before}{text}{after}"));
        assert!(all.iter().any(|mistake| mistake.contains(said)), "{text}: {all:#?}");
    }
}

#[test]
fn fields_and_caches_of_a_site() {
    let cases = [
        (
            "[[site.header]]\nname='Content-Length'\nvalue='3'",
            "f:4:6: site.header.name `Content-Length`: expected a field that the server does not set itself",
        ),
        ("[[site.header]]\nname='Cache-Control'\nvalue='x'", "expected [[site.cache]] for it"),
        ("[[site.header]]\nname='Content-type'\nvalue='x'", "`Content-type`: expected [[site.type]] for files"),
        (
            "[[site.header]]\nname='a'\nvalue=\"b\\r\\nc: d\"",
            "f:5:7: site.header.value `b\\r\\nc: d`: expected the value of a header field",
        ),
        (
            "[[site.cache]]\npath='*.css'\ncontrol='max-age=1h'",
            "f:5:9: site.cache.control `max-age=1h`: expected directives",
        ),
        (
            "[[site.cache]]\npath='css'\ncontrol='private'",
            "f:4:6: site.cache.path `css`: expected a path that begins with a slash or `*`",
        ),
        (
            "[[site.cache]]\npath='/a/*'\ncontrol='private'\n[[site.cache]]\npath='/a/*.css'\ncontrol='public'",
            "f:6:1: site.cache is never reached: expected before the table of line 3, which matches all of it",
        ),
    ];
    all_say("[[site]]\nroot='r'\n", "\n", &cases);
}

#[test]
fn media_types_of_a_site() {
    let table = "[[site.type]]\nextensions=['md', 'log']\nmedia_type='text/plain'\n";
    let cases = [
        ("charset='utf 8'", "f:3:9: site.charset `utf 8`: expected the name of a charset, for example utf-8, or off"),
        ("default_type='text'", "f:3:14: site.default_type `text`: expected a media type, with parameters or without"),
        ("[[site.type]]\nmedia_type='a/b'", "f:3:1: site.type.extensions missing: expected a list in brackets"),
        ("[[site.type]]\nextensions=['a']", "f:3:1: site.type.media_type missing: expected a media type"),
        (
            "[[site.type]]\nextensions=['.md']\nmedia_type='a/b'",
            "f:4:13: site.type.extensions `.md`: expected an extension without a dot, for example md",
        ),
        (
            &format!("{table}[[site.type]]\nextensions=['x', 'LOG']\nmedia_type='a/b'"),
            "f:7:18: site.type.extensions `log`: expected once, line 4 has it",
        ),
    ];
    all_say("[[site]]\nroot='r'\n", "\n", &cases);
    let passed = "[[site]]\ncharset='off'\n[[site.proxy]]\nto=['127.0.0.1:1']\n[[listener]]\naddress='127.0.0.1:80'\n";
    assert_eq!(notes(passed), ["f:2:9: site.charset: no effect without site.root"]);
}

#[test]
fn error_pages_and_redirects_of_a_site() {
    let cases = [
        (
            "[[site.error_page]]\nstatus=404\nfile='/a'\n[[site.error_page]]\nstatus=404\nfile='/b'",
            "f:6:1: site.error_page is never reached",
        ),
        (
            "[[site.error_page]]\nstatus=200\nfile='/a'",
            "f:4:8: site.error_page.status `200`: expected a status from 400 to 599, `4xx`, `5xx`, or `*` for both",
        ),
        ("[[site.redirect]]\nto='/b'\nstatus=303", "f:5:8: site.redirect.status `303`: expected 301, 302, 307 or 308"),
        (
            "[[site.redirect]]\nfrom='/a/*'\nto='/a/b'",
            "f:5:4: site.redirect.to `/a/b`: expected a path that `from` does not match, or it would lead to itself",
        ),
        (
            "[[site.redirect]]\nfrom='/a'\nto='//b'",
            "f:5:4: site.redirect.to `//b`: expected a path that begins with a slash, or an address",
        ),
    ];
    all_say("[[site]]\nroot='r'\n", "\n", &cases);
    let elsewhere = "[[site]]\nhosts=['a.org']\nroot='r'\n[[site.redirect]]\nfrom_host='b.org'\nto='http://a.org*'";
    let rootless = "[[site]]\n[[site.error_page]]\nstatus=404\nfile='/a'\n[[site.redirect]]\nto='http://a.org*'";
    assert_eq!(
        mistakes(rootless),
        ["f:2:1: site.error_page without site.root or site.error_root: expected a folder with its file"]
    );
    assert_eq!(mistakes(elsewhere), ["f:4:1: site.redirect.from_host `b.org`: expected a host of the site"]);
}

/// A site to follow classes.
const SITE: &str = "\n[[site]]\nroot='r'\ndefault=true\n";

fn class(name: &str, rest: &str) -> String {
    format!("[[class]]\nname='{name}'\n{rest}\n")
}

#[test]
fn classes_and_the_reach_of_their_rules() {
    let rule = "[[class.rule]]\npath='/a/*'";
    for (text, said) in [
        (class("a", ""), "f:1:1: class `a` is never reached: expected a rule, a site or uplink.default_class with it"),
        (class("others", rule), "f:2:6: class.name `others`: expected another"),
        (
            class("a", rule) + &class("a", "[[class.rule]]\npath='/b'"),
            "f:5:1: class `a`: expected a name of its own, line 1 has it",
        ),
        (
            class("a", rule) + &class("b", "[[class.rule]]\npath='/a/b'"),
            "f:7:1: class.rule is never reached: expected before the table of line 3, which matches all of it",
        ),
        (class("a", "[[class.rule]]") + &class("b", rule), "f:6:1: class.rule is never reached"),
        (
            format!("[uplink]\ndefault_class='premum'\n{}", class("premium", "[[class.rule]]")),
            "f:2:15: uplink.default_class `premum`: expected the name of a [[class]]; did you mean `premium`?",
        ),
    ] {
        all_say("", SITE, &[(&text, said)]);
    }
    let all =
        (0..10_000).map(|n| format!("[[class]]\nname='c{n}'\n[[site]]\nhosts=['h{n}']\nroot='r'\nclass='c{n}'\n"));
    // One more class is for unassigned requests.
    assert_eq!(
        one(&all.collect::<String>().replace("[[site]]\nhosts=['h9999']\nroot='r'\nclass='c9999'\n", "")),
        "f:59995:1: class 10000: expected 9999 at most"
    );
}

#[test]
fn proxies_in_front() {
    let cases = [
        (
            "trusted_proxies=['10.0.0.1/8']\n",
            "f:2:18: server.trusted_proxies `10.0.0.1/8`: expected the first address of the network, 10.0.0.0/8",
        ),
        ("trusted_proxies=['proxy']\n", "f:2:18: server.trusted_proxies `proxy`: expected an address, or a network"),
        ("trusted_proxies=[]\n", "f:2:17: server.trusted_proxies `[]`: expected one or more in the brackets"),
        (
            "[[listener]]\naddress='[::]:80'\nproxy_protocol=true\n",
            "f:3:9: listener.proxy_protocol without server.trusted_proxies: expected the addresses of the proxies there",
        ),
    ];
    all_say("[server]\n", SITE, &cases);
    let listener = "[server]\ntrusted_proxies=['0.0.0.0/0']\n[[listener]]\naddress='[::]:80'\nproxy_protocol=true\n";
    let noted = notes(&format!("{listener}tls=true\nhttp3=true\n[[site]]\nroot='a'\ncert='c'\nkey='k'\n"));
    let expected = [
        "f:2:18: server.trusted_proxies `0.0.0.0/0`: every client can claim to be another",
        "f:7:7: listener.http3: no effect with proxy_protocol = true",
    ];
    assert_eq!(noted, expected);
}

#[test]
fn local_networks_are_networks_and_not_all_of_them() {
    let cases = [
        ("local_networks=['lan']\n", "f:2:17: uplink.local_networks `lan`: expected an address, or a network"),
        ("local_networks=[]\n", "f:2:16: uplink.local_networks `[]`: expected one or more in the brackets"),
    ];
    all_say("[uplink]\n", SITE, &cases);
    let noted = notes("[uplink]\nlocal_networks=['10.0.0.0/8', '::/0']\n[[site]]\nroot='a'\n");
    assert_eq!(noted, ["f:2:31: uplink.local_networks `::/0`: no client would be paced"]);
}

#[test]
fn values_of_a_class() {
    let cases = [
        ("weight=0\n", "f:3:8: class.weight `0`"),
        ("max_concurrent_requests=0\n", "f:3:25: class.max_concurrent_requests `0`: expected a whole number from 1"),
        ("policy='weighted=1,1/las'\n", "classes above a policy are gone"),
        ("policy='fcf:0'\n", "f:3:8: class.policy: beta `0`: write a number from 1"),
        (
            "policy='rank:left * rt'\n",
            "f:3:8: class.policy: rank `left * rt`, column 8: unknown name `rt`: write a number or",
        ),
        ("objective='fast'\n", "f:3:11: class.objective `fast`: expected `pN of responses under TIME`"),
        ("min_rate='3mbit'\nmax_rate='2mbit'\n", "f:4:10: class.max_rate `2mbit`: expected at least min_rate, 3mbit"),
    ];
    all_say("[[class]]\nname='a'\n", &format!("[[class.rule]]{SITE}"), &cases);
    let conditions = [
        (
            "network='10.0.0.1/8'",
            "f:4:9: class.rule.network `10.0.0.1/8`: expected the first address of the network, 10.0.0.0/8",
        ),
        ("header='X'", "f:4:8: class.rule.header `X`: expected the name of a header field, a colon"),
        ("token='short-secret'", "f:4:7: class.rule.token `…`: expected a bearer token of 16 to 256"),
        (
            "site='defualt'",
            "f:4:6: class.rule.site `defualt`: expected the name of a site or one of its hosts; did you mean `default`?",
        ),
    ];
    all_say("[[class]]\nname='a'\n[[class.rule]]\n", SITE, &conditions);
}

#[test]
fn guarantees_fit_the_uplink() {
    let classes = |rates: [&str; 3], uplink: &str| {
        let class = |(n, rate): (usize, &str)| {
            format!("[[class]]\nname='c{n}'\nmin_rate='{rate}'\n[[class.rule]]\npath='/{n}'\n")
        };
        let classes: String = rates.into_iter().enumerate().map(class).collect();
        format!("[uplink]\n{uplink}\n{classes}[[site]]\nroot='r'\n")
    };
    assert_eq!(mistakes(&classes(["3mbit", "5mbit", "2mbit"], "rate='10mbit'")), [""; 0]);
    assert_eq!(
        mistakes(&classes(["3mbit", "5mbit", "2001kbit"], "rate='10mbit'")),
        [
            "f:15:10: class.min_rate `2.001mbit`: expected at most 2mbit, what the classes above leave of the uplink's 10mbit"
        ]
    );
    assert_eq!(mistakes(&classes(["10mbit", "1bit", "11mbit"], "rate='10mbit'")).len(), 2);
    let unknown = notes(&classes(["3mbit", "5mbit", "2mbit"], ""));
    let said = "f:5:10: class.min_rate without uplink.rate: not compared with the rate of the uplink";
    assert_eq!(unknown.iter().filter(|note| note.contains("without")).collect::<Vec<_>>(), [said]);
}

#[test]
fn notes_name_ipv4_addresses_without_a_listener() {
    let with = |addresses: [&str; 2]| {
        let listeners = addresses.map(|address| format!("[[listener]]\naddress = '{address}'\n")).concat();
        notes(&format!("{listeners}[[site]]\nroot = 'r'\n"))
    };
    let said = "listener.address `[::]:80`: IPv6 alone, since line";
    let cure = "for all IPv4 addresses put 0.0.0.0:80 there";
    assert_eq!(with([":80", "127.0.0.1:80"]), [format!("f:2:11: {said} 4 has 127.0.0.1:80; {cure}")]);
    assert_eq!(with(["192.0.2.1:80", "[::]:80"]), [format!("f:4:11: {said} 2 has 192.0.2.1:80; {cure}")]);
    for whole in [["[::]:80", "0.0.0.0:80"], [":80", "127.0.0.1:81"], ["[::1]:80", "127.0.0.1:80"]] {
        assert_eq!(with(whole), [""; 0], "{whole:?}");
    }
}

#[test]
fn notes_name_overlaps() {
    let text = "\
[[site]]
root = 'r'
[[site.cache]]
path = '/a/*'
control = 'private'
[[site.cache]]
path = '*.css'
control = 'public'
";
    assert_eq!(notes(text), ["f:6:1: site.cache overlaps that of line 3, which wins where both match",]);
}

/// The server would refuse these at its start, without a place.
#[test]
fn orders_that_cannot_be_kept_have_their_place() {
    let bands = "[uplink]\nshaping = 'bands'\n";
    assert_eq!(
        one("[uplink]\npolicy = 'rank:mserpt'"),
        "f:2:10: uplink.policy: `rank:mserpt` is for the laboratory, where routes learn other indices: expected gittins in place of mserpt"
    );
    assert_eq!(
        one(&format!("{bands}policy = 'las'")),
        "f:3:10: uplink.policy `las` with shaping = \"bands\": expected a policy with bands, srpt, srpt-bands, srrt, quick-fix, fair"
    );
    let class = "[[class]]\nname = 'a'\n[[class.rule]]\npath = '/a'\n";
    assert_eq!(
        one(&format!("{bands}{class}")),
        "f:2:11: uplink.shaping `bands` with [[class]], which the kernel's bands do not have: expected auto, paced or off"
    );
    let said = one(&class.replace("'a'\n", "'a'\npolicy = 'rank:mserpt * 2'\n"));
    assert!(said.starts_with("f:3:10: class.policy: `rank:mserpt * 2` is for the laboratory"), "{said}");
    assert_eq!(notes(&format!("{bands}policy = 'fair'\n[[site]]\nroot = 'r'\n")), [""; 0]);
}

/// A rule for a path that no request has protects nothing.
#[test]
fn notes_name_paths_that_hardly_match() {
    for (path, why) in [
        ("/my%20files/*", "paths are compared decoded; expected the characters themselves in place of %XX"),
        ("/a?b=*", "paths are compared without their query; expected no ?"),
        ("/a/../b", "paths have no dot segments when they are compared; expected none"),
    ] {
        let text = format!("[[site]]\nroot = 'r'\n[[site.access]]\npath = '{path}'\ndeny = ['192.0.2.0/24']\n");
        assert_eq!(notes(&text), [format!("f:3:1: site.access for `{path}`: {why}")]);
    }
    for path in ["/my files/*", "/100%/*", "/a..b/.c/*"] {
        let text = format!("[[site]]\nroot = 'r'\n[[site.access]]\npath = '{path}'\ndeny = ['192.0.2.0/24']\n");
        assert_eq!(notes(&text), [""; 0], "{path}");
    }
}

#[test]
fn notes_name_an_order_without_effect() {
    let text = "[uplink]\nrate = 'off'\npolicy = 'fair'\nstarvation_share = '2%'\n[[site]]\nroot = 'r'\n";
    let said = [
        "f:3:10: uplink.policy: no effect with rate = \"off\"",
        "f:4:20: uplink.starvation_share: no effect with rate = \"off\"",
    ];
    assert_eq!(notes(text), said);
}

#[test]
fn wrong_toml_has_one_mistake_with_its_place() {
    for (text, place) in [("[[site]\nroot = 'a'", "f:1:"), ("[[site]]\nroot = \n", "f:2:"), ("a = 'x", "f:1:")] {
        let all = mistakes(text);
        assert!(all.len() == 1 && all[0].starts_with(place) && all[0].contains(": TOML: "), "{all:?}");
    }
    let deep = mistakes(&format!("a = {}", "[".repeat(500_000)));
    assert_eq!(deep.len(), 1, "{deep:?}");
}

#[test]
fn a_file_saved_by_half_is_named() {
    for text in ["[[site]]\nroot = ", "[[site]]\nroot = \"/srv", "[[site]]\nhosts = [\"a\",\n", "[[site"] {
        let all = mistakes(text);
        assert!(all.len() == 1 && all[0].ends_with("; is the file complete?"), "{all:?}");
    }
    let cut = read("[[site]]\nroot = 'ä".as_bytes().split_last().unwrap().1).unwrap_err();
    assert_eq!(cut[0].line("f"), "f:2:9: end within a character: expected UTF-8; is the file complete?");
    assert_eq!(
        mistakes("[[site]]\nroot = 'r'\n\0\0\0\0"),
        ["f:3:5: TOML: key with no value, expected `=`; is the file complete?"]
    );
}

#[test]
fn memory_below_the_least_or_without_a_size() {
    let expected = "f:2:10: limits.memory `1048576`: expected 32MiB at least";
    assert_eq!(one("[limits]\nmemory = '1MiB'"), expected);
    let said = one("[limits]\nmemory = 'much'");
    assert!(said.starts_with("f:2:10: limits.memory `much`: expected "), "{said}");
    assert_eq!(mistakes("[limits]\nmemory = '32MiB'\n[[site]]\nroot = 'r'"), [""; 0]);
}

#[test]
fn rules_for_html_are_noted_where_urls_are_clean() {
    let rule =
        "[[site.cache]]\npath='*.html'\ncontrol='no-cache'\n[[site.access]]\npath='/a.html'\nallow=['10.0.0.0/8']\n";
    let site = |keys: &str| notes(&format!("[[site]]\nroot='r'\n{keys}{rule}"));
    assert_eq!(site("").len(), 0);
    let said = site("clean_urls=true\n");
    assert!(
        said.len() == 2 && said[0].starts_with("f:4:1: site.cache for `*.html`: no page has this path"),
        "{said:?}"
    );
    assert!(said[1].starts_with("f:7:1: site.access for `/a.html`"), "{said:?}");
}

#[test]
fn encodings() {
    let right = "[[site]]\r\nroot = 'ä'\r\n";
    assert_eq!(mistakes(right), [""; 0]);
    assert_eq!(mistakes(&format!("\u{FEFF}{right}")), [""; 0]);
    let all = mistakes(&format!("\u{FEFF}{right}'ü' = 1"));
    let said = "f:3:1: unknown key `site.ü`: expected name, hosts, default, root, index,";
    assert!(all.len() == 1 && all[0].starts_with(said), "{all:?}");
    let said = |bytes: &[u8]| read(bytes).unwrap_err().iter().map(|mistake| mistake.line("f")).collect::<Vec<_>>();
    assert_eq!(said(b"a = 1\nb = '\xFF'"), ["f:2:6: byte `0xff`: expected UTF-8"]);
    assert_eq!(said(b"\xFF\xFEa\0"), ["f:1:1: text in UTF-16: expected UTF-8"]);
}

#[test]
fn files_are_read_up_to_their_bound() {
    let folder = std::env::temp_dir().join(format!("weir-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("weir.toml");
    let mut text = "[[site]]\nroot='r'\n".to_string();
    text.push_str(&"#".repeat(FILE_BYTES_MAX - text.len()));
    std::fs::write(&path, &text).unwrap();
    assert!(read_file(&path).is_ok());
    std::fs::write(&path, text + "#").unwrap();
    let error = read_file(&path).unwrap_err();
    assert!(matches!(&error, FileError::Mistakes { mistakes, .. } if mistakes.len() == 1));
    assert_eq!(error.to_string(), format!("{}:1:1: file above 8388608 bytes: expected 8 MiB at most", path.display()));
    let error = read_file(&folder.join("none.toml")).unwrap_err().to_string();
    assert!(error.contains("none.toml: No such file"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The only mistake of a whole file.
fn only(text: &str) -> String {
    let mut all = mistakes(text);
    assert_eq!(all.len(), 1, "{text}: {all:#?}");
    all.remove(0)
}

/// Values that are plausible to users of other servers, and would have another meaning here.
#[test]
fn words_of_other_servers_are_refused_or_noted() {
    let site = |rest: &str| format!("[[site]]\nroot = 'r'\n{rest}");
    assert_eq!(
        only("[[site]]\nroot = 'r'\nhosts = ['_']"),
        "f:3:10: site.hosts `_`: expected default = true in the site, for requests to all other hosts"
    );
    let no_log = "expected no such key where there is no log; ./off is a file of this name";
    assert_eq!(only(&site("access_log = 'off'")), format!("f:3:14: site.access_log `off`: {no_log}"));
    assert_eq!(
        only(&format!("[server]\naccess_log = 'off'\n{}", site(""))),
        format!("f:2:14: server.access_log `off`: {no_log}")
    );
    assert_eq!(mistakes(&site("access_log = './off'")), [""; 0]);
    assert_eq!(
        only(&site("[[site.header]]\nname = 'Content-Encoding'\nvalue = 'gzip'")),
        "f:4:8: site.header.name `Content-Encoding`: expected no such field: a coded file is named as such, page.html.gz of page.html"
    );
}

#[test]
fn notes_name_values_that_are_sent_as_they_are() {
    let site = |rest: &str| format!("[[site]]\nroot = 'r'\n{rest}");
    for (rest, said) in [
        (
            "[[site.header]]\nname = 'X-Frame-Options'\nvalue = 'DENY always'",
            "site.header.value `DENY always`: `always` is sent as a part of it; expected it without",
        ),
        (
            "[[site.header]]\nname = 'X-A'\nvalue = 'a $request_id'",
            "site.header.value `a $request_id`: `$request_id` is sent as it is; expected text without variables",
        ),
        (
            "[[site.redirect]]\nfrom = '/old/*'\nto = '/new/$1'",
            "site.redirect.to `/new/$1`: `$1` is sent as it is; expected `*`, for what the `*` of `from` matched",
        ),
        (
            "[[site.cache]]\npath = '*.css'\ncontrol = 'public, maxage=3600'",
            "site.cache.control `public, maxage=3600`: no directive `maxage`; expected one that caches know, for example max-age=86400",
        ),
    ] {
        assert_eq!(notes(&site(rest)), [format!("f:3:1: {said}")]);
    }
    let known = "[[site.cache]]\npath = '*.css'\ncontrol = 'Public, max-age=3600, stale-while-revalidate=60'";
    assert_eq!(notes(&site(known)), [""; 0]);
    let price = "[[site.header]]\nname = 'X-Price'\nvalue = '5 $'";
    assert_eq!(notes(&site(price)), [""; 0]);
}

#[test]
fn protection_of_a_folder_alone_leaves_what_is_below_it_open() {
    let with = |paths: &[&str], table: &str| {
        let tables = paths.iter().map(|path| format!("[[site.{table}]]\npath = '{path}'\n"));
        let rest = if table == "access" { "deny = ['192.0.2.0/24']\n" } else { "control = 'private'\n" };
        let tables: String = tables.map(|table| table + rest).collect();
        format!("[[site]]\nroot = 'r'\n{tables}")
    };
    for (path, expected) in [("/admin/", "/admin/*"), ("/", "/*")] {
        assert_eq!(
            only(&with(&[path], "access")),
            format!("f:3:1: site.access for `{path}`: all paths below it stay open; expected `{expected}`")
        );
    }
    assert_eq!(
        notes(&with(&["/admin"], "access")),
        ["f:3:1: site.access for `/admin`: this path only; `/admin/*` stays open"]
    );
    for whole in [&["/admin/*"][..], &["/admin", "/admin/*"], &["/a.html"], &["*"]] {
        assert_eq!(notes(&with(whole, "access")), [""; 0], "{whole:?}");
    }
    assert_eq!(
        notes(&with(&["/img/"], "cache")),
        ["f:3:1: site.cache for `/img/`: this path only; `/img/*` is everything below it"]
    );
    assert_eq!(notes(&with(&["/"], "cache")), [""; 0]);
    for path in ["*.{css,js}", "/a/.*\\\\.php", "*.php$"] {
        let said = format!(
            "f:3:1: site.cache for `{path}`: only `*` has a meaning in a pattern; expected one table for each form"
        );
        assert_eq!(notes(&with(&[path], "cache")), [said]);
    }
}

#[test]
fn all_clients_are_those_of_both_families() {
    let with = |networks: &str| format!("[[site]]\nroot = 'r'\n[[site.access]]\n{networks}\n");
    assert_eq!(
        only(&with("deny = ['0.0.0.0/0']")),
        "f:4:9: site.access.deny `0.0.0.0/0` admits all other clients: expected `::/0` with it"
    );
    assert_eq!(
        only(&with("deny = ['192.0.2.0/24', '::/0']")),
        "f:4:25: site.access.deny `::/0` admits all other clients: expected `0.0.0.0/0` with it"
    );
    for whole in ["deny = ['0.0.0.0/0', '::/0']", "allow = ['192.0.2.0/24']\ndeny = ['0.0.0.0/0']"] {
        assert_eq!(mistakes(&with(whole)), [""; 0]);
    }
}

#[test]
fn a_site_does_not_lead_to_itself() {
    let with = |head: &str, to: &str, host: &str| {
        let table = format!("[[site.redirect]]\nfrom = '*'\n{host}to = '{to}'\n");
        format!(
            "{head}[[site]]\nroot = 'r'\nhosts = ['example.org', 'www.example.org']\ncert = 'c'\nkey = 'k'\n{table}"
        )
    };
    let secure = "[[listener]]\naddress = ':443'\ntls = true\n";
    let said = |to: &str| {
        format!(
            "f:9:1: site.redirect.to `{to}`: expected another host or from_host, or it would lead to itself; https_redirect = true in the site leads to https://"
        )
    };
    for to in ["https://example.org*", "https://www.example.org:443", "https://example.org/*"] {
        assert_eq!(
            only(&with(secure, to, "").replace("from = '*'", "from = '/*'").replace("org*", "org/*")),
            said(&to.replace("org*", "org/*"))
        );
    }
    let proxied = "[server]\ntrusted_proxies = ['192.0.2.1']\n[[listener]]\naddress = ':80'\n";
    let of_proxy = only(&with(proxied, "https://example.org*", "").replace("cert = 'c'\nkey = 'k'\n", ""));
    assert!(of_proxy.contains("would lead to itself"), "{of_proxy}");
    let plain = "[[listener]]\naddress = ':80'\n";
    let other = "from_host = 'www.example.org'\n";
    for (head, to, host) in [
        // Another program uses the port with TLS.
        (plain, "https://example.org*", ""),
        (secure, "https://example.org*", other),
        (secure, "https://example.com*", ""),
        (secure, "https://example.org:8443*", ""),
        (secure, "http://example.org*", ""),
    ] {
        let text = with(head, to, host);
        let text = if head == plain { text.replace("cert = 'c'\nkey = 'k'\n", "") } else { text };
        assert_eq!(mistakes(&text), [""; 0], "{head} {to} {host}");
    }
    assert!(only(&with(secure, "https://www.example.org*", other)).contains("would lead to itself"));
}

#[test]
fn https_redirect_needs_tls_here_or_before() {
    let with = |server: &str| format!("{server}[[site]]\nroot = 'r'\nhttps_redirect = true\n");
    let said =
        "site.https_redirect without TLS: expected a listener with tls = true, or server.trusted_proxies that have TLS";
    assert_eq!(only(&with("")), format!("f:3:18: {said}"));
    assert_eq!(mistakes(&with("[server]\ntrusted_proxies = ['192.0.2.1']\n")), [""; 0]);
}

#[test]
fn notes_name_tables_without_effect() {
    let classes = "[uplink]\nrate = 'off'\n[[class]]\nname = 'a'\nmin_rate = '1mbit'\nweight = 2\nmax_concurrent_requests = 5\n\
        [[class.rule]]\npath = '/a'\n[[site]]\nroot = 'r'\n";
    let of_classes: Vec<String> = notes(classes).into_iter().filter(|note| note.contains("class")).collect();
    let said = |place: &str, key: &str| format!("f:{place}: class.{key}: no effect with uplink.rate = \"off\"");
    assert_eq!(of_classes, [said("5:12", "min_rate"), said("6:10", "weight")]);
    let root = "[[site]]\nroot = 'r'\n[[site.proxy]]\npath = '*'\nto = ['127.0.0.1:3000']\n";
    let unread = "f:2:8: site.root: no path reaches its files, since site.proxy of line 3 has all; \
        expected serve_files = true in a table before it for theirs";
    assert_eq!(notes(root), [unread]);
    let files = root.replace("[[site.proxy]]\n", "[[site.proxy]]\npath = '/s/*'\nserve_files = true\n[[site.proxy]]\n");
    assert_eq!(notes(&files), [""; 0]);
    for (to, address) in [("127.0.0.1:8080", "127.0.0.1:8080"), ("localhost:8080", "[::]:8080")] {
        let own = format!("[[listener]]\naddress = '{address}'\n[[site]]\n[[site.proxy]]\npath = '*'\nto = ['{to}']\n");
        assert_eq!(
            notes(&own),
            [format!("f:4:1: site.proxy.to: {address} is the listener of line 2: a request may go round for ever")]
        );
    }
}
