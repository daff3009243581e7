//! Wide-area paths against the kernel, in network namespaces of their own: our own link alone, and, where the kernel has netem,
//! both beside each other. What is asserted is distributions, loosely: five standard errors and more, and room for
//! a machine that is late. Where time decides, a test may be disturbed, and is then done again. What needs netem is done in virtual
//! time, where that always is; `make test-vm` runs all of this on a stock kernel.

mod network;
#[path = "../../../testbed/tests/common/virtual_time.rs"]
mod virtual_time;
mod whole;

use std::time::Duration;

use network::Network;
use virtual_time::in_virtual_time;

/// Whose verdict depends on time: done in virtual time, where there is a kernel for that.
const VIRTUAL_TESTS: &[&str] =
    &["a_rate_is_what_tcp_gets", "our_link_delays_as_netem_does", "tcp_fares_alike_over_both"];

const PROBES: u32 = 800;
/// Few enough for an emulated processor, which is else late by as much as the jitter.
const EVERY: Duration = Duration::from_millis(6);

/// How often a test is tried that a processor which stands still for a while makes fail, as an emulated one on a busy host
/// does: a link that is wrong fails every time.
const TRIES: u32 = 3;

fn undisturbed(test: impl Fn()) {
    for left in (0..TRIES).rev() {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) if left > 0 => println!("failed, {left} tries left"),
            Err(failure) => std::panic::resume_unwind(failure),
        }
    }
}

/// Round-trip times, sorted, ms.
struct Distribution(Vec<f64>);

impl Distribution {
    fn of(network: &Network) -> Distribution {
        let mut times: Vec<f64> = network.probe(PROBES, EVERY).into_iter().map(|(_, ms)| ms).collect();
        times.sort_by(f64::total_cmp);
        Distribution(times)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        (self.0.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / self.0.len() as f64).sqrt()
    }

    /// Of the middle half. An emulated processor that stands still for half a second hardly changes it, nor what follows.
    fn range(&self) -> f64 {
        self.quantile(0.75) - self.quantile(0.25)
    }

    fn tails(&self) -> f64 {
        let [low, median, high] = [0.1, 0.5, 0.9].map(|q| self.quantile(q));
        (high - median) / (median - low)
    }

    fn quantile(&self, q: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * q) as usize]
    }

    /// The largest distance between the two distribution functions (Kolmogorov and Smirnov), counted from their medians: a slow
    /// processor adds to every delay alike.
    fn distance(&self, other: &Distribution) -> f64 {
        let below =
            |d: &Distribution, ms: f64| d.0.partition_point(|t| t - d.quantile(0.5) <= ms) as f64 / d.0.len() as f64;
        let all = [self, other].into_iter().flat_map(|d| d.0.iter().map(|ms| ms - d.quantile(0.5)));
        all.map(|ms| (below(self, ms) - below(other, ms)).abs()).fold(0.0, f64::max)
    }

    fn print(&self, of: &str) {
        let [least, median, p99, most] = [0.0, 0.5, 0.99, 1.0].map(|q| self.quantile(q));
        println!(
            "{of}: {} back, mean {:.2} ms, deviation {:.2}, least {least:.2}, median {median:.2}, p99 {p99:.2}, most {most:.2}, \
             middle half {:.2}, tails {:.2}",
            self.0.len(),
            self.mean(),
            self.deviation(),
            self.range(),
            self.tails()
        );
    }
}

/// Paths of 250 ms and 50 of jitter on packets to the client: the median that makes, the range of the middle half, and how much
/// longer the upper tail is than the lower.
const SHAPES: [(&str, f64, f64, f64); 3] =
    [("uniform", 250.0, 50.0, 1.0), ("normal", 250.0, 67.4, 1.0), ("pareto", 234.0, 32.4, 4.0)];

fn shaped(shape: &str) -> String {
    format!("rtt = \"250ms\"\njitter = \"50ms\"\njitter_shape = \"{shape}\"\nways = \"in\"\nreorder = true")
}

#[test]
fn delays_are_spread_as_asked() {
    undisturbed(|| {
        for (shape, median, range, tails) in SHAPES {
            let Some(network) = Network::new(shape, "own", &shaped(shape)) else { return };
            let times = Distribution::of(&network);
            times.print(shape);
            assert_eq!(times.0.len(), PROBES as usize);
            // No packet is early; on time, five standard errors are 11 ms of the median, and a fifth of the rest.
            assert!(times.quantile(0.0) >= 250.0 - 4.0 * 50.0);
            assert!((median - 12.0..median + 50.0).contains(&times.quantile(0.5)), "{shape}: {}", times.quantile(0.5));
            assert!((0.75..1.5).contains(&(times.range() / range)), "{shape}: {}", times.range());
            assert!((0.6..1.6).contains(&(times.tails() / tails)), "{shape}: {}", times.tails());
        }
    });
}

#[test]
fn both_ways_add_up() {
    undisturbed(|| {
        let Some(network) = Network::new("both", "own", "rtt = \"250ms\"\njitter = \"50ms\"\nreorder = true") else {
            return;
        };
        let times = Distribution::of(&network);
        times.print("both ways");
        assert!((238.0..300.0).contains(&times.quantile(0.5)), "{}", times.quantile(0.5));
        assert!((0.75..1.5).contains(&(times.range() / 67.4)), "{}", times.range());
        let counted = network.counted();
        for way in ["to_client", "to_server"] {
            assert_eq!(counted["groups"][0][way]["passed"], PROBES, "{counted}");
        }
        assert_eq!((&counted["refused"], &counted["strangers"]), (&0.into(), &0.into()), "{counted}");
    });
}

#[test]
fn packets_are_lost_as_asked_and_counted() {
    let Some(network) = Network::new("loss", "own", "rtt = \"10ms\"\nloss = 0.05") else { return };
    let back = network.probe(PROBES, Duration::from_millis(1)).len() as u64;
    let counted = network.counted();
    let count = |way: &str, what: &str| counted["groups"][0][way][what].as_u64().unwrap();
    // What did not come back was lost on the way there or back; nothing else was.
    assert_eq!(count("to_server", "lost") + count("to_client", "lost"), u64::from(PROBES) - back, "{counted}");
    // 78 of 800, standard deviation 8.4: five of them.
    assert!((36..=120).contains(&(u64::from(PROBES) - back)), "{back}");
}

#[test]
fn a_connection_keeps_its_order() {
    for means in ["own", "netem"] {
        let Some(network) = Network::new("order", means, "rtt = \"60ms\"\njitter = \"20ms\"") else { continue };
        let numbers: Vec<u32> = network.probe(PROBES, EVERY).into_iter().map(|(number, _)| number).collect();
        let lost: Vec<u32> = (0..PROBES).filter(|number| !numbers.contains(number)).collect();
        assert_eq!(lost, [0; 0], "{means}");
        let overtaken = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        println!("{means}: {overtaken} overtaken");
        // netem hands over in order, on the processor its timer fires on; what two of them have in hand may change places.
        let most = if means == "own" { 0 } else { PROBES as usize / 100 };
        assert!(overtaken <= most, "{means}: {overtaken}");
    }
}

/// 40 Mbyte as fast as it goes: how fast is printed, since that is the machine's; that all was carried is asserted.
#[test]
fn a_fast_transfer_loses_nothing() {
    let Some(network) = Network::new("fast", "own", "rtt = \"2ms\"") else { return };
    let bytes = 40_000_000;
    let mbit = network.fetch(bytes);
    let counted = network.counted();
    println!("{mbit:.0} Mbit/s; {counted}");
    let to_client = &counted["groups"][0]["to_client"];
    assert!(to_client["passed"].as_u64().unwrap() >= bytes as u64 / 1448, "{counted}");
    assert_eq!((&to_client["lost"], &to_client["queue_drops"]), (&0.into(), &0.into()), "{counted}");
}

#[test]
fn a_rate_is_what_tcp_gets() {
    if in_virtual_time(a_rate_is_what_tcp_gets) {
        return;
    }
    undisturbed(|| {
        let path = "rtt = \"40ms\"\nrate = \"5mbit\"";
        for means in ["own", "netem"] {
            let Some(network) = Network::new("rate", means, path) else { continue };
            let mbit = network.fetch(3_000_000);
            println!("{means}: {mbit:.2} Mbit/s of payload at 5 Mbit/s");
            assert!((3.5..4.9).contains(&mbit), "{means}: {mbit}");
        }
    });
}

/// The same paths of both kinds: one distribution of round-trip times.
#[test]
fn our_link_delays_as_netem_does() {
    if in_virtual_time(our_link_delays_as_netem_does) {
        return;
    }
    undisturbed(|| {
        for (shape, ..) in SHAPES {
            let Some(netem) = Network::new(shape, "netem", &shaped(shape)) else { return };
            let theirs = Distribution::of(&netem);
            drop(netem);
            let Some(own) = Network::new(shape, "own", &shaped(shape)) else { return };
            let ours = Distribution::of(&own);
            theirs.print(&format!("netem, {shape}"));
            ours.print(&format!("own, {shape}"));
            let distance = ours.distance(&theirs);
            println!("{shape}: distance {distance:.3}");
            // Of two samples of 800 from one distribution 0.11 is exceeded once in 10,000.
            assert!(distance < 0.15, "{shape}: {distance}");
            assert!((ours.quantile(0.5) - theirs.quantile(0.5)).abs() < 50.0, "{shape}");
            assert!((0.67..1.5).contains(&(ours.range() / theirs.range())), "{shape}");
        }
    });
}

#[test]
fn tcp_fares_alike_over_both() {
    if in_virtual_time(tcp_fares_alike_over_both) {
        return;
    }
    undisturbed(|| {
        let path = "rtt = \"40ms\"\nloss = 0.01\nways = \"in\"";
        let mean_mbit = |means: &str| {
            let network = Network::new("tcp", means, path)?;
            let rates: Vec<f64> = (0..4).map(|_| network.fetch(1_500_000)).collect();
            println!("{means}: {rates:.2?} Mbit/s");
            // Of all the bytes in all the time: one transfer that was lucky says little.
            Some(rates.len() as f64 / rates.iter().map(|mbit| 1.0 / mbit).sum::<f64>())
        };
        let (Some(own), Some(netem)) = (mean_mbit("own"), mean_mbit("netem")) else { return };
        // Which packets are lost differs, and with it the rate of each transfer: 3 to 25 Mbit/s.
        assert!((0.5..2.0).contains(&(own / netem)), "{own} {netem}");
    });
}
