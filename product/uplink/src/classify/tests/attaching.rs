//! What attaching and detaching leave.

use super::*;

#[test]
fn cuts_are_learned_from_what_was_sent() {
    with(wanted(Policy::Psjf), |site| {
        let mut pair = Pair::new("127.0.0.1");
        let learned = || Classify { cuts: Cuts::Learned, ..wanted(Policy::Psjf) };
        assert!(attach(&site.interface, &learned()).unwrap_err().to_string().contains("64 responses"));
        for _ in 0..80 {
            pair.answer(&[&plain(10_000)]);
        }
        let cuts = attach(&site.interface, &learned()).unwrap().cuts;
        assert!(cuts.iter().all(|cut| (8192..=12_288).contains(cut)) && !cuts.is_empty(), "{cuts:?}");
        // What was seen is remembered, and connections go on.
        assert!(!attach(&site.interface, &learned()).unwrap().cuts.is_empty());
        let counted = site.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((counted.responses, counted.sizes_read), (1, 1));
    });
}

#[test]
fn attaching_again_replaces_and_detaching_leaves_nothing() {
    in_own_network(|| {
        let interface = lo();
        let first = attach(&interface, &wanted(Policy::Las)).unwrap();
        assert!(first.made_tree && first.made_clsact);
        let again = attach(&interface, &Classify { ports: vec![443, 80], ..wanted(Policy::Psjf) }).unwrap();
        assert!(again.made_tree && again.made_clsact);
        let all = list().unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].settings.as_ref().unwrap().ports, [80, 443]);
        println!("classify psjf: {:?}", all[0].facts);
        assert!(all[0].facts.instructions < 2000 && all[0].facts.verified_instructions < 200_000);
        assert!(detach(&interface).unwrap());
        assert!(!detach(&interface).unwrap());
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        assert_eq!(tree::find(&interface).unwrap(), None);
    });
}

/// A filter of somebody else's that matches nothing.
fn foreign_filter(side: &str, priority: u32) {
    let priority = priority.to_string();
    let args = ["filter", "add", "dev", "lo", side, "pref", &priority, "bpf", "bytecode", "1,6 0 0 0"];
    assert!(std::process::Command::new("tc").args(args).status().unwrap().success());
}

#[test]
fn the_filters_and_trees_of_others_stay() {
    in_own_network(|| {
        let interface = lo();
        tree::up(&interface, &tree::Plan::new(Kind::Htb, "1gbit".parse().unwrap()), false).unwrap();
        run("tc qdisc add dev lo clsact");
        foreign_filter("ingress", 7);
        let settings = attach(&interface, &Classify { rate: None, ..wanted(Policy::Las) }).unwrap();
        assert!(!settings.made_tree && !settings.made_clsact);
        assert!(detach(&interface).unwrap());
        let left = filter::look(&interface).unwrap();
        assert!(left.has_clsact && left.has_others && left.ours.is_none());
        assert!(tree::find(&interface).unwrap().is_some());
        // Somebody else in our place is not pushed out.
        foreign_filter("egress", filter::PRIORITY);
        let said = attach(&interface, &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.contains("the place of weir's"), "{said}");
    });
}

/// The kernel takes a filter for what leaves there too, and hangs it at what comes in.
#[test]
fn an_ingress_qdisc_is_refused_before_anything_is_changed() {
    in_own_network(|| {
        let interface = lo();
        run("tc qdisc add dev lo handle ffff: ingress");
        let said = attach(&interface, &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.contains("an ingress qdisc") && said.contains("tc qdisc add dev lo clsact"), "{said}");
        assert_eq!(preview(&interface, &wanted(Policy::Las)).unwrap_err().to_string(), said);
        let untouched = || filter::Filters { has_ingress: true, ..Default::default() };
        assert_eq!((filter::look(&interface).unwrap(), tree::find(&interface).unwrap()), (untouched(), None));
        // What an earlier version left is seen and taken away, and the ingress stays.
        run("tc qdisc del dev lo ingress");
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let id = filter::look(&interface).unwrap().ours.unwrap();
        let program = program::Program::open(id).unwrap();
        run("tc qdisc del dev lo clsact");
        run("tc qdisc add dev lo handle ffff: ingress");
        program.hang(&interface).unwrap();
        assert_eq!(list().unwrap().len(), 1);
        assert!(detach(&interface).unwrap());
        assert_eq!(tree::find(&interface).unwrap(), None);
        let left = filter::look(&interface).unwrap();
        assert!(left.has_ingress && left.ours.is_none(), "{left:?}");
    });
}

#[test]
fn what_a_killed_attach_left_is_finished_or_removed() {
    in_own_network(|| {
        let interface = lo();
        let made = attach(&interface, &wanted(Policy::Las)).unwrap();
        // Killed before the tree was made.
        tree::down(&interface).unwrap();
        assert_eq!(attach(&interface, &wanted(Policy::Las)).unwrap(), made);
        assert!(tree::find(&interface).unwrap().is_some());
        tree::down(&interface).unwrap();
        assert!(detach(&interface).unwrap());
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
    });
}

/// Killed before the program hung, or after it was taken down.
#[test]
fn an_empty_clsact_goes_if_an_attach_made_it() {
    in_own_network(|| {
        let interface = lo();
        let has_clsact = || filter::look(&interface).unwrap().has_clsact;
        let left = record::Made { tree: true, empty_clsact: true };
        let leave = || {
            record::write(&interface, left).unwrap();
            run("tc qdisc add dev lo clsact");
        };
        leave();
        assert_eq!(lost().unwrap().len(), 1);
        assert!(detach(&interface).unwrap() && !has_clsact());
        assert_eq!(lost().unwrap(), []);
        leave();
        assert!(attach(&interface, &wanted(Policy::Las)).unwrap().made_clsact);
        assert!(detach(&interface).unwrap() && !has_clsact());
        // Somebody else's own stays.
        run("tc qdisc add dev lo clsact");
        assert!(!attach(&interface, &wanted(Policy::Las)).unwrap().made_clsact);
        assert!(detach(&interface).unwrap() && has_clsact());
        // Also one that was added after ours was removed.
        run("tc qdisc del dev lo clsact");
        attach(&interface, &wanted(Policy::Las)).unwrap();
        run("tc qdisc del dev lo clsact");
        run("tc qdisc add dev lo clsact");
        assert!(detach(&interface).unwrap() && has_clsact());
        assert!(!detach(&interface).unwrap());
    });
}

fn a_pair() -> Interface {
    run("ip link add weir0 type veth peer name weir1");
    run("ip link set weir0 up");
    Interface::by_name("weir0").unwrap()
}

/// What is said to be missing.
fn told() -> Vec<String> {
    let missing = list().unwrap().iter().filter_map(Attached::missing).collect::<Vec<_>>();
    missing.into_iter().chain(lost().unwrap().into_iter().map(|lost| lost.what)).collect()
}

fn slow() -> Classify {
    Classify { rate: Some("10mbit".parse().unwrap()), replace: true, ..wanted(Policy::Las) }
}

/// Whatever of it somebody removed, what is left is told and taken away.
#[test]
fn lost_pieces_are_told_and_taken_away() {
    in_own_network(|| {
        let weir0 = a_pair();
        let segments = || crate::device::Device::of(&weir0).unwrap().unwrap().gso_max_segs;
        for (removed, what) in [
            ("tc qdisc del dev weir0 root", "removed the bands"),
            ("tc qdisc replace dev weir0 root handle 7: pfifo limit 77", "removed the bands"),
            ("tc qdisc del dev weir0 parent 5745:13", "some of the bands"),
            ("tc qdisc del dev weir0 clsact", "the classifier is gone"),
        ] {
            attach(&weir0, &slow()).unwrap();
            assert_eq!(told(), Vec::<String>::new());
            run(removed);
            let said = told();
            assert!(said.len() == 1 && said[0].contains(what) && said[0].contains("--detach weir0"), "{said:?}");
            assert!(detach(&weir0).unwrap(), "{removed}");
            assert_eq!((told(), segments()), (vec![], 65_535), "{removed}");
            assert_eq!(filter::look(&weir0).unwrap(), filter::Filters::default());
            assert_eq!(tree::find(&weir0).unwrap(), None);
            if removed.contains("pfifo") {
                run("tc qdisc del dev weir0 root");
            }
        }
    });
}

#[test]
fn an_interface_made_anew_is_told_and_forgotten() {
    in_own_network(|| {
        let weir0 = a_pair();
        attach(&weir0, &slow()).unwrap();
        // Made whole again, the tree is still one that attaching made.
        run("tc qdisc del dev weir0 clsact");
        assert!(attach(&weir0, &slow()).unwrap().made_tree);
        run("ip link del weir0");
        assert_eq!(told(), Vec::<String>::new());
        let anew = a_pair();
        let said = told();
        assert!(said.len() == 1 && said[0].contains("made anew"), "{said:?}");
        assert!(detach(&anew).unwrap() && !detach(&anew).unwrap() && told().is_empty());
    });
}

/// They may end the search before weir's, or set another priority after it.
#[test]
fn other_filters_and_programs_are_named() {
    with(wanted(Policy::Las), |site| {
        let warned = || warnings(&site.interface);
        assert_eq!(warned(), Vec::<String>::new());
        foreign_filter("ingress", 7);
        assert_eq!(warned(), Vec::<String>::new());
        foreign_filter("egress", 7);
        foreign_filter("egress", 0xc000);
        let said = warned();
        assert!(said.len() == 2 && said[0].contains("bpf (pref 7) before") && said[1].contains("after"), "{said:?}");
    });
}

/// Taking the tree, or all of it, away by hand is no reason to leave the packets small.
#[test]
fn detaching_puts_the_packets_size_back_whoever_removed_the_tree() {
    in_own_network(|| {
        let interface = lo();
        let segments = || crate::device::Device::of(&interface).unwrap().unwrap().gso_max_segs;
        let slow = Classify { rate: Some("10mbit".parse().unwrap()), ..wanted(Policy::Las) };
        for removed in [
            &["tc qdisc del dev lo root"][..],
            &["tc qdisc replace dev lo root handle 7: pfifo limit 77"],
            &["tc qdisc del dev lo root", "tc qdisc del dev lo clsact"],
        ] {
            attach(&interface, &Classify { replace: true, ..slow.clone() }).unwrap();
            assert_eq!(segments(), 1);
            removed.iter().for_each(|command| run(command));
            assert!(detach(&interface).unwrap(), "{removed:?}");
            assert_eq!(segments(), 65_535, "{removed:?}");
            assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        }
        assert!(!detach(&interface).unwrap());
    });
}

#[test]
fn an_interface_that_goes_or_is_made_anew_is_told_by_name() {
    in_own_network(|| {
        let make = || {
            run("ip link add weir0 type veth peer name weir1");
            run("ip link set weir0 up");
        };
        make();
        let weir0 = Interface::by_name("weir0").unwrap();
        attach(&weir0, &wanted(Policy::Las)).unwrap();
        run("ip link del weir0");
        let outcomes = || [attach(&weir0, &wanted(Policy::Las)).map(|_| ()), detach(&weir0).map(|_| ())];
        for outcome in outcomes() {
            assert_eq!(outcome.unwrap_err().to_string(), "the interface weir0 has gone");
        }
        assert_eq!(list().unwrap(), []);
        make();
        for outcome in outcomes() {
            let said = outcome.unwrap_err().to_string();
            assert!(said.starts_with("the interface weir0 was made anew meanwhile"), "{said}");
        }
        let anew = Interface::by_name("weir0").unwrap();
        assert_eq!(filter::look(&anew).unwrap(), filter::Filters::default());
        assert_eq!(tree::find(&anew).unwrap(), None);
    });
}

#[test]
fn a_failure_leaves_the_interface_as_it_was() {
    in_own_network(|| {
        let interface = lo();
        run("tc qdisc add dev lo root handle 7: pfifo limit 50");
        let said = attach(&interface, &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.contains("pfifo") && !said.contains('\n'), "{said}");
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        run("tc qdisc del dev lo root");
        // The earlier program is put back.
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let before = find(&interface).unwrap().unwrap();
        let rate = Some("1bit".parse().unwrap());
        assert!(attach(&interface, &Classify { rate, ..wanted(Policy::Psjf) }).is_err());
        assert_eq!(find(&interface).unwrap().unwrap().facts.id, before.facts.id);
    });
}

/// Also what only the tree refuses; and the shares are those that will be there.
#[test]
fn a_preview_is_what_attaching_does() {
    in_own_network(|| {
        let interface = lo();
        let slow = Classify { rate: Some("9500kbit".parse().unwrap()), ..wanted(Policy::Las) };
        for (root, refusal) in [
            ("htb default 1", "a htb, which weir cannot put back"),
            ("tbf rate 10mbit burst 5k limit 9k", "a tbf, which weir cannot put back"),
            ("pfifo limit 77", "--replace"),
        ] {
            run(&format!("tc qdisc add dev lo root handle 7: {root}"));
            for rate in [slow.rate, None] {
                let wanted = Classify { rate, ..slow.clone() };
                let said = preview(&interface, &wanted).unwrap_err().to_string();
                assert!(said.contains(refusal), "{said}");
                assert_eq!(attach(&interface, &wanted).unwrap_err().to_string(), said);
            }
            run("tc qdisc del dev lo root");
        }
        let Preview { settings, tree, is_again } = preview(&interface, &slow).unwrap();
        assert_eq!((filter::look(&interface).unwrap(), is_again), (filter::Filters::default(), false));
        assert_eq!(attach(&interface, &slow).unwrap(), settings);
        assert_eq!(tree::find(&interface).unwrap().unwrap().plan, tree);
    });
}

/// Traffic of others alone, and a response.
#[test]
fn whoever_looks_is_told_whether_responses_are_seen() {
    with(wanted(Policy::Psjf), |site| {
        assert_eq!(look(&site.interface).unwrap(), Verdict::NoTraffic);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let others = std::thread::spawn(move || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            // To itself, which reads nothing: the kernel loses what does not fit.
            while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                socket.send_to(&[0; 100], socket.local_addr().unwrap()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let verdict = look(&site.interface).unwrap();
        drop(done);
        others.join().unwrap();
        assert!(matches!(verdict, Verdict::NotSeen(_)), "{verdict:?}");
        let settings = find(&site.interface).unwrap().unwrap().settings.unwrap();
        assert!(verdict.said("lo", &settings).unwrap().contains("port 8000"));
        Pair::new("127.0.0.1").answer(&[&plain(10_000)]);
        assert_eq!(look(&site.interface).unwrap(), Verdict::Ordered);
    });
}

/// Of this thread alone, which ends with the test.
#[test]
fn the_right_that_is_missing_is_named() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    in_own_network(|| {
        let interface = lo();
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let held = CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::PERFMON;
        let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).unwrap();
        for said in [
            list().unwrap_err(),
            detach(&interface).unwrap_err(),
            attach(&interface, &wanted(Policy::Las)).unwrap_err(),
        ] {
            let said = said.to_string();
            assert!(
                said.starts_with("opening the classifier: not allowed, this needs root or CAP_SYS_ADMIN"),
                "{said}"
            );
        }
    });
}

#[test]
fn mistakes_are_said_in_a_line_before_anything_is_changed() {
    in_own_network(|| {
        let down = Interface::by_name("lo").unwrap();
        let said = |wanted: Classify| {
            let said = attach(&Interface::by_name("lo").unwrap(), &wanted).unwrap_err().to_string();
            assert!(!said.contains('\n'), "{said}");
            said
        };
        assert!(said(wanted(Policy::Las)).contains("ip link set lo up"));
        lo();
        assert!(said(Classify { ports: vec![], ..wanted(Policy::Las) }).contains("--port"));
        assert!(said(Classify { rate: None, ..wanted(Policy::Las) }).contains("--rate"));
        assert!(said(Classify { cuts: Cuts::Learned, ..wanted(Policy::Srrt) }).contains("srrt"));
        assert_eq!(filter::look(&down).unwrap(), filter::Filters::default());
    });
}
