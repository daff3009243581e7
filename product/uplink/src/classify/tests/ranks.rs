//! The ranks that the program calculates equal the ranks of `sched`.

use libbpf_rs::ProgramInput;

use super::*;
use crate::testing::loaded;

/// bpf/rank.h as a separate program; empty without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rank-test.bpf.o"));
/// The table by which `sched` is tested too.
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
    /// Returns the value by which the program orders.
    fn ask(self, program: &libbpf_rs::ProgramMut<'_>) -> u64 {
        let longs = [self.begin, self.end, self.offset, self.shown, 0];
        let words = [self.policy.number(), self.srtt_us, self.segments, self.segment_bytes];
        let mut bytes: Vec<u8> = longs.iter().flat_map(|long| long.to_ne_bytes()).collect();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        program.test_run(input).unwrap();
        u64::from_ne_bytes(bytes[32..40].try_into().unwrap())
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
        // The response comes after other responses of the connection.
        let begin = 1_000_000;
        let question = Question {
            policy: *Policy::ALL.iter().find(|policy| policy.name() == fields[0]).unwrap(),
            begin,
            end: fields[1].parse::<u64>().map_or(0, |size| begin + size),
            offset: begin + number(2),
            shown: 0,
            // The kernel stores eighths of a microsecond.
            srtt_us: u32::try_from(number(3) * 8).unwrap(),
            segments: number(4) as u32,
            segment_bytes: number(5) as u32,
        };
        assert_eq!(question.ask(&program), number(6), "{row}");
    }
}

/// Bytes known to follow count if the size is unknown, and never under las.
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
        // The response is longer than declared.
        (Policy::Psjf, 3500, 50_000, 49_000),
        (Policy::Psjf, 0, 4000, 3000),
        (Policy::Psjf, 0, 1500, 3000),
    ] {
        let asked = question(policy, end, shown).ask(&program);
        assert_eq!(asked, value, "{policy:?}, end {end}, shown {shown}");
    }
}
