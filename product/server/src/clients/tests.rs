use std::net::Ipv6Addr;

use super::busiest::Busy;
use super::*;

const HOME: &str = "192.0.2.7";

fn clients(connections_max: u32, requests_per_s_max: u32) -> Clients {
    Clients::new(ClientLimits { prefix: ClientPrefix::default(), connections_max, requests_per_s_max, rate_max: None })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn second(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

#[test]
fn a_client_has_so_many_connections_and_no_more() {
    let clients = clients(2, 0);
    let first = clients.enter(ip(HOME), second(1)).unwrap();
    assert_eq!(clients.enter(ip("::ffff:192.0.2.7"), second(1)).unwrap(), first, "the same client");
    let refusal = clients.enter(ip(HOME), second(1)).unwrap_err();
    let said = "refused 1 connection, the last from 192.0.2.7: one client may have 2 at once (--client-connections, limits.client_connections)";
    assert_eq!(refusal.notice.as_deref(), Some(said));
    let other = clients.enter(ip("192.0.2.8"), second(1)).unwrap();
    assert_ne!(other.index, first.index, "another client has its own");
    clients.leave(first.index, 0, second(1));
    assert_eq!(clients.enter(ip(HOME), second(1)).unwrap(), first);
}

#[test]
fn without_a_limit_nobody_is_refused() {
    let clients = clients(0, 0);
    for _ in 0..1000 {
        let client = clients.enter(ip(HOME), second(1)).unwrap();
        clients.on_request(client.index, second(1)).unwrap();
    }
}

/// Independent of how many of its addresses are used.
#[test]
fn an_ipv6_site_is_one_client() {
    let clients = clients(1000, 0);
    for host in 0..1000u64 {
        let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(host << 32 | host));
        clients.enter(address.into(), second(1)).unwrap();
    }
    assert!(clients.enter(ip("2001:db8::ffff:ffff:ffff:ffff"), second(1)).is_err());
    assert!(clients.enter(ip("2001:db8:0:100::"), second(1)).is_ok());
    assert_eq!(clients.state().table.entries().len(), 2);
}

/// A second's worth immediately, then at the permitted rate, over any number of connections.
#[test]
fn requests_keep_to_their_rate() {
    let clients = clients(0, 10);
    let [index, again] = [(); 2].map(|()| clients.enter(ip(HOME), second(1)).unwrap().index);
    let allowed = |at: Nanos| (0..100).take_while(|_| clients.on_request(again, at).is_ok()).count();
    (0..5).for_each(|_| clients.on_request(index, second(1)).unwrap());
    assert_eq!(allowed(second(1)), 5);
    assert_eq!(allowed(second(1) + Nanos::from_millis(99)), 0);
    assert_eq!(allowed(second(1) + Nanos::from_millis(100)), 1);
    assert_eq!(allowed(second(2)), 9);
    assert_eq!(allowed(second(100)), 10, "no more than the burst is saved up");
}

/// At any rate, in any rhythm: the requests allowed in a span are at most the rate times the span, plus the burst.
#[test]
fn a_whole_minute_of_requests_is_within_the_rate() {
    for (rate, every_us) in [(1, 7_001), (3, 333_333), (7, 50), (1000, 999), (999, 1_000)] {
        let clients = clients(0, rate);
        let index = clients.enter(ip(HOME), Nanos::ZERO).unwrap().index;
        let instants = (0..60_000_000 / every_us).map(|n| Nanos::from_micros(n * every_us));
        let asked = 60_000_000 / every_us;
        let allowed = instants.filter(|&at| clients.on_request(index, at).is_ok()).count() as u64;
        let (least, most) = ((60 * u64::from(rate)).min(asked), 61 * u64::from(rate));
        assert!((least..=most).contains(&allowed), "{allowed} of {asked} at {rate}/s, {least} to {most}");
    }
}

#[test]
fn a_refused_client_learns_when_to_ask_again() {
    let clients = clients(0, 1);
    let index = clients.enter(ip(HOME), second(1)).unwrap().index;
    clients.on_request(index, second(1)).unwrap();
    let refusal = clients.on_request(index, second(1)).unwrap_err();
    assert_eq!(refusal.retry_after_s, 1);
    let said = "refused 1 request, the last from 192.0.2.7: one client may make 1 per second (--client-requests, limits.client_requests)";
    assert_eq!(refusal.notice.as_deref(), Some(said));
    clients.on_request(index, second(2)).unwrap();
}

#[test]
fn a_request_put_back_is_counted_once() {
    let clients = clients(0, 1);
    let index = clients.enter(ip(HOME), second(1)).unwrap().index;
    for _ in 0..3 {
        clients.on_request(index, second(1)).unwrap();
        clients.on_postponed(index);
    }
    clients.on_request(index, second(1)).unwrap();
    assert!(clients.on_request(index, second(1)).is_err());
}

/// A single line in ten seconds for each kind, with the count since and the last client.
#[test]
fn refusals_are_told_once_in_ten_seconds() {
    let clients = clients(1, 1);
    let index = clients.enter(ip(HOME), second(1)).unwrap().index;
    assert!(clients.enter(ip(HOME), second(1)).unwrap_err().notice.is_some());
    assert_eq!(clients.enter(ip(HOME), second(1)).unwrap_err().notice, None);
    clients.enter(ip("2001:db8::1"), second(1)).unwrap();
    assert_eq!(clients.enter(ip("2001:db8::2"), second(1)).unwrap_err().notice, None);
    assert_eq!(clients.notice(second(1)), None);
    let said = "refused 2 connections, the last from 2001:db8::/56: one client may have 1 at once (--client-connections, limits.client_connections)";
    assert_eq!(clients.notice(second(10)), None);
    assert_eq!(clients.notice(second(11)).as_deref(), Some(said));
    assert_eq!(clients.notice(second(99)), None, "told once");
    clients.on_request(index, second(99)).unwrap();
    assert!(clients.on_request(index, second(99)).unwrap_err().notice.is_some(), "the kinds are apart");
}

/// The clients that were sent the most, among thousands, and an extra column.
#[test]
fn the_busiest_are_shown() {
    let clients = clients(0, 0);
    assert_eq!(clients.lines(second(1), &[]), ["clients: nothing sent lately"]);
    for n in 0..20_000u32 {
        let client = clients.enter(std::net::Ipv4Addr::from_bits(n).into(), second(1)).unwrap();
        clients.on_bytes(client.index, 1000 * u64::from(n), second(1));
    }
    clients.leave(19_998, 0, second(1));
    let lines = clients.lines(second(61), &[("ahead", &|busy: &Busy| busy.client.generation.to_string())]);
    assert_eq!(lines.len(), 12);
    let expected = [
        "clients by bytes sent lately (a minute ago counts half)",
        "client     connections    bytes  refusals  ahead",
        "0.0.78.31            1  9999500         0      0",
        "0.0.78.30            0  9999000         0      0",
    ];
    assert_eq!(lines[..4], expected);
}

#[test]
fn who_was_sent_nothing_and_has_responses_under_way_is_shown_behind_the_others() {
    let clients = clients(0, 0);
    let [sent, waits, waits_for_more, idle] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]
        .map(|address| clients.enter(ip(address), second(1)).unwrap().index);
    clients.on_bytes(sent, 5, second(1));
    let under_way = |client| {
        [(waits, 1), (waits_for_more, 7), (idle, 0)]
            .iter()
            .find(|(one, _)| *one == client)
            .map_or(0, |(_, count)| *count)
    };
    let shown: Vec<u32> = clients.busiest_with(second(1), under_way).iter().map(|busy| busy.client.index).collect();
    assert_eq!(shown, [sent, waits_for_more, waits]);
    assert_eq!(clients.show(&clients.busiest(second(1))[0]), "192.0.2.1");
}
