//! The ranks that the program works out are those of `sched`.

use libbpf_rs::{MapCore, MapFlags, ProgramInput, TC_EGRESS, TcHook};

use super::*;
use crate::testing::{loaded, skip};

/// bpf/rank.h as a program of its own; empty without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rank-test.bpf.o"));
/// What `sched` is tested on too.
const ROWS: &str = include_str!("../../../../../core/sched/src/policy/ranks.csv");

/// `struct question` of bpf/rank-test.bpf.c.
#[derive(Clone, Copy)]
struct Question {
    policy: Policy,
    begin: u64,
    end: u64,
    offset: u64,
    shown: u64,
    srtt_us: u32,
    segments: u32,
    segment_bytes: u32,
}

impl Question {
    /// The value that the program orders by, and the rank it makes of it.
    fn ask(self, program: &libbpf_rs::ProgramMut<'_>) -> (u64, u64) {
        let longs = [self.begin, self.end, self.offset, self.shown, 0, 0];
        let words = [self.policy.number(), self.srtt_us, self.segments, self.segment_bytes];
        let mut bytes: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        program.test_run(input).unwrap();
        let long = |at: usize| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
        (long(4), long(5))
    }
}

#[test]
fn ranks_are_those_of_sched() {
    let Some(object) = loaded(OBJECT) else { return };
    let program = object.progs_mut().find(|program| program.name() == "weir_rank").unwrap();
    let rows: Vec<&str> = ROWS.lines().filter(|line| !line.starts_with('#')).skip(1).collect();
    assert!(rows.len() > 20);
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        // Behind other responses of the connection.
        let begin = 1_000_000;
        let question = Question {
            policy: *Policy::ALL.iter().find(|policy| policy.name() == fields[0]).unwrap(),
            begin,
            end: fields[1].parse::<u64>().map_or(0, |size| begin + size),
            offset: begin + number(2),
            shown: 0,
            // The kernel keeps eighths.
            srtt_us: u32::try_from(number(3) * 8).unwrap(),
            segments: number(4) as u32,
            segment_bytes: number(5) as u32,
        };
        let (value, rank) = question.ask(&program);
        assert_eq!(value, number(6), "{row}");
        assert_eq!(rank, value.clamp(17, RANK_BEHIND - 1), "{row}");
    }
}

/// What is known to follow counts where the size is not known, and under las never.
#[test]
fn what_is_shown_to_follow_ranks_where_no_size_is_known() {
    let Some(object) = loaded(OBJECT) else { return };
    let program = object.progs_mut().find(|program| program.name() == "weir_rank").unwrap();
    let question = |policy, end, shown| Question {
        policy,
        begin: 1000,
        end,
        offset: 4000,
        shown,
        srtt_us: 0,
        segments: 0,
        segment_bytes: 0,
    };
    for (policy, end, shown, value) in [
        (Policy::Psjf, 0, 50_000, 49_000),
        (Policy::Srpt, 0, 50_000, 49_000),
        (Policy::Las, 0, 50_000, 3000),
        (Policy::Psjf, 9000, 50_000, 8000),
        // Longer than it was said to be.
        (Policy::Psjf, 3500, 50_000, 49_000),
        (Policy::Psjf, 0, 4000, 3000),
        (Policy::Psjf, 0, 1500, 3000),
    ] {
        let asked = question(policy, end, shown).ask(&program);
        assert_eq!(asked.0, value, "{policy:?}, end {end}, shown {shown}");
    }
}

/// Ranks below 17 are other traffic's and control's, which have queues of their own: there a response's beginning would be sent in
/// other traffic's share, apart from the rest of its connection.
#[test]
fn without_storage_data_ranks_as_data() {
    const LIMIT: &str = "/proc/sys/net/core/optmem_max";
    in_own_network(|| {
        let Some(object) = loaded(OBJECT) else { return };
        if !std::path::Path::new(LIMIT).exists() {
            return skip("a network has no limit of its own on what sockets store (Linux before 6.8)");
        }
        let interface = lo();
        let settings = Settings {
            policy: Policy::Las,
            target: Target::Ranked,
            made_clsact: true,
            made_tree: false,
            cuts: vec![],
            priorities: Default::default(),
            ports: vec![PORT],
            share: None,
        };
        Program::load(&settings.to_bytes(), None).unwrap().hang(&interface).unwrap();
        let seer = object.progs_mut().find(|program| program.name() == "weir_see").unwrap();
        let mut hook = TcHook::new(seer.as_fd());
        hook.ifindex(interface.index as i32).attach_point(TC_EGRESS).handle(1).priority(u32::from(u16::MAX));
        hook.create().unwrap();
        hook.attach().unwrap();
        let last = object.maps().find(|map| map.name() == "weir_last").unwrap();
        let last = || last.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let site = Site { interface };
        let mut pair = Pair::new("127.0.0.1");
        std::fs::write(LIMIT, "1").unwrap();
        // The second is ranked by the seven bytes before it.
        for response in [&b"seven b"[..], b"y"] {
            assert_eq!(site.during(|| pair.answer(&[response])).no_storage, 1);
            assert_eq!(last(), 17u32.to_ne_bytes());
            drained(&pair.server);
        }
    });
}
