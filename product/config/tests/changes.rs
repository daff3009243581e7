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

/// Port 0 may occur twice.
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
            "site a.org: [[site.header]] X-A added (weir.toml:12)",
            "site b.org removed",
            "site c.org added (weir.toml:15)",
            "class gold: class.weight the default → 3 (weir.toml:20)",
            "class gold: class.rule.path /x → /y (weir.toml:22)",
        ]
    );
}

/// Earlier each was compared with the one at its position, which gave 22 lines, most of them defaults, and none of them
/// reported that a proxy was gone.
#[test]
fn tables_of_a_site_are_told_by_their_names() {
    let proxy = |path: &str, more: &str| format!("[[site.proxy]]\npath = '{path}'\nto = ['127.0.0.1:9']\n{more}\n");
    let site = |tables: &[String]| format!("[[site]]\nroot = '.'\n{}", tables.concat());
    let of = |before: &[String], after: &[String]| told(&site(before), &site(after));
    let [a, b, c] = ["/a/*", "/b/*", "/c/*"].map(|path| proxy(path, ""));
    let at = |of: usize| 3 + 4 * of;
    assert_eq!(
        of(&[], std::slice::from_ref(&a)),
        [format!("site default: [[site.proxy]] /a/* added (weir.toml:{})", at(0))]
    );
    assert_eq!(of(&[a.clone(), b.clone()], std::slice::from_ref(&b)), ["site default: [[site.proxy]] /a/* removed"]);
    let all = [a.clone(), b.clone(), c.clone()];
    let removed = ["/a/*", "/b/*", "/c/*"].map(|path| format!("site default: [[site.proxy]] {path} removed"));
    assert_eq!(of(&all, &[]), removed);
    let changed = proxy("/b/*", "connect_timeout = '2s'");
    assert_eq!(
        of(&all, &[c.clone(), changed.clone()]),
        [
            "site default: site.proxy.connect_timeout 5s → 2s (weir.toml:10)",
            "site default: [[site.proxy]] /a/* removed",
            "site default: [[site.proxy]] in another order (weir.toml:3)",
        ]
    );
    let order = "site default: [[site.proxy]] in another order (weir.toml:3)";
    assert_eq!(of(&[a.clone(), b.clone()], &[b.clone(), a.clone()]), [order], "the first that matches decides");
}

#[test]
fn tables_of_other_kinds_are_told_as_one_line_too() {
    let site = "[[site]]\nhosts = ['a.org']\nroot = '.'\n";
    let with = |tables: &str| format!("{site}{tables}");
    let added = |tables: &str| told(site, &with(tables));
    assert_eq!(
        added("[[site.redirect]]\nfrom = '/x'\nto = '/y'"),
        ["site a.org: [[site.redirect]] /x added (weir.toml:4)"]
    );
    assert_eq!(
        added("[[site.access]]\nallow = ['::1']"),
        ["site a.org: [[site.access]] allow ::1 added (weir.toml:4)"],
        "its path is the default"
    );
    let class = "[[class]]\nname = 'c'\n[[class.rule]]\npath = '/x/*'\n";
    let rules = format!("{class}[[class.rule]]\nnetwork = '::1'\n{site}");
    assert_eq!(told(&rules, &format!("{class}{site}")), ["class c: [[class.rule]] network ::1 removed"]);
    let acme = "[acme]\nemail = 'a@a.org'\n[[listener]]\naddress = ':80'\n[[listener]]\naddress = ':443'\ntls = true\n";
    let lines = told(site, &format!("{acme}{site}"));
    let of_acme: Vec<&String> = lines.iter().filter(|line| line.contains("acme")).collect();
    assert_eq!(of_acme, ["[acme] added (weir.toml:1)", "acme.email none → a@a.org (weir.toml:2)"]);
    let redirects = |from: usize| -> String {
        (from..from + 1000).map(|nth| format!("[[site.redirect]]\nfrom = '/{nth}'\nto = '/y'\n")).collect()
    };
    assert_eq!(told(&with(&redirects(0)), &with(&redirects(1))).len(), 2, "the first is gone, and one is new");
}
