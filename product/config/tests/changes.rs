//! The changes of a file that `weir reload` prints.

fn told(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(|text| config::read(text.as_bytes()).expect("a right file"));
    config::changes(&before, &after).iter().map(|change| change.of_file("weir.toml").to_string()).collect()
}

#[test]
fn a_value_is_told_with_that_of_before_and_its_line() {
    let site = "[[site]]\nroot = '.'\n";
    let with = |text: &str| format!("{text}\n{site}");
    let of = |before: &str, after: &str| told(&with(before), &with(after));
    assert_eq!(of("[uplink]\nrate = '20mbit'", "\n\n[uplink]\nrate='20mbit'"), [""; 0], "other lines are no change");
    assert_eq!(
        of("[uplink]\nrate = '20mbit'\n[timeouts]\nidle = '5s'", "[timeouts]\nidle = '6s'\n[uplink]\nrate = '18mbit'"),
        ["timeouts.idle 5s → 6s (weir.toml:2)", "uplink.rate 20mbit → 18mbit (weir.toml:4)"]
    );
    assert_eq!(of("[limits]\nclient_requests = 9", ""), ["limits.client_requests 9 → 0"], "the default");
    assert_eq!(of("", "[server]\nworkers = 2"), ["server.workers one per core → 2 (weir.toml:2)"]);
}

/// Port 0 may stand there twice.
#[test]
fn listeners_of_one_address_are_told_apart_by_their_order() {
    let text = "[[listener]]\naddress = '127.0.0.1:0'\nproxy_protocol = true\n[[listener]]\naddress = '127.0.0.1:0'\n\
                [server]\ntrusted_proxies = ['::1']\n[[site]]\nroot = '.'\n";
    assert_eq!(told(text, text), [""; 0]);
    let third = text.replace("[server]", "[[listener]]\naddress = '127.0.0.1:0'\n[server]");
    assert_eq!(told(text, &third), ["listener 127.0.0.1:0 added (weir.toml:7)"]);
    assert_eq!(told(&third, text), ["listener 127.0.0.1:0 removed"]);
}

#[test]
fn listeners_sites_and_classes_come_change_and_go() {
    let before = "[[listener]]\naddress = '127.0.0.1:80'\n[[listener]]\naddress = '127.0.0.2:80'\n\
                  [[site]]\nhosts = ['a.org']\nroot = 'a'\n[[site]]\nhosts = ['b.org']\nroot = 'b'\n\
                  [[class]]\nname = 'gold'\n[[class.rule]]\npath = '/x'\n";
    let after = "[[listener]]\naddress = '127.0.0.2:80'\nproxy_protocol = true\n[[listener]]\naddress = '127.0.0.3:80'\n\
                 [server]\ntrusted_proxies = ['::1']\n\
                 [[site]]\nhosts = ['a.org']\nroot = 'a'\nautoindex = true\n[[site.header]]\nname = 'X-A'\nvalue = 'b'\n\
                 [[site]]\nhosts = ['c.org']\nroot = 'c'\n\
                 [[class]]\nname = 'gold'\nweight = 3\n[[class.rule]]\npath = '/y'\n";
    assert_eq!(
        told(before, after),
        [
            "server.trusted_proxies none → ::1 (weir.toml:7)",
            "listener 127.0.0.2:80: listener.proxy_protocol false → true (weir.toml:2)",
            "listener 127.0.0.3:80 added (weir.toml:5)",
            "listener 127.0.0.1:80 removed",
            "site a.org: site.autoindex false → true (weir.toml:11)",
            "site a.org: site.header.name none → X-A (weir.toml:13)",
            "site a.org: site.header.path none → *",
            "site a.org: site.header.value none → b (weir.toml:14)",
            "site b.org removed",
            "site c.org added (weir.toml:15)",
            "class gold: class.rule.path /x → /y (weir.toml:22)",
            "class gold: class.weight the default → 3 (weir.toml:20)",
        ]
    );
}
