//! The state that attaching and detaching leave behind.

use std::net::UdpSocket;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use super::*;

/// Runs a test at TCX, if this kernel has it, and as if the kernel had no TCX.
fn at_each_place(test: fn(Hook)) {
    for place in [Hook::Tcx, Hook::Clsact] {
        in_own_network(move || {
            tcx::IS_OFF.set(place == Hook::Clsact);
            match Hook::of_new(&lo()).unwrap() == place {
                true => test(place),
                false => println!("SKIPPED: this kernel has no TCX"),
            }
        });
    }
}

/// Runs a test only with TCX.
fn at_tcx(test: fn(Interface)) {
    in_own_network(move || match Hook::of_new(&lo()).unwrap() {
        Hook::Tcx => test(lo()),
        Hook::Clsact => println!("SKIPPED: this kernel has no TCX"),
    });
}

/// A step of these tests that is not a command of tc.
const LOSE_PROGRAM: &str = "lose the program";

/// Removes a part by hand.
fn remove(interface: &Interface, command: &str) {
    let at_tcx = filter::look(interface).unwrap().at_tcx;
    match command {
        LOSE_PROGRAM if at_tcx.is_empty() => run(&format!("tc qdisc del dev {} clsact", interface.name)),
        LOSE_PROGRAM => at_tcx.into_iter().for_each(|id| {
            let program = libbpf_rs::Program::fd_from_id(id).unwrap();
            tcx::detach(tcx::Side::Leaving, program.as_fd(), interface.index).unwrap();
        }),
        _ => run(command),
    }
}

const TCX_NEXT: i32 = -1;
const TCX_PASS: i32 = 0;

/// Loads a program of another party that returns this value.
fn cross_program(returned: i32) -> OwnedFd {
    let instruction = |code, imm| libbpf_sys::bpf_insn { code, imm, ..Default::default() };
    // r0 = returned; exit
    let program = [instruction(0xb7, returned), instruction(0x95, 0)];
    // SAFETY: the strings end with a zero, and libbpf reads as many instructions as given; all outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"another".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Returns the number of responses that the classifier sees when one is sent.
fn seen(interface: &Interface) -> u64 {
    let site = Site { interface: interface.clone() };
    site.during(|| Pair::new("127.0.0.1").answer(&[&plain(500)])).responses
}

/// The classifier comes before programs that were there earlier, and, after attaching again, before a program that was
/// put in front of it.
#[test]
fn the_classifier_is_first_at_tcx() {
    at_tcx(|interface| {
        let (pass, next) = (cross_program(TCX_PASS), cross_program(TCX_NEXT));
        tcx::attach_first(tcx::Side::Leaving, pass.as_fd(), interface.index).unwrap();
        attach(&interface, &wanted(Policy::Las)).unwrap();
        assert_eq!(seen(&interface), 1);
        let warned = || warnings(&interface).join(";");
        assert!(warned().contains("run after weir's on lo"), "{}", warned());
        // A program that passes packets on does no harm.
        tcx::attach_first(tcx::Side::Leaving, next.as_fd(), interface.index).unwrap();
        assert_eq!(seen(&interface), 1);
        tcx::detach(tcx::Side::Leaving, pass.as_fd(), interface.index).unwrap();
        tcx::attach_first(tcx::Side::Leaving, pass.as_fd(), interface.index).unwrap();
        assert_eq!(seen(&interface), 0);
        assert!(warned().contains("run before weir's on lo"), "{}", warned());
        attach(&interface, &wanted(Policy::Las)).unwrap();
        assert_eq!(seen(&interface), 1);
        let there = filter::look(&interface).unwrap();
        assert_eq!((there.at_tcx.len(), there.tcx_before.len(), there.tcx_after.len()), (1, 0, 2));
        assert!(detach(&interface).unwrap());
        assert_eq!(tcx::programs(interface.index).unwrap().unwrap().len(), 2);
    });
}

/// A packet of a response goes on to the programs and filters after the classifier.
#[test]
fn those_after_the_classifier_still_run() {
    at_tcx(|interface| {
        // SAFETY: no memory is touched; the new descriptor is ours.
        let stats = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        assert!(stats >= 0);
        // SAFETY: as above; while it is open, runs are counted.
        let _stats = unsafe { OwnedFd::from_raw_fd(stats) };
        let (program, last) = (cross_program(TCX_NEXT), cross_program(TCX_PASS));
        tcx::attach_first(tcx::Side::Leaving, program.as_fd(), interface.index).unwrap();
        attach(&interface, &wanted(Policy::Las)).unwrap();
        run("tc qdisc add dev lo clsact");
        let mut hook = libbpf_rs::TcHook::new(last.as_fd());
        hook.ifindex(interface.index as i32).attach_point(libbpf_rs::TC_EGRESS).handle(1).priority(7).attach().unwrap();
        let runs = || [&program, &last].map(|program| program::runs(program.as_fd()));
        let before = runs();
        assert_eq!(seen(&interface), 1);
        let after = runs();
        let [at_tcx, at_clsact] = [after[0] - before[0], after[1] - before[1]];
        assert!(at_tcx > 0 && at_tcx == at_clsact, "{at_tcx} {at_clsact}");
    });
}

/// Attaches as an earlier version did.
fn attach_to_clsact(interface: &Interface) -> Settings {
    tcx::IS_OFF.set(true);
    let settings = attach(interface, &wanted(Policy::Las)).unwrap();
    tcx::IS_OFF.set(false);
    assert!(settings.made_clsact);
    settings
}

#[test]
fn a_classifier_in_the_clsact_moves_to_tcx() {
    at_tcx(|interface| {
        let is_clean = || filter::look(&interface).unwrap() == filter::Filters::default();
        // The program was detached from the clsact.
        attach_to_clsact(&interface);
        let all = list().unwrap();
        assert_eq!((all.len(), all[0].place), (1, Hook::Clsact));
        assert!(detach(&interface).unwrap() && is_clean());
        // Attached again, it moves to TCX, and the parts made for the clsact are removed.
        attach_to_clsact(&interface);
        let settings = attach(&interface, &wanted(Policy::Las)).unwrap();
        assert!(settings.made_tree && !settings.made_clsact);
        let there = filter::look(&interface).unwrap();
        assert_eq!((there.at_tcx.len(), there.at_clsact, there.has_clsact), (1, None, false));
        assert!(detach(&interface).unwrap() && is_clean());
        // An empty clsact left by an interrupted attach is removed too.
        record::write(&interface, record::Made { tree: false, empty_clsact: true }).unwrap();
        run("tc qdisc add dev lo clsact");
        attach(&interface, &wanted(Policy::Las)).unwrap();
        assert!(!filter::look(&interface).unwrap().has_clsact);
        assert!(detach(&interface).unwrap() && is_clean());
    });
}

/// This holds if both programs were attached, and if only one was.
#[test]
fn killed_on_the_way_to_tcx_an_attach_is_undone() {
    at_tcx(|interface| {
        for remains in [true, false] {
            let settings = Settings { made_clsact: false, ..attach_to_clsact(&interface) };
            record::write(&interface, record::Made { tree: true, empty_clsact: true }).unwrap();
            let program = program::Program::load(&settings.to_bytes(), None).unwrap();
            let id = program.facts.id;
            let program = libbpf_rs::Program::fd_from_id(id).unwrap();
            tcx::attach_first(tcx::Side::Leaving, program.as_fd(), interface.index).unwrap();
            if !remains {
                run("tc filter del dev lo egress");
            }
            assert_eq!(list().unwrap().iter().map(|found| found.facts.id).collect::<Vec<_>>(), [id]);
            assert!(detach(&interface).unwrap());
            assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
            assert_eq!((tree::find(&interface).unwrap(), lost().unwrap()), (None, vec![]));
        }
    });
}

/// Two of our programs are attached, as after a kill between attaching the new one and detaching the old one.
#[test]
fn two_classifiers_at_tcx_become_one_or_none() {
    at_tcx(|interface| {
        let again = || attach(&interface, &wanted(Policy::Las)).unwrap();
        let two = || {
            let program = program::Program::load(&again().to_bytes(), None).unwrap();
            let program = libbpf_rs::Program::fd_from_id(program.facts.id).unwrap();
            tcx::attach_first(tcx::Side::Leaving, program.as_fd(), interface.index).unwrap();
            assert_eq!(filter::look(&interface).unwrap().at_tcx.len(), 2);
        };
        two();
        again();
        assert_eq!(filter::look(&interface).unwrap().at_tcx.len(), 1);
        two();
        assert!(detach(&interface).unwrap());
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
    });
}

/// A second program sees the packets of clients; it is attached and detached with the first.
#[test]
fn the_program_for_what_arrives_comes_and_goes_with_the_classifier() {
    at_tcx(|interface| {
        let arriving = || filter::look(&interface).unwrap().arriving;
        let wanted = wanted(Policy::Las);
        let lose = || {
            let program = libbpf_rs::Program::fd_from_id(arriving()[0]).unwrap();
            tcx::detach(tcx::Side::Arriving, program.as_fd(), interface.index).unwrap();
        };
        attach(&interface, &wanted).unwrap();
        let first = arriving();
        assert!(first.len() == 1 && is_in_place(&interface, &wanted).unwrap());
        attach(&interface, &wanted).unwrap();
        assert!(arriving().len() == 1 && arriving() != first);
        lose();
        assert!(!is_in_place(&interface, &wanted).unwrap());
        attach(&interface, &wanted).unwrap();
        assert!(is_in_place(&interface, &wanted).unwrap());
        // Either of the two may be lost.
        for lost in [false, true] {
            attach(&interface, &wanted).unwrap();
            if lost {
                remove(&interface, LOSE_PROGRAM)
            } else {
                lose()
            }
            assert!(detach(&interface).unwrap());
            assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        }
    });
}

/// TCX needs no qdisc other than the root.
#[test]
fn at_tcx_an_ingress_qdisc_is_no_hindrance_and_stays() {
    at_tcx(|interface| {
        run("tc qdisc add dev lo handle ffff: ingress");
        cross_filter("ingress", 7);
        attach(&interface, &wanted(Policy::Las)).unwrap();
        assert_eq!(seen(&interface), 1);
        assert!(detach(&interface).unwrap());
        let left = filter::look(&interface).unwrap();
        assert_eq!(left, filter::Filters { has_ingress: true, has_others: true, ..Default::default() });
    });
}

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
        // The sizes seen are kept, and connections continue.
        assert!(!attach(&site.interface, &learned()).unwrap().cuts.is_empty());
        let counted = site.during(|| pair.answer(&[&plain(500)]));
        assert_eq!((counted.responses, counted.sizes_read), (1, 1));
    });
}

#[test]
fn attaching_again_replaces_and_detaching_leaves_nothing() {
    at_each_place(|place| {
        let interface = lo();
        let first = attach(&interface, &wanted(Policy::Las)).unwrap();
        assert_eq!((first.made_tree, first.made_clsact), (true, place == Hook::Clsact));
        let again = attach(&interface, &Classify { ports: vec![443, 80], ..wanted(Policy::Psjf) }).unwrap();
        assert_eq!((again.made_tree, again.made_clsact), (true, place == Hook::Clsact));
        let all = list().unwrap();
        assert_eq!((all.len(), all[0].place), (1, place));
        assert_eq!(all[0].settings.as_ref().unwrap().ports, [80, 443]);
        println!("classify psjf: {:?}", all[0].facts);
        // Linux 6.18 makes 3,093 instructions of it, 7.3 makes 3,265.
        assert!(all[0].facts.instructions < 3300 && all[0].facts.verified_instructions < 200_000);
        assert!(detach(&interface).unwrap());
        assert!(!detach(&interface).unwrap());
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        assert_eq!(tree::find(&interface).unwrap(), None);
    });
}

/// Adds another program's filter, which matches nothing.
fn cross_filter(side: &str, priority: u32) {
    let priority = priority.to_string();
    let args = ["filter", "add", "dev", "lo", side, "pref", &priority, "bpf", "bytecode", "1,6 0 0 0"];
    assert!(std::process::Command::new("tc").args(args).status().unwrap().success());
}

#[test]
fn the_filters_and_trees_of_others_stay() {
    at_each_place(|place| {
        let interface = lo();
        tree::up(&interface, &tree::Plan::new(Kind::Htb, "1gbit".parse().unwrap()), false).unwrap();
        run("tc qdisc add dev lo clsact");
        cross_filter("ingress", 7);
        let settings = attach(&interface, &Classify { rate: None, ..wanted(Policy::Las) }).unwrap();
        assert!(!settings.made_tree && !settings.made_clsact);
        assert!(detach(&interface).unwrap());
        let left = filter::look(&interface).unwrap();
        assert!(left.has_clsact && left.has_others && left.ours().is_none());
        assert!(tree::find(&interface).unwrap().is_some());
        // Another program's filter in our place is not replaced.
        cross_filter("egress", filter::PRIORITY);
        match attach(&interface, &wanted(Policy::Las)) {
            Err(error) if place == Hook::Clsact => {
                assert!(error.to_string().contains("the place of weir's"), "{error}")
            }
            attached => assert!(attached.is_ok() && place == Hook::Tcx),
        }
    });
}

/// If there is no TCX, the kernel also accepts an egress filter at an ingress qdisc, and attaches it to ingress.
#[test]
fn an_ingress_qdisc_is_refused_before_anything_is_changed() {
    in_own_network(|| {
        tcx::IS_OFF.set(true);
        let interface = lo();
        run("tc qdisc add dev lo handle ffff: ingress");
        let said = attach(&interface, &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.contains("an ingress qdisc") && said.contains("tc qdisc add dev lo clsact"), "{said}");
        assert_eq!(preview(&interface, &wanted(Policy::Las)).unwrap_err().to_string(), said);
        let untouched = || filter::Filters { has_ingress: true, ..Default::default() };
        assert_eq!((filter::look(&interface).unwrap(), tree::find(&interface).unwrap()), (untouched(), None));
        // The parts left by an earlier version are found and removed, and the ingress stays.
        run("tc qdisc del dev lo ingress");
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let id = filter::look(&interface).unwrap().ours().unwrap();
        let program = program::Program::open(id).unwrap();
        run("tc qdisc del dev lo clsact");
        run("tc qdisc add dev lo handle ffff: ingress");
        program.attach(&interface).unwrap();
        assert_eq!(list().unwrap().len(), 1);
        assert!(detach(&interface).unwrap());
        assert_eq!(tree::find(&interface).unwrap(), None);
        let left = filter::look(&interface).unwrap();
        assert!(left.has_ingress && left.ours().is_none(), "{left:?}");
    });
}

#[test]
fn what_a_killed_attach_left_is_finished_or_removed() {
    at_each_place(|_| {
        let interface = lo();
        let made = attach(&interface, &wanted(Policy::Las)).unwrap();
        // The process was killed before the tree was made.
        tree::down(&interface).unwrap();
        assert_eq!(attach(&interface, &wanted(Policy::Las)).unwrap(), made);
        assert!(tree::find(&interface).unwrap().is_some());
        tree::down(&interface).unwrap();
        assert!(detach(&interface).unwrap());
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
    });
}

/// The process was killed before the program was attached, or after it was detached.
#[test]
fn an_empty_clsact_goes_if_an_attach_made_it() {
    in_own_network(|| {
        tcx::IS_OFF.set(true);
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
        // A clsact of another program stays.
        run("tc qdisc add dev lo clsact");
        assert!(!attach(&interface, &wanted(Policy::Las)).unwrap().made_clsact);
        assert!(detach(&interface).unwrap() && has_clsact());
        // A clsact that was added after ours was removed stays too.
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

/// Returns everything reported as missing.
fn told() -> Vec<String> {
    let missing = list().unwrap().iter().filter_map(Attached::missing).collect::<Vec<_>>();
    missing.into_iter().chain(lost().unwrap().into_iter().map(|lost| lost.what)).collect()
}

fn slow() -> Classify {
    Classify { rate: Some("10mbit".parse().unwrap()), replace: true, ..wanted(Policy::Las) }
}

/// Whichever part was removed, the rest is reported and removed.
#[test]
fn lost_pieces_are_told_and_taken_away() {
    at_each_place(|_| {
        let weir0 = a_pair();
        let segments = || crate::device::Device::of(&weir0).unwrap().unwrap().gso_max_segs;
        for (removed, what) in [
            ("tc qdisc del dev weir0 root", "removed the bands"),
            ("tc qdisc replace dev weir0 root handle 7: pfifo limit 77", "removed the bands"),
            ("tc qdisc del dev weir0 parent 5745:13", "some of the bands"),
            (LOSE_PROGRAM, "the classifier is gone"),
        ] {
            attach(&weir0, &slow()).unwrap();
            assert_eq!(told(), Vec::<String>::new());
            remove(&weir0, removed);
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
    at_each_place(|_| {
        let weir0 = a_pair();
        attach(&weir0, &slow()).unwrap();
        // After a repair, the tree still counts as made by attaching.
        remove(&weir0, LOSE_PROGRAM);
        assert!(attach(&weir0, &slow()).unwrap().made_tree);
        run("ip link del weir0");
        assert_eq!(told(), Vec::<String>::new());
        let anew = a_pair();
        let said = told();
        assert!(said.len() == 1 && said[0].contains("created again"), "{said:?}");
        assert!(detach(&anew).unwrap() && !detach(&anew).unwrap() && told().is_empty());
    });
}

/// Other filters may end the search before weir's, or set another priority after it.
#[test]
fn other_filters_are_named() {
    at_each_place(|place| {
        let interface = lo();
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let warned = || warnings(&interface);
        assert_eq!(warned(), Vec::<String>::new());
        if place == Hook::Tcx {
            run("tc qdisc add dev lo clsact");
        }
        cross_filter("ingress", 7);
        assert_eq!(warned(), Vec::<String>::new());
        cross_filter("egress", 7);
        cross_filter("egress", 0xc000);
        let said = warned();
        match place {
            Hook::Clsact => {
                assert!(
                    said.len() == 2 && said[0].contains("bpf (pref 7) before") && said[1].contains("after"),
                    "{said:?}"
                );
            }
            Hook::Tcx => assert!(said.len() == 1 && said[0].contains("(pref 7), bpf (pref 49152) after"), "{said:?}"),
        }
    });
}

/// The packets' size is restored even if the tree, or everything, was removed by hand.
#[test]
fn detaching_puts_the_packets_size_back_whoever_removed_the_tree() {
    at_each_place(|_| {
        let interface = lo();
        let segments = || crate::device::Device::of(&interface).unwrap().unwrap().gso_max_segs;
        let slow = Classify { rate: Some("10mbit".parse().unwrap()), ..wanted(Policy::Las) };
        for removed in [
            &["tc qdisc del dev lo root"][..],
            &["tc qdisc replace dev lo root handle 7: pfifo limit 77"],
            &["tc qdisc del dev lo root", LOSE_PROGRAM],
        ] {
            attach(&interface, &Classify { replace: true, ..slow.clone() }).unwrap();
            assert_eq!(segments(), 1);
            removed.iter().for_each(|command| remove(&interface, command));
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
            assert!(said.starts_with("the interface weir0 was created again meanwhile"), "{said}");
        }
        let anew = Interface::by_name("weir0").unwrap();
        assert_eq!(filter::look(&anew).unwrap(), filter::Filters::default());
        assert_eq!(tree::find(&anew).unwrap(), None);
    });
}

#[test]
fn a_failure_leaves_the_interface_as_it_was() {
    at_each_place(|_| {
        let interface = lo();
        run("tc qdisc add dev lo root handle 7: pfifo limit 50");
        let said = attach(&interface, &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.contains("pfifo") && !said.contains('\n'), "{said}");
        assert_eq!(filter::look(&interface).unwrap(), filter::Filters::default());
        run("tc qdisc del dev lo root");
        // The earlier program is restored.
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let before = find(&interface).unwrap().unwrap();
        let rate = Some("1bit".parse().unwrap());
        assert!(attach(&interface, &Classify { rate, ..wanted(Policy::Psjf) }).is_err());
        assert_eq!(find(&interface).unwrap().unwrap().facts.id, before.facts.id);
    });
}

/// The kernel refuses to change the bands after both programs have been replaced.
#[test]
fn a_refused_change_leaves_both_programs_as_they_were() {
    at_each_place(|_| {
        let interface = lo();
        attach(&interface, &wanted(Policy::Las)).unwrap();
        let before = filter::look(&interface).unwrap();
        tree::IS_REFUSED.set(true);
        let refused = attach(&interface, &wanted(Policy::Psjf));
        tree::IS_REFUSED.set(false);
        assert!(refused.unwrap_err().to_string().contains("refused"));
        assert_eq!(filter::look(&interface).unwrap(), before);
    });
}

/// A preview includes errors that only the tree reports, and the shares are the ones that will be there.
#[test]
fn a_preview_is_what_attaching_does() {
    at_each_place(|place| {
        let interface = lo();
        let slow = Classify { rate: Some("9500kbit".parse().unwrap()), ..wanted(Policy::Las) };
        for (root, refusal) in [
            ("htb default 1", "a htb, which weir cannot restore"),
            ("tbf rate 10mbit burst 5k limit 9k", "a tbf, which weir cannot restore"),
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
        let Preview { settings, tree, is_again, place: planned } = preview(&interface, &slow).unwrap();
        assert_eq!((filter::look(&interface).unwrap(), is_again), (filter::Filters::default(), false));
        assert_eq!(attach(&interface, &slow).unwrap(), settings);
        assert_eq!([planned, find(&interface).unwrap().unwrap().place], [place, place]);
        assert_eq!(tree::find(&interface).unwrap().unwrap().plan, tree);
    });
}

/// Datagrams that wait in the bands do not count against the send buffer of their socket, which serves other clients too.
#[test]
fn a_socket_whose_datagrams_wait_can_send_to_others() {
    at_each_place(|_| {
        let interface = lo();
        attach(&interface, &Classify { rate: Some("100kbit".parse().unwrap()), ..wanted(Policy::Psjf) }).unwrap();
        let server = UdpSocket::bind(("127.0.0.1", PORT)).unwrap();
        server.set_nonblocking(true).unwrap();
        let clients = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [old, young] = clients.each_ref().map(|client| client.local_addr().unwrap());
        let send = |to, count| (0..count).filter(|_| server.send_to(&[1; 1200], to).is_ok()).count();
        let (mut sent, count, site) = (0, 400, Site { interface });
        let counted = site.during(|| sent = send(old, count));
        assert_eq!(sent, count);
        // Each once.
        assert_eq!((counted.by_flow, bands(&counted)), (count as u64, vec![2, 3, 4]));
        assert_eq!((send(young, 1), clients[1].recv(&mut [0; 1500]).unwrap()), (1, 1200));
        let last = tree::find(&site.interface).unwrap().unwrap().stats().unwrap()[4];
        assert!(last.backlog_packets > 0 && last.drops > 0, "{last:?}");
    });
}

/// Sends only other traffic, then a response.
#[test]
fn whoever_looks_is_told_whether_responses_are_seen() {
    with(wanted(Policy::Psjf), |site| {
        assert_eq!(look(&site.interface).unwrap(), Verdict::NoTraffic);
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let others = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            // The datagrams are sent to a socket that never reads: the kernel drops those that do not fit.
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

/// Drops the capabilities of this thread only, which ends with the test.
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
        let held = CapabilitySet::NET_ADMIN;
        let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).unwrap();
        run("ip link add weir0 type veth peer name weir1");
        run("ip link set weir0 up");
        let said = attach(&Interface::by_name("weir0").unwrap(), &wanted(Policy::Las)).unwrap_err().to_string();
        assert!(said.starts_with("loading the classifier: not allowed, this needs root or CAP_SYS_ADMIN"), "{said}");
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
