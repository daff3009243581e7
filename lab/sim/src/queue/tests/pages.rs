use super::*;
use workload::Visitors;

use crate::queue::{PageLoad, PageOutcome};

fn load(policy: &str, pages: u32, rho: f64, connections: u32, carriers: bool) -> Config {
    let arrivals = Arrivals::Pages(PageLoad { pages, rho, connections });
    Config { arrivals, carriers, link: "10mbit".parse().unwrap(), ..replay(policy, &[]) }
}

fn pages(config: &Config) -> PageOutcome {
    run(config, Hooks::none()).unwrap().pages.expect("pages were loaded")
}

/// By work conservation, a page on an idle link takes the time of its bytes and the round trips in which there is
/// nothing to send.
#[test]
fn a_page_alone_takes_its_bytes_and_the_round_trips() {
    for (policy, carriers) in [("srpt", true), ("srpt", false), ("fair", true)] {
        let of = pages(&load(policy, 20, 1e-6, 1, carriers));
        let bytes_ms = of.bytes_mean * 8.0 / 1e4;
        // The HTML, and at least another response, are followed by a round trip; images for which visitors scroll are
        // not of the whole page.
        assert!(
            (0.6 * bytes_ms..bytes_ms + 500.0).contains(&of.full_ms.mean),
            "{policy} {carriers}: {of:?} {bytes_ms}"
        );
        assert!(of.first_contentful_ms.mean > 50.0 && of.first_contentful_ms.mean < of.with_fonts_ms.mean);
        assert!(of.with_fonts_ms.mean < of.full_ms.mean);
    }
}

/// Pages, their requests and their arrivals are the same under every order, and each request is answered once.
#[test]
fn every_order_loads_the_same_pages() {
    let cases = [
        load("srpt", 50, 0.8, 1, true),
        load("srpt", 50, 0.8, 1, false),
        load("fair", 50, 0.8, 6, false),
        load("ps", 50, 0.8, 1, false),
        load("las", 50, 0.8, 1, true),
    ];
    let outcomes = cases.map(|config| run(&config, Hooks::none()).unwrap());
    for outcome in &outcomes {
        let (of, first) = (outcome.pages.unwrap(), outcomes[0].pages.unwrap());
        assert_eq!((of.count, of.requests_mean, of.bytes_mean), (50, first.requests_mean, first.bytes_mean));
        assert_eq!(outcome.summary.jobs as f64, (of.requests_mean * 50.0).round());
        assert!((0.4..1.2).contains(&outcome.rho_offered), "{}", outcome.rho_offered);
    }
    assert_eq!(pages(&load("srpt", 50, 0.8, 1, false)), outcomes[1].pages.unwrap(), "the same seed, the same run");
}

/// Objects that block the first view go first by urgency, but not by size alone. A page that is served stage by stage
/// completes earlier.
#[test]
fn urgency_brings_the_first_view_forward() {
    let [stage, alike] = [true, false].map(|carriers| pages(&load("srpt", 100, 0.8, 1, carriers)));
    assert!(stage.first_contentful_ms.mean < alike.first_contentful_ms.mean, "{stage:?} {alike:?}");
    assert!(stage.full_ms.mean < alike.full_ms.mean, "{stage:?} {alike:?}");
}

/// A request of HTTP/1.1 waits in the browser for one of its connections.
#[test]
fn few_connections_wait_for_each_other() {
    let [two, many] = [2, 32].map(|connections| pages(&load("fcfs", 20, 1e-6, connections, false)));
    assert!(two.full_ms.mean > many.full_ms.mean + 500.0, "{two:?} {many:?}");
}

/// Each visit has its own address, or visits share addresses as in households; single jobs have no visits.
#[test]
fn visits_have_addresses() {
    let of = |visitors, arrivals: Config| {
        let clients = ClientSpec { owners: Some(Owners::Visits(visitors)), ..ClientSpec::default() };
        run(&Config { clients, ..arrivals }, Hooks::none())
    };
    let pages = || load("srpt", 50, 0.8, 1, true);
    let [alone, households] = [Visitors::Alone, Visitors::Households].map(|visitors| of(visitors, pages()).unwrap());
    let (alone, households) = (alone.clients.unwrap(), households.clients.unwrap());
    // 60 pages of about 30 visits, and 30 of them have 22 addresses.
    assert!((20..=45).contains(&alone) && (alone / 2..alone).contains(&households), "{alone} and {households}");
    let said = of(Visitors::Alone, replay("srpt", &[])).unwrap_err().to_string();
    assert!(said.contains("visit: only pages are visits: write --pages 200 too"), "{said}");
}

/// A visit belongs to one client, and a crawler that runs during the pages gets the rest of the link, whatever the
/// order.
#[test]
fn pages_have_clients_and_a_crawler_beside_them() {
    for policy in ["srpt", "las"] {
        let closed = vec![closed(6, 20_000)];
        let share = Some(ClientShareSpec::On);
        let clients = ClientSpec { owners: Some(Owners::Dealt(4)), share, closed };
        let config = Config { clients, ..load(policy, 60, 0.5, 1, true) };
        let outcome = run(&config, Hooks::none()).unwrap();
        let pages = outcome.pages.unwrap();
        assert_eq!((pages.count, outcome.clients), (60, Some(4)), "{policy}");
        let (of_crawler, of_pages) = (outcome.closed[0].bits_per_s, outcome.rho_offered * 1e7);
        // Requests that are at the server at the end count as offered.
        assert!((0.9e7..1.1e7).contains(&(of_crawler + of_pages)), "{policy}: {of_crawler} and {of_pages} bit/s");
    }
}
