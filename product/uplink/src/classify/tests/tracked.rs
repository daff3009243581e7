//! Flows without a socket: the beginnings of their responses, and the parsing of their packets.

use libbpf_rs::{Object, ProgramInput};

use super::*;
use crate::testing::loaded;

/// bpf/tracked.h as a separate program; empty without clang.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracked-test.bpf.o"));

const MS: u64 = 1_000_000;

/// `enum stepped` of bpf/tracked.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Again,
    On,
    Begin,
}

/// A packet of data, `after_ms` after the one before.
#[derive(Clone, Copy, Default)]
struct Step {
    after_ms: u64,
    seq: u32,
    ack: u32,
    bytes: u32,
    is_udp: bool,
    is_head: bool,
    is_last: bool,
}

/// A flow in the kernel.
struct Flow {
    object: Object,
    now: u64,
}

impl Flow {
    fn new() -> Option<Flow> {
        Some(Flow { object: loaded(OBJECT)?, now: 3_600_000 * MS })
    }

    /// Records a packet of the client that acknowledges `ack`, with `bytes` of data.
    fn note_client_packet(&self, ack: u32, bytes: u32) {
        let mut bytes = [ack, bytes].map(u32::to_ne_bytes).concat();
        let program = self.object.progs_mut().find(|program| program.name() == "weir_heed").unwrap();
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        assert_eq!(program.test_run(input).unwrap().return_value, 0);
    }

    /// Returns how the packet continues the flow, and the number of bytes of its response sent before it.
    fn step(&mut self, step: Step) -> (How, u64) {
        self.now += step.after_ms * MS;
        let flags = [!step.is_udp, step.is_head, step.is_last].map(u32::from);
        let mut bytes: Vec<u8> = [self.now, 0, 0].iter().flat_map(|long| long.to_ne_bytes()).collect();
        let words = [step.seq, step.ack, step.bytes].into_iter().chain(flags);
        bytes.extend(words.flat_map(|word| word.to_ne_bytes()));
        let program = self.object.progs_mut().find(|program| program.name() == "weir_step").unwrap();
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        assert_eq!(program.test_run(input).unwrap().return_value, 0);
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        ([How::Again, How::On, How::Begin][long(8) as usize], long(16))
    }
}

/// A packet of 1,000 bytes.
fn tcp(after_ms: u64, seq: u32, ack: u32) -> Step {
    Step { after_ms, seq, ack, bytes: 1000, ..Step::default() }
}

#[test]
fn a_response_of_a_flow_begins_after_a_request_or_an_idle_time() {
    let Some(mut flow) = Flow::new() else { return };
    for (step, expected) in [
        (tcp(0, 5000, 7), (How::Begin, 0)),
        (tcp(1, 6000, 7), (How::On, 1000)),
        // The client sends a WINDOW_UPDATE in the middle of a download.
        (tcp(199, 7000, 40), (How::On, 2000)),
        // The client sends a request, and its response follows after a gap.
        (tcp(200, 8000, 90), (How::Begin, 0)),
        // This gap has no request.
        (tcp(999, 9000, 90), (How::On, 1000)),
        (tcp(1000, 10_000, 90), (How::Begin, 0)),
        // A head follows directly after a request, then bytes that look like one within a response.
        (Step { is_head: true, ..tcp(1, 11_000, 200) }, (How::Begin, 0)),
        (Step { is_head: true, ..tcp(1, 12_000, 200) }, (How::On, 1000)),
    ] {
        assert_eq!(flow.step(step), expected, "{} after {} ms", step.seq, step.after_ms);
    }
}

/// As with a socket, a response begins once the client has sent a request and nothing is outstanding, however short or
/// long that takes.
#[test]
fn where_the_client_is_seen_nothing_is_inferred_from_time() {
    let Some(mut flow) = Flow::new() else { return };
    assert_eq!(flow.step(tcp(0, 5000, 7)), (How::Begin, 0));
    flow.note_client_packet(5500, 0);
    assert_eq!(flow.step(tcp(1, 6000, 7)), (How::On, 1000));
    // The client sends a WINDOW_UPDATE: something is outstanding, even for longer than an idle time.
    flow.note_client_packet(6000, 13);
    assert_eq!(flow.step(tcp(300, 7000, 20)), (How::On, 2000));
    assert_eq!(flow.step(Step { is_head: true, ..tcp(1500, 8000, 20) }), (How::On, 3000));
    // Once all is acknowledged, the WINDOW_UPDATE looks like a request.
    flow.note_client_packet(9000, 0);
    assert_eq!(flow.step(tcp(0, 9000, 20)), (How::Begin, 0));
    // The client has requested nothing since.
    flow.note_client_packet(10_000, 0);
    assert_eq!(flow.step(tcp(500, 10_000, 20)), (How::On, 1000));
    // A request follows immediately.
    flow.note_client_packet(11_000, 90);
    assert_eq!(flow.step(tcp(0, 11_000, 110)), (How::Begin, 0));
    // These acknowledge bytes that were never sent, or sent long ago, and not the last packet.
    for ack in [12_001, 10_000, 9000] {
        flow.note_client_packet(ack, 90);
    }
    assert_eq!(flow.step(tcp(0, 12_000, 200)), (How::On, 1000));
    // The flow is idle, with everything acknowledged.
    flow.note_client_packet(13_000, 0);
    assert_eq!(flow.step(tcp(1000, 13_000, 200)), (How::Begin, 0));
}

/// Earlier acknowledgements are no evidence for data that went another way, or for another connection.
#[test]
fn after_packets_that_were_not_seen_the_client_must_be_seen_anew() {
    let Some(mut flow) = Flow::new() else { return };
    assert_eq!(flow.step(tcp(0, 5000, 7)), (How::Begin, 0));
    flow.note_client_packet(6000, 0);
    assert_eq!(flow.step(tcp(1, 9000, 7)), (How::On, 1000));
    assert_eq!(flow.step(tcp(200, 10_000, 90)), (How::Begin, 0));
    flow.note_client_packet(11_000, 0);
    assert_eq!(flow.step(Step { is_last: true, ..tcp(1, 11_000, 90) }), (How::On, 1000));
    assert_eq!(flow.step(tcp(1, 70, 3)), (How::Begin, 0));
    assert_eq!(flow.step(tcp(200, 1070, 90)), (How::Begin, 0));
}

#[test]
fn what_is_sent_again_counts_once_across_the_wrap_of_numbers() {
    let Some(mut flow) = Flow::new() else { return };
    let start = u32::MAX - 1499;
    for (step, expected) in [
        (tcp(0, start, 7), (How::Begin, 0)),
        (tcp(1, start.wrapping_add(1000), 7), (How::On, 1000)),
        (tcp(1, start, 7), (How::Again, 2000)),
        (tcp(300, start.wrapping_add(1000), 90), (How::Again, 2000)),
        (tcp(1, start.wrapping_add(2000), 90), (How::On, 2000)),
    ] {
        assert_eq!(flow.step(step), expected, "{}", step.seq);
    }
}

/// Another connection may have the same ports and any numbers.
#[test]
fn after_its_end_a_flow_begins_anew_with_any_numbers() {
    let Some(mut flow) = Flow::new() else { return };
    assert_eq!(flow.step(Step { is_last: true, ..tcp(0, 50_000, 7) }), (How::Begin, 0));
    assert_eq!(flow.step(tcp(0, 2000, 7)), (How::Begin, 0));
    assert_eq!(flow.step(tcp(1000, 1000, 7)), (How::Begin, 0));
}

/// Data that was lost before the end is sent again after it, and is not a new response.
#[test]
fn what_is_sent_again_after_the_end_begins_nothing() {
    let Some(mut flow) = Flow::new() else { return };
    let start = u32::MAX - 1499;
    assert_eq!(flow.step(tcp(0, start, 7)), (How::Begin, 0));
    assert_eq!(flow.step(Step { is_last: true, ..tcp(1, start.wrapping_add(1000), 7) }), (How::On, 1000));
    assert_eq!(flow.step(tcp(300, start, 7)), (How::Again, 2000));
    assert_eq!(flow.step(Step { is_last: true, ..tcp(2000, start.wrapping_add(1000), 7) }), (How::Again, 2000));
    // The numbers lie before the response, and behind it.
    assert_eq!(flow.step(tcp(1, start.wrapping_sub(1000), 7)), (How::Begin, 0));
}

/// Datagrams are encrypted: only the time shows where a response begins.
#[test]
fn datagrams_count_until_the_flow_is_idle() {
    let Some(mut flow) = Flow::new() else { return };
    let datagram = |after_ms| Step { after_ms, bytes: 1200, is_udp: true, ..Step::default() };
    for (after_ms, expected) in
        [(0, (How::Begin, 0)), (0, (How::On, 1200)), (999, (How::On, 2400)), (1000, (How::Begin, 0))]
    {
        assert_eq!(flow.step(datagram(after_ms)), expected, "{after_ms}");
    }
}

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const CLIENT_PORT: u16 = 40_000;
/// Types of Ethernet, and the protocol numbers of IPv6's extensions.
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const PPPOE: u16 = 0x8864;
const HOP_BY_HOP: u8 = 0;
const DESTINATION: u8 = 60;

/// A TCP or UDP packet from [`PORT`] with this payload.
pub(super) fn transport(protocol: u8, seq: u32, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = [PORT.to_be_bytes(), CLIENT_PORT.to_be_bytes()].concat();
    match protocol {
        TCP => {
            bytes.extend(seq.to_be_bytes());
            bytes.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        }
        _ => bytes.extend([(payload_bytes as u16 + 8).to_be_bytes(), [0; 2]].concat()),
    }
    bytes.resize(bytes.len() + payload_bytes, 1);
    bytes
}

pub(super) fn ipv4(client: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((payload.len() as u16 + 20).to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 1, client]);
    bytes.extend(payload);
    bytes
}

/// An IPv6 packet with these extension headers of 8 bytes.
pub(super) fn ipv6(client: u8, extensions: &[u8], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut next = extensions.iter().copied().chain([protocol]);
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16 + 8 * extensions.len() as u16).to_be_bytes());
    bytes.extend([next.next().unwrap(), 64]);
    for host in [1, client] {
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    for following in next {
        bytes.extend([following, 0, 1, 4, 0, 0, 0, 0]);
    }
    bytes.extend(payload);
    bytes
}

/// Puts these tags, and an Ethernet header, before an IP packet of this type.
pub(super) fn ethernet(tags: &[u16], kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2; 12];
    for tag in tags {
        bytes.extend(tag.to_be_bytes());
        match *tag {
            // The number of the VLAN with a priority that looks like the version of IP.
            VLAN | QINQ => bytes.extend([0x45, 7]),
            _ => {
                bytes.extend([0x11, 0, 0, 7]);
                bytes.extend((packet.len() as u16 + 2).to_be_bytes());
            }
        }
    }
    match tags.last() {
        Some(&PPPOE) => bytes.extend(if kind == IPV4 { [0, 0x21] } else { [0, 0x57] }),
        _ => bytes.extend(kind.to_be_bytes()),
    }
    bytes.extend(packet);
    bytes
}

/// Runs the classifier on a frame as if it left.
pub(super) fn leave(site: &Site, frame: &[u8]) {
    run_on(find(&site.interface).unwrap().unwrap().facts.id, frame);
}

/// Runs the program that sees the packets of clients on a frame as if it arrived.
pub(super) fn arrive(site: &Site, frame: &[u8]) {
    let [id] = filter::look(&site.interface).unwrap().arriving[..] else { panic!("there is one") };
    run_on(id, frame);
}

pub(super) fn run_on(id: u32, frame: &[u8]) {
    let program = libbpf_rs::Program::fd_from_id(id).unwrap();
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: the kernel reads `data_size_in` bytes of the frame, which outlives the call, and libbpf writes nothing
    // beyond `sz` of the options.
    let status = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    assert_eq!(status, 0, "{}", std::io::Error::from_raw_os_error(-status));
}

/// Behind tags, extension headers and PPPoE, a large flow sinks and a young one of the same kind does not.
#[test]
fn flows_are_found_behind_tags_and_extensions() {
    with(wanted(Policy::Psjf), |site| {
        let packet = |client, kind, protocol, extensions: &[u8], seq| match kind {
            IPV4 => ipv4(client, protocol, &transport(protocol, seq, 1400)),
            _ => ipv6(client, extensions, protocol, &transport(protocol, seq, 1400)),
        };
        let mut client = 0;
        for tags in [&[][..], &[VLAN], &[QINQ, VLAN], &[PPPOE], &[VLAN, PPPOE]] {
            for (kind, protocol, extensions) in [
                (IPV4, TCP, &[][..]),
                (IPV4, UDP, &[]),
                (IPV6, TCP, &[]),
                (IPV6, UDP, &[DESTINATION]),
                (IPV6, TCP, &[HOP_BY_HOP, DESTINATION]),
            ] {
                client += 1;
                let send = |client: u8, count: u32| {
                    let frame =
                        |nth| ethernet(tags, kind, &packet(client, kind, protocol, extensions, 5000 + 1400 * nth));
                    site.during(|| (0..count).for_each(|nth| leave(site, &frame(nth))))
                };
                let case = format!("{tags:x?} {kind:x} {protocol} {extensions:?}");
                let old = send(client, 4);
                assert_eq!(old.by_flow, 4, "{case}");
                // The third packet is above the cut of 2,000 bytes.
                assert_eq!([2, 3].map(|band| old.bands[band].packets), [2, 2], "{case}");
                let young = send(100 + client, 1);
                assert_eq!(young.bands[2].packets, 1, "{case}");
            }
        }
    });
}

/// Frames with a third tag, another protocol inside PPPoE, a later fragment, or another port are left unchanged.
#[test]
fn frames_that_are_not_of_a_response_are_left_alone() {
    with(wanted(Policy::Psjf), |site| {
        let tcp = transport(TCP, 1, 100);
        let mut fragment = ipv4(1, TCP, &tcp);
        fragment[7] = 1;
        let mut control = ethernet(&[PPPOE], IPV4, &ipv4(1, TCP, &tcp));
        control[20..22].copy_from_slice(&[0xc0, 0x21]);
        let mut other_port = ipv4(1, UDP, &transport(UDP, 0, 100));
        other_port[20] = 0;
        for frame in [
            ethernet(&[VLAN, VLAN, VLAN], IPV4, &ipv4(1, TCP, &tcp)),
            control,
            ethernet(&[], IPV4, &fragment),
            ethernet(&[], IPV4, &other_port),
            ethernet(&[], IPV4, &ipv4(1, 132, &tcp)),
            ethernet(&[VLAN], IPV4, &[0x45]),
            ethernet(&[PPPOE], IPV4, &[]),
            ethernet(&[], IPV6, &ipv6(1, &[DESTINATION; 5], TCP, &tcp)),
        ] {
            let counted = site.during(|| leave(site, &frame));
            let packets: u64 = counted.bands.iter().map(|band| band.packets).sum();
            assert_eq!((packets, counted.by_flow), (0, 0), "{frame:x?}");
        }
    });
}

/// A FIN without data stays behind its flow's data, and later packets with the same ports belong to another connection.
#[test]
fn the_end_of_a_flow_stays_behind_its_data() {
    with(wanted(Policy::Psjf), |site| {
        let send = |flags: u8, seq, payload_bytes| {
            let mut tcp = transport(TCP, seq, payload_bytes);
            tcp[13] = flags;
            let counted = site.during(|| leave(site, &ethernet(&[], IPV4, &ipv4(1, TCP, &tcp))));
            counted.bands.iter().position(|band| band.packets > 0)
        };
        let [syn_ack, ack, fin_ack, rst] = [0x12, 0x10, 0x11, 0x04];
        assert_eq!(send(syn_ack, 0, 0), Some(0));
        for (nth, band) in [2, 2, 3].into_iter().enumerate() {
            assert_eq!(send(ack, 1 + 1400 * nth as u32, 1400), Some(band));
        }
        // A pure acknowledgement may overtake.
        assert_eq!((send(ack, 4201, 0), send(fin_ack, 4201, 0)), (Some(0), Some(3)));
        // Lost data is sent again behind it, and then the FIN.
        assert_eq!((send(ack, 1, 1400), send(fin_ack, 4201, 0)), (Some(3), Some(3)));
        assert_eq!((send(rst, 4202, 0), send(ack, 77, 1400)), (Some(0), Some(2)));
        // The SYN-ACK belongs to the next connection; the end of the previous one was not seen.
        assert_eq!((send(syn_ack, 9, 0), send(ack, 10, 1400), send(ack, 10, 1400)), (Some(0), Some(2), Some(2)));
    });
}
