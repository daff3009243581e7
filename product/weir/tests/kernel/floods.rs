//! Connections that send as fast as they can, in different bands (000 section 3.2): the better band gets the link, and
//! packets without data do not wait behind either.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;

use crate::network::Network;
use crate::virtual_time::in_virtual_time;

/// The number of connections in each flood. TCP keeps two packets of a connection in the queue below it, here 5 ms. If
/// there were one per band, a busy machine that delays TCP for longer would rightly give the worse band its turn. This
/// many last 75 ms.
const CONNECTIONS: usize = 16;
const RATE: &str = "5mbit";
/// The packets of the better band before measuring, by which time TCP has found its window and had its losses.
const SETTLING_PACKETS: u64 = 500;
const WATCHED_PACKETS: u64 = 2000;
/// The interval of checks. Each is a program, which in virtual time costs more than everything between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of checks before the test gives up.
const LOOKS_MAX: usize = 400;
/// Interval at which a flood checks whether it is over.
const TURN: Duration = Duration::from_millis(100);

#[test]
fn of_two_floods_the_better_band_has_the_link_but_for_the_others_share() {
    if in_virtual_time(of_two_floods_the_better_band_has_the_link_but_for_the_others_share) {
        return;
    }
    two_floods(14);
}

/// The two best bands of responses share one of HTB's priorities: of 200 KB and a packet the better one gets the 200
/// KB.
#[test]
fn of_two_bands_with_one_priority_the_better_has_nearly_all() {
    if in_virtual_time(of_two_bands_with_one_priority_the_better_has_nearly_all) {
        return;
    }
    two_floods(3);
}

/// Runs two floods: in the best band of responses and in the band `low`.
fn two_floods(low: usize) {
    let Some(network) = Network::new() else { return };
    network.printed(&format!("uplink up uplink --rate {RATE}"));
    let bands = show(&network);
    let high = 2;
    let listener = listen(&network, priority(&bands[0]));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        for band in [low, high].repeat(CONNECTIONS) {
            let (sender, receiver) = connect(&network, &listener);
            SockRef::from(&sender).set_priority(priority(&bands[band])).unwrap();
            scope.spawn(|| flood(sender, &is_over));
            scope.spawn(|| drain(receiver, &is_over));
        }
        let before = look_until(&network, |bands| {
            let both_wait = [high, low].iter().all(|band| count(&bands[*band], "backlog_packets") > 0);
            both_wait && count(&bands[high], "packets") >= SETTLING_PACKETS
        });
        let sent = |bands: &[Value], band: usize| count(&bands[band], "packets") - count(&before[band], "packets");
        let after = look_until(&network, |bands| sent(bands, high) + sent(bands, low) >= WATCHED_PACKETS);
        let (high, low) = (sent(&after, high), sent(&after, low));
        // 5 thousandths by default, and no band has more waiting than it is served.
        assert!(high * 1000 >= (high + low) * 970, "{high} packets of the better band, {low} of the worse");
        assert!(low * 1000 >= (high + low) * 3, "{high} packets of the better band, {low} of the worse");
    });
}

/// The listening socket's priority applies to its SYN-ACKs: each is counted in the control band, which has no queue.
#[test]
fn a_flood_does_not_hold_up_syn_acks() {
    if in_virtual_time(a_flood_does_not_hold_up_syn_acks) {
        return;
    }
    let Some(network) = Network::new() else { return };
    network.printed("uplink up uplink --rate 10mbit");
    let bands = show(&network);
    let listener = listen(&network, priority(&bands[0]));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = OnDrop(&is_over);
        let (sender, receiver) = connect(&network, &listener);
        SockRef::from(&sender).set_priority(priority(&bands[2])).unwrap();
        scope.spawn(|| flood(sender, &is_over));
        scope.spawn(|| drain(receiver, &is_over));
        let before = look_until(&network, |bands| count(&bands[2], "backlog_packets") > 0);
        for _ in 0..20 {
            connect(&network, &listener);
        }
        let after = show(&network);
        assert!(count(&after[0], "packets") >= count(&before[0], "packets") + 20, "{after:?}");
        assert_eq!((count(&after[0], "drops"), count(&after[0], "backlog_packets")), (0, 0), "{after:?}");
        // The link was full: quick connections might all be made while one packet of the flood leaves.
        assert!(count(&after[2], "backlog_packets") > 0, "{after:?}");
    });
}

/// Ends the floods however the test ends.
pub struct OnDrop<'a>(pub &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub fn show(network: &Network) -> Vec<Value> {
    network.json("uplink show uplink")["bands"].as_array().unwrap().clone()
}

pub fn look_until(network: &Network, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    for _ in 0..LOOKS_MAX {
        let bands = show(network);
        if is_so(&bands) {
            return bands;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("it did not come to that: {:?}", show(network))
}

pub fn count(band: &Value, what: &str) -> u64 {
    band[what].as_u64().unwrap()
}

pub fn priority(band: &Value) -> u32 {
    u32::try_from(count(band, "priority")).unwrap()
}

pub fn listen(network: &Network, priority: u32) -> TcpListener {
    let listener = network.cable.at_server(|| TcpListener::bind(network.cable.address()).unwrap());
    SockRef::from(&listener).set_priority(priority).unwrap();
    // Reno fills any queue, and leaves half of it after a loss. BBR, the default of some machines, lets its queue run
    // empty on purpose.
    rustix::net::sockopt::set_tcp_congestion(&listener, "reno").unwrap();
    listener
}

/// Opens a connection. Returns the server's end and the client's end.
pub fn connect(network: &Network, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = network.cable.at_client(|| TcpStream::connect(network.cable.address()).unwrap());
    (listener.accept().unwrap().0, client)
}

pub fn flood(mut sender: TcpStream, is_over: &AtomicBool) {
    sender.set_write_timeout(Some(TURN)).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        // If there is no room within a turn, it checks again.
        let _ = sender.write(&[0; 64 << 10]);
    }
}

pub fn drain(mut receiver: TcpStream, is_over: &AtomicBool) {
    receiver.set_read_timeout(Some(TURN)).unwrap();
    let mut buffer = vec![0; 64 << 10];
    while !is_over.load(Ordering::Relaxed) {
        let _ = receiver.read(&mut buffer);
    }
}
