//! `weir attach`, its plan and its list.

use crate::network::Network;

/// Needs the BPF programs, which a build without clang has not.
pub fn attached(network: &Network, args: &str) -> bool {
    let output = network.weir(args);
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
        println!("SKIPPED: {why}");
    }
    output.status.success()
}

#[test]
fn an_attach_again_keeps_what_it_is_not_told() {
    let Some(network) = Network::new() else { return };
    let told = "attach uplink --port 8080 --rate 9mbit --policy las --client-share off --cuts 4KB,64KB --no-watch";
    if !attached(&network, told) {
        return;
    }
    let of = |keys: &[&str]| {
        let list = network.json("attach --list");
        keys.iter().map(|key| list[0][key].to_string()).collect::<Vec<_>>()
    };
    let keys = ["ports", "policy", "client_allowance_bytes", "cuts"];
    let before = of(&keys);
    assert_eq!(before, ["[8080]", "\"las\"", "null", "[4000,64000]"]);
    network.printed("attach uplink --rate 5mbit --no-watch");
    assert_eq!(of(&keys), before);
    assert!(network.printed("uplink show uplink").contains("at 5mbit"));
    // It adopts the new settings and keeps the others.
    network.printed("attach uplink --client-share 5MB --client-prefix 24,48 --policy psjf --no-watch");
    let keys = ["ports", "policy", "client_allowance_bytes", "client_prefix"];
    let before = of(&keys);
    assert_eq!(before, ["[8080]", "\"psjf\"", "5000000", "[24,48]"]);
    network.printed("attach uplink --no-watch");
    assert_eq!(of(&keys), before);
}

#[test]
fn the_doctor_says_what_attach_would() {
    let Some(network) = Network::new() else { return };
    let rate = "--rate 9500kbit";
    for (root, args) in [("", rate), ("", ""), ("7: htb default 1", rate), ("8: pfifo limit 77", "")] {
        if !root.is_empty() {
            network.command(&format!("tc qdisc replace dev uplink root handle {root}"));
        }
        let planned = network.weir(&format!("attach uplink {args} --dry-run"));
        let is_ok = planned.status.success();
        let planned = String::from_utf8(if is_ok { planned.stdout } else { planned.stderr }).unwrap();
        let planned = planned.trim().trim_start_matches("weir: ").trim_start_matches("uplink: ").to_string();
        let doctor = network.printed(&format!("uplink doctor uplink {args}"));
        let state = if is_ok { "ok" } else { "refused" };
        // Below the two verdicts.
        assert_eq!(doctor.lines().nth(2).unwrap(), format!("{state:<8} attach uplink: {planned}"));
        // Without a rate the bands are open until one is found.
        assert_eq!(is_ok && args.is_empty(), is_ok && planned.contains("at 10gbit"), "{planned}");
    }
}
