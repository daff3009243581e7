//! `weir uplink up`, `show`, `down`, `doctor`.

use crate::network::{Network, json};

#[test]
fn up_show_and_down() {
    let Some(network) = Network::new() else { return };
    let before = network.command("tc qdisc show dev uplink");
    let made = network.json("uplink up uplink --rate 10mbit");
    assert_eq!((&made["change"], &made["rate_bits_per_s"]), (&"made".into(), &10_000_000.into()));
    let bands = made["band_count"].as_u64().unwrap();
    // Also if this kernel has `prio`, which has no shares.
    assert_eq!((&made["kind"], bands), (&"htb".into(), 15), "{made}");
    assert_eq!((&made["share_permille"], &made["other_share_permille"]), (&5.into(), &200.into()), "{made}");
    let again = network.json("uplink up uplink --rate 10mbit");
    assert_eq!(again["change"], "unchanged");

    network.cable.at_server(|| {
        let socket = std::net::UdpSocket::bind("198.18.60.1:0").unwrap();
        for _ in 0..3 {
            socket.send_to(&[0; 58], "198.18.60.2:9").unwrap();
        }
    });
    let shown = network.json("uplink show uplink");
    let list = shown["bands"].as_array().unwrap();
    assert_eq!(list.len() as u64, bands);
    assert_eq!(["control", "other", "data"], [0, 1, 2].map(|band: usize| list[band]["use"].as_str().unwrap()));
    // They are not classified; with their headers they have 100 bytes each.
    assert!(list[1]["packets"].as_u64() >= Some(3) && list[1]["bytes"].as_u64() >= Some(300), "{shown}");
    assert!(list[2..].iter().all(|band| band["packets"] == 0), "{shown}");
    let lines = network.printed("uplink show uplink");
    assert_eq!(lines.lines().count() as u64, 2 + bands, "{lines}");

    assert_eq!(network.json("uplink down uplink")["removed"], true);
    assert_eq!(network.command("tc qdisc show dev uplink"), before);
    assert_eq!(network.json("uplink down uplink")["removed"], false);
}

/// Sixteen bands, which only `prio` supports, are reduced to the possible number. With `--qdisc prio` all are created,
/// with a warning.
#[test]
fn sixteen_bands_are_had_or_as_many_as_there_can_be() {
    let Some(network) = Network::new() else { return };
    for change in ["made", "unchanged"] {
        assert!(network.printed("uplink up uplink --rate 10mbit --bands 16").contains(change));
        let shown = network.json("uplink show uplink");
        assert_eq!((&shown["kind"], &shown["band_count"]), (&"htb".into(), &15.into()), "{shown}");
    }
    let prio = network.weir("uplink up uplink --rate 10mbit --qdisc prio");
    let said = String::from_utf8(prio.stderr).unwrap();
    if prio.status.success() {
        assert!(said.contains("warning: uplink: prio has no guaranteed shares"), "{said}");
        assert_eq!(network.json("uplink show uplink")["band_count"], 16);
        // If it is not specified, the kind stays; with a share it is htb.
        assert_eq!(network.json("uplink up uplink --rate 10mbit")["kind"], "prio");
        assert_eq!(network.json("uplink up uplink --rate 10mbit --share 3%")["kind"], "htb");
    } else {
        assert!(said.contains("this kernel has no prio"), "{said}");
    }
    network.printed("uplink down uplink");
}

#[test]
fn rates_change_in_place_and_shares_are_kept() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit --qdisc htb --share 3% --other-share 10% --bands 5");
    let changed = network.printed("uplink up uplink --rate 20mbit --share 3% --other-share 10% --bands 5");
    assert!(
        changed.contains("rates changed")
            && changed.contains("3 % for each band of larger responses and 10 % for other"),
        "{changed}"
    );
    let shown = network.json("uplink show uplink");
    let shares = (&shown["share_permille"], &shown["other_share_permille"], &shown["band_count"]);
    assert_eq!(shares, (&30.into(), &100.into(), &5.into()));
    // If it is not specified, the kind stays.
    let rebuilt = network.printed("uplink up uplink --rate 20mbit --packets 50");
    assert!(
        rebuilt.contains("15 bands of htb at 20mbit, 50 packets each") && rebuilt.contains("made anew"),
        "{rebuilt}"
    );
}

/// Needs the BPF programs, which a build without clang lacks.
#[test]
fn show_says_where_the_classifier_cuts() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit --bands 5 --qdisc htb");
    assert!(network.json("uplink show uplink")["bands"][2]["up_to"].is_null());
    let attached = network.weir("attach uplink --port 80 --policy psjf --cuts 4KB,64KB --no-watch");
    if !attached.status.success() {
        let why = String::from_utf8_lossy(&attached.stderr).into_owned();
        assert!(std::env::var("WEIR_REQUIRE_PRIVILEGED").as_deref() != Ok("1"), "not skipped here: {why}");
        println!("SKIPPED: {why}");
        return;
    }
    let shown = network.json("uplink show uplink");
    let up_to: Vec<Option<u64>> = (0..5).map(|band: usize| shown["bands"][band]["up_to"].as_u64()).collect();
    assert_eq!(up_to, [None, None, Some(4000), Some(64_000), None], "{shown}");
    assert_eq!(shown["up_to_unit"], "bytes");
    let lines = network.printed("uplink show uplink");
    assert!(lines.contains("a response's bytes decide") && lines.contains(" 64000 "), "{lines}");
}

#[test]
fn show_watches_as_often_as_told() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit");
    let lines = network.printed("uplink show uplink --json --watch --count 2");
    assert_eq!(lines.lines().map(|line| json(line)["interface"] == "uplink").collect::<Vec<_>>(), [true, true]);
}

/// The interface is deleted while it is watched.
#[test]
fn watching_ends_with_the_interface() {
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit");
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| network.weir("uplink show uplink --json --watch"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        network.command("ip link del uplink");
        let output = watching.join().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(1), "weir: the interface uplink has gone\n"));
    });
    assert!(network.refusal("uplink down uplink", 1).contains("there is no interface uplink"));
}

#[test]
fn somebody_elses_qdisc_is_put_back() {
    let Some(network) = Network::new() else { return };
    network.command("tc qdisc add dev uplink root handle 7: pfifo limit 77");
    let before = network.command("tc qdisc show dev uplink");
    let said = network.refusal("uplink up uplink --rate 10mbit", 1);
    assert!(said.contains("--replace"), "{said}");
    assert_eq!(network.command("tc qdisc show dev uplink"), before);
    network.printed("uplink up uplink --rate 10mbit --replace");
    network.printed("uplink down uplink");
    assert_eq!(network.command("tc qdisc show dev uplink"), before);
}

#[test]
fn mistakes_are_one_line() {
    let Some(network) = Network::new() else { return };
    for (args, status, said) in [
        ("uplink up weir9 --rate 10mbit", 1, "there is no interface weir9: `ip link` lists them"),
        ("uplink show weir9", 1, "there is no interface weir9"),
        ("uplink down weir9", 1, "there is no interface weir9"),
        ("uplink show uplink", 1, "uplink has no bands; run `weir uplink up uplink --rate RATE`"),
        ("uplink up uplink", 2, "--rate"),
        ("uplink up uplink --rate 0mbit", 2, "`0mbit` is not a rate"),
        ("uplink up uplink --rate 11gbit", 1, "above the 10gbit of uplink"),
        ("uplink up uplink --rate 10mbit --bands 17", 1, "17 bands"),
        ("uplink up uplink --rate 10mbit --bands 2", 1, "2 bands"),
        ("uplink up uplink --rate 10mbit --bands 16 --qdisc htb", 1, "16 bands: htb takes 3 to 15"),
        ("uplink up uplink --rate 10mbit --qdisc cake", 2, "cake"),
        ("uplink up uplink --rate 10mbit --qdisc htb --share 20%", 1, "write at most 5.7% for each band"),
        ("uplink up uplink --rate 10mbit --other-share 0%", 2, "--other-share"),
        ("uplink up uplink --rate 10mbit --qdisc prio --share 2%", 1, "a guaranteed share needs --qdisc htb"),
        ("uplink up uplink --rate 10mbit --packets 0", 1, "0 packets per band"),
        ("uplink up uplink --rate 10mbit --qdisc ranked", 2, "`--qdisc ranked` is gone: write htb"),
        ("uplink show uplink --count 3", 2, "--watch"),
    ] {
        let answer = network.refusal(args, status);
        assert!(answer.contains(said), "{args}: {answer}");
    }
    network.command("ip link set uplink down");
    let answer = network.refusal("uplink up uplink --rate 10mbit", 1);
    assert!(answer.contains("uplink is down"), "{answer}");
}

#[test]
fn doctor_says_of_everything_what_it_is_for() {
    let Some(network) = Network::new() else { return };
    let findings = network.json("uplink doctor");
    for finding in findings.as_array().unwrap() {
        // In a separate network namespace the kernel does not show whether it has a BPF JIT.
        let is_known = ["ok", "missing"].contains(&finding["state"].as_str().unwrap());
        assert!(is_known || finding["what"] == "BPF JIT", "{finding}");
        assert!(
            ["what", "used_for", "needs"].iter().all(|key| !finding[key].as_str().unwrap().is_empty()),
            "{finding}"
        );
    }
    let lines = network.printed("uplink doctor");
    let verdicts = "weir attach works here\nweir uplink up works here\n\n";
    let listed = lines.strip_prefix(verdicts).unwrap_or_else(|| panic!("{lines}"));
    assert_eq!(listed.lines().count(), findings.as_array().unwrap().len());
    assert!(lines.lines().any(|line| line.starts_with("ok") && line.contains(" htb ")), "{lines}");
    // Without privileges, it reports what it could not determine.
    let nobody =
        network.command(&format!("setpriv --reuid 65534 --clear-groups {} uplink doctor", env!("CARGO_BIN_EXE_weir")));
    assert!(nobody.contains("missing  CAP_NET_ADMIN") && nobody.contains("to find out, run as root"), "{nobody}");
    assert!(
        nobody.starts_with(
            "weir attach cannot work here: CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON missing\n\
             weir uplink up cannot work here: CAP_NET_ADMIN missing; htb unknown\n"
        ),
        "{nobody}"
    );
}
