//! `weir attach`, its plan and its list.

use std::path::Path;

use serde_json::Value;

use crate::network::Network;

/// Attaches, which needs the BPF programs. A build without clang lacks them.
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
fn the_overhead_of_a_line_is_in_the_kernel_and_kept() {
    let Some(network) = Network::new() else { return };
    let class = || network.command("tc -d class show dev uplink classid 5745:13");
    let attach = |args: &str| attached(&network, &format!("attach uplink --rate 9mbit --no-watch {args}"));
    for (line, numbers) in [
        ("ethernet", ["overhead 24 ", "linklayer ethernet ", "mpu 84b "]),
        ("docsis", ["overhead 4 ", "linklayer ethernet ", "mpu 64b "]),
        ("pppoe", ["overhead 16 ", "linklayer ethernet ", "mpu 0b "]),
        ("atm", ["overhead 34 ", "linklayer atm ", "mpu 0b "]),
    ] {
        if !attach(&format!("--overhead {line}")) {
            return;
        }
        assert!(numbers.iter().all(|number| class().contains(number)), "{line}: {}", class());
    }
    // The same as after `--rate` alone, and in the trees of `weir uplink`.
    assert!(attach("") && class().contains("linklayer atm "), "{}", class());
    let said = "34 bytes more a packet, in ATM cells";
    for command in ["attach --list", "uplink show uplink", "attach uplink --dry-run"] {
        assert!(network.printed(command).contains(said), "{command}: {}", network.printed(command));
    }
    assert!(attach("--overhead none") && !class().contains("overhead"), "{}", class());
    network.printed("attach --detach uplink");
    network.printed("uplink up uplink --rate 9mbit --overhead docsis");
    assert_eq!(network.json("uplink show uplink")["overhead_bytes"], 4);
    // A rate that is searched for includes no overhead: the bands would never seem full.
    for args in ["--rate auto", "--rate auto --overhead atm"] {
        let said = network.refusal(&format!("attach uplink {args}"), 1);
        assert!(said.contains("give --rate, or --overhead none"), "{args}: {said}");
    }
    network.printed("attach uplink --rate auto --overhead none --no-watch");
    assert!(network.refusal("uplink up uplink --rate 9mbit --overhead dsl", 2).contains("docsis"));
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
        // In the line after the two verdicts.
        assert_eq!(doctor.lines().nth(2).unwrap(), format!("{state:<8} attach uplink: {planned}"));
        // Without a rate the bands are open until one is found.
        assert_eq!(is_ok && args.is_empty(), is_ok && planned.contains("at 10gbit"), "{planned}");
        assert_eq!(is_ok && args.is_empty(), planned.ends_with("; the rate of the line would be found and followed"));
    }
}

/// Compares the figures of JSON, Prometheus, the list and `weir top` between two equal lists, so that nothing has left
/// the interface in between. Also writes `file`.
fn figures(network: &Network, file: &Path) -> (Value, [String; 3]) {
    let told = || {
        let before = network.json("attach --list")[0].clone();
        let prometheus = network.printed("attach --list --prometheus");
        network.printed(&format!("attach --list --prometheus={}", file.display()));
        let texts = [prometheus, network.printed("attach --list"), network.printed("top")];
        (network.json("attach --list")[0]["bands"] == before["bands"]).then_some((before, texts))
    };
    (0..20).find_map(|_| told()).expect("a moment without traffic")
}

#[test]
fn all_that_show_figures_show_the_same() {
    let Some(network) = Network::new() else { return };
    let file = std::env::temp_dir().join(format!("weir-attach-{}.prom", std::process::id()));
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    let socket = network.cable.at_server(|| std::net::UdpSocket::bind("198.18.60.1:0").unwrap());
    (0..3).for_each(|_| assert_eq!(socket.send_to(&[0; 1000], "198.18.60.2:9").unwrap(), 1000));
    let (list, [prometheus, listed, top]) = figures(&network, &file);
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(written, prometheus);
    let other = &list["bands"][1];
    let (packets, bytes) = (other["packets"].as_u64().unwrap(), other["bytes"].as_u64().unwrap());
    assert!(packets >= 3 && other["use"] == "other", "{list}");
    let labels = r#"{interface="uplink",band="1",holds="other"}"#;
    for sample in [
        format!("weir_attach_band_packets_total{labels} {packets}\n"),
        format!("weir_attach_band_bytes_total{labels} {bytes}\n"),
        format!("weir_attach_band_waiting_packets{labels} 0\n"),
        "weir_attach_active{interface=\"uplink\"} 1\n".to_string(),
        "weir_attach_info{interface=\"uplink\",policy=\"psjf\",rate=\"given\"} 1\n".to_string(),
        "weir_attach_rate_bytes_per_second{interface=\"uplink\"} 1125000\n".to_string(),
    ] {
        assert!(prometheus.contains(&sample), "{sample}: {prometheus}");
    }
    let words =
        |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    let band = format!("1 other {packets} {bytes} 0 0");
    assert!(words(&listed).contains(&band), "{band}: {listed}");
    let band = format!("other 0 0 {packets} {:.1}", bytes as f64 / 1e6);
    assert!(words(&top).contains(&band), "{band}: {top}");
    assert!(top.contains("uplink: psjf into bands") && top.contains("rate 9mbit, as given"), "{top}");
    let said = network.refusal("attach --list --prometheus=/proc/nowhere/weir.prom", 1);
    assert!(said.contains("cannot write /proc/nowhere/weir.prom"), "{said}");
}

#[test]
fn openmetrics_has_the_samples_of_prometheus() {
    let Some(network) = Network::new() else { return };
    if !attached(&network, "attach uplink --rate 9mbit --no-watch") {
        return;
    }
    let samples = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("weir_"));
        lines.map(|line| line.split(' ').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    let [openmetrics, prometheus] =
        ["openmetrics", "prometheus"].map(|form| network.printed(&format!("attach --list --{form}")));
    assert!(openmetrics.ends_with("\n# EOF\n") && !prometheus.contains("# EOF"), "{openmetrics}");
    assert!(samples(&openmetrics).len() > 80 && samples(&openmetrics) == samples(&prometheus), "{openmetrics}");
}
