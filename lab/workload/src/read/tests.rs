use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use units::Nanos;

use super::*;

const CSV: &str = "epoch_s,size_bytes,status\n12.5,900,200\n3,0,304\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read_any(bytes: &[u8]) -> Result<Log, ReadError> {
    read(bytes, &ReadOptions::default())
}

fn said(bytes: &[u8]) -> String {
    read_any(bytes).unwrap_err().to_string()
}

/// Records from 894,038,400 s on with these sizes, all with status 200.
fn records(sizes: &[u32]) -> Vec<u8> {
    let record = |(index, size): (usize, &u32)| {
        let at = (894_038_400 + index as u32).to_be_bytes();
        [&at[..], &[0; 8], &size.to_be_bytes(), &[0, 0x42, 1, 0x60]].concat()
    };
    sizes.iter().enumerate().flat_map(record).collect()
}

#[test]
fn the_same_log_plain_and_gzipped() {
    let log = read_any(CSV.as_bytes()).unwrap();
    let at: Vec<Nanos> = log.requests.iter().map(|request| request.at).collect();
    assert_eq!(at, [Nanos::from_secs(3), Nanos::from_millis(12_500)]);
    assert_eq!((log.whole_seconds, log.bad.count), (false, 0));
    assert_eq!(read_any(&gzip(CSV.as_bytes())).unwrap(), log);
    // Two gzip members, as `cat a.gz b.gz` creates.
    let (head, tail) = CSV.split_at(30);
    let members = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    assert_eq!(read_any(&members).unwrap(), log);
}

#[test]
fn world_cup_records() {
    let log = read_any(&gzip(&records(&[5, u32::MAX, 7]))).unwrap();
    let sizes: Vec<u64> = log.requests.iter().map(|request| request.size_bytes).collect();
    assert_eq!((log.format, log.whole_seconds), (Format::WorldCup, true));
    assert_eq!(sizes, [5, 0, 7]);
}

/// A host is one client however often it appears. A bad line's host does not count, and numbers are kept.
#[test]
fn clients_are_read() {
    let clients = |bytes: &[u8]| -> Vec<Option<u32>> {
        read_any(bytes).unwrap().requests.iter().map(|request| request.client).collect()
    };
    let line = |host: &str, second: u8, rest: &str| {
        format!("{host} - - [09/Jul/1995:00:00:{second:02} -0400] \"GET /\" {rest}\n")
    };
    let log = [
        line("b.example", 3, "200 5"),
        line("bad.example", 3, "OK 5"),
        line("a.example", 1, "200 5"),
        line("b.example", 2, "304 -"),
        line("192.0.2.7", 4, "200 5"),
    ];
    assert_eq!(clients(log.concat().as_bytes()), [Some(1), Some(0), Some(0), Some(2)]);
    assert_eq!(clients(b"1,5,200,70000\n2,5,200\n3,5,,4\n"), [Some(70_000), None, Some(4)]);
    assert_eq!(clients(&records(&[5, 6])), [Some(0), Some(0)]);
    assert_eq!(clients(b"44,30/Apr/1998,22:46:12,/a.gif,200,508\n"), [Some(44)]);
}

#[test]
fn a_broken_record_at_the_end_is_said() {
    let whole = records(&[5, 6]);
    let log = read_any(&whole[..33]).unwrap();
    assert_eq!((log.requests.len(), log.bad.count, log.bad.first[0].line), (1, 1, 2));
    assert!(log.bad.first[0].reason.contains("ends inside a record"));
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert_eq!(read(&whole[..33], &strict).unwrap_err().line(), Some(2));
}

#[test]
fn bad_lines_are_counted_numbered_and_passed_over() {
    let log = read_any(b"epoch_s,size_bytes\n1,2\n\nx,3\n4,y\x1b[31m\n5,6").unwrap();
    assert_eq!((log.requests.len(), log.bad.count), (2, 2));
    assert_eq!(log.bad.first[0].line, 4);
    let bad = &log.bad.first[1];
    assert_eq!((bad.line, bad.text.as_str()), (5, "4,y\\x1b[31m"), "a terminal is never given control bytes");
    assert!(bad.reason.contains("size"));
}

#[test]
fn many_bad_lines_stay_small() {
    let text = format!("1,2\n{}", "bad\n".repeat(1000));
    let log = read_any(text.as_bytes()).unwrap();
    assert_eq!((log.bad.count, log.bad.first.len()), (1000, BAD_LINES_KEPT));
}

#[test]
fn strict_stops_at_the_first_bad_line() {
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    let error = read("1,2\nx,3\ny,4\n".as_bytes(), &strict).unwrap_err();
    assert_eq!(error.line(), Some(2));
    assert_eq!(error.to_string(), "the time is not decimal seconds such as 894038400 or 12.345678: `x,3`");
}

#[test]
fn a_line_without_end_is_one_bad_line() {
    let text = [b"1,2\n".to_vec(), vec![b'7'; 3 * LINE_BYTES_MAX], b"\n3,4\n".to_vec()].concat();
    let log = read_any(&text).unwrap();
    assert_eq!((log.requests.len(), log.bad.count, log.bad.first[0].line), (2, 1, 2));
    assert_eq!(log.bad.first[0].reason, LINE_TOO_LONG);
}

#[test]
fn nothing_and_nonsense_are_told_apart() {
    assert_eq!(said(b""), "the file is empty");
    assert_eq!(said(&gzip(b"")), "the file is empty");
    for nonsense in [&b"<html>\n"[..], b"\0\0\0", &[0xff; 100]] {
        assert!(said(nonsense).contains("columns epoch_s,size_bytes,status"));
    }
}

#[test]
fn a_header_alone_is_an_empty_log() {
    let log = read_any(b"epoch_s,size_bytes,status\n").unwrap();
    assert!(log.requests.is_empty() && log.trace(1).arrivals.is_empty());
}

#[test]
fn a_truncated_gzip_is_said() {
    // Incompressible enough that the cut is within the data, and late enough that some lines precede it.
    let text: String = (0..20_000u64).map(|line| format!("{line},{}\n", line * 7919 % 10_007)).collect();
    let whole = gzip(text.as_bytes());
    for cut in [2, 12, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
        let said = said(&whole[..cut]);
        assert!(said.contains("truncated"), "cut at {cut}: {said}");
    }
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x55;
    assert!(said(&damaged).contains("damaged"), "{}", said(&damaged));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), is_gzip: bool, strict: bool) {
        let bytes = if is_gzip { gzip(&bytes) } else { bytes };
        let formats = [Format::WorldCup, Format::WorldCupCsv, Format::CommonLog, Format::Csv];
        for format in formats.map(Some).into_iter().chain([None]) {
            let _ = read(&bytes[..], &ReadOptions { format, strict });
        }
    }

    #[test]
    fn nearly_right_lines_never_panic(line in "([0-9.,:/ \\[\\]\"-]|Jul|GET|\\+0200|09/Jul/1995:00:00:00 -0400){0,30}") {
        for format in [Format::WorldCupCsv, Format::CommonLog, Format::Csv] {
            let log = read(line.as_bytes(), &ReadOptions { format: Some(format), strict: false });
            if let Ok(log) = log {
                prop_assert!(log.requests.len() as u64 + log.bad.count <= 1);
            }
        }
    }

    #[test]
    fn damaged_gzip_never_panics(at in 0usize..60, bit in 0u8..8) {
        let mut bytes = gzip(CSV.as_bytes());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let _ = read_any(&bytes);
    }
}

/// logrotate's copytruncate leaves a hole before the next line; World Cup records contain zeros, too.
#[test]
fn zeros_before_the_first_line_are_passed_over() {
    let line = "192.0.2.1 - - [09/Jul/1995:00:00:00 -0400] \"GET /\" 200 5\n";
    let log = read_any(&[&[0; 4000], line.as_bytes(), line.as_bytes()].concat()).unwrap();
    assert_eq!((log.format, log.requests.len(), log.bad.count), (Format::CommonLog, 2, 0));
    assert_eq!((log.requests[0].client, log.requests[1].client), (Some(0), Some(0)));
}

#[test]
fn columns_in_another_order_are_refused() {
    for text in ["size_bytes,epoch_s,status\n100,1000,200\n", "epoch_s,status,size_bytes\n1000,200,100\n"] {
        let error = read_any(text.as_bytes()).unwrap_err();
        assert_eq!(error.line(), Some(1));
        assert!(error.to_string().contains("in the order epoch_s,size_bytes,status,client"), "{error}");
    }
    assert_eq!(read_any(b"epoch_s,size_bytes,client_name\n1,2\n").unwrap().requests.len(), 1);
}

/// The figures of real logs, if this machine has them; they may not be shipped.
#[test]
fn real_logs_have_their_known_figures() {
    let logs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !logs.is_dir() {
        println!("SKIPPED: there are no real logs next to the repository");
        return;
    }
    let log = |name: &str| read_any(&std::fs::read(logs.join(name)).unwrap()).unwrap();
    let found = log("worldcup98/wc_day6_1_sample.csv.gz");
    assert_eq!((found.requests.len(), found.bad.count), (199_997, 3));
    let sizes = || found.requests.iter().map(|request| request.size_bytes).filter(|size| *size > 0);
    assert_eq!((sizes().sum::<u64>() as f64 / sizes().count() as f64).round(), 8604.0);
    let found = log("worldcup98/test_log.gz");
    assert_eq!((found.requests.len(), found.answered().requests.len()), (1000, 844));
    assert_eq!(log("nasa/access_09jul1995.log.gz").requests.len(), 35_272);
}
