//! WebStone's workloads WA and WB of paper 004, and its clients: each sends a request, waits for the response and
//! immediately sends the next.
//!
//! The paper (table 1) gives three figures of each: the number of files, their average size and the largest. The mix
//! itself is not available, so it is derived with minimal assumptions: sizes rise by a constant factor from the
//! smallest to the largest file, and a file is requested in proportion to size^-alpha. In WA all files are requested
//! equally often (alpha 0), and the average determines the smallest. WB begins with the same file, and the average
//! determines alpha: 0.42, within the 0.40 to 0.63 that Arlitt and Williamson (1996), on whom WB is modelled, found for
//! the sizes of busy servers. The average is assumed to be over requests.
//!
//! A class is a customer of the server: its clients request only that customer's files, and every customer has the same
//! files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use units::Nanos;

use crate::sizes::unit;
use crate::{Ask, Source};

/// The maximum number of classes, which are the customers of one server.
pub const WEBSTONE_CLASSES_MAX: usize = 16;
/// The maximum number of clients of all classes.
pub const WEBSTONE_CLIENTS_MAX: u32 = 4096;

/// The minimum interval between requests of one client, so that immediate failures do not cause a busy loop.
const APART: Nanos = Nanos::from_micros(100);

/// The two workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebStone {
    /// 40 files, 18.5 KB on average, the largest 115 KB.
    Wa,
    /// 60 files, 28.8 KB on average, the largest 2 MB.
    Wb,
}

/// The files of a workload, and the frequency of requests for each.
#[derive(Debug, Clone, PartialEq)]
pub struct WebStoneFiles {
    /// The sizes, ascending.
    sizes: Vec<u64>,
    /// The share of requests for this file or smaller ones.
    ends: Vec<f64>,
}

/// The clients of all classes: a [`Source`] whose users send the next request as soon as they have a response.
#[derive(Debug)]
pub struct WebStoneClients {
    files: WebStoneFiles,
    clients: Vec<Client>,
    until: Nanos,
    /// The users and the instants of their next requests, the earliest first.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
}

#[derive(Debug)]
struct Client {
    class: u32,
    random: ChaCha8Rng,
    asked_at: Nanos,
}

/// Table 1: the number of files, the mean bytes, the bytes of the largest.
const fn table_1(of: WebStone) -> (u32, f64, f64) {
    match of {
        WebStone::Wa => (40, 18_500.0, 115_000.0),
        WebStone::Wb => (60, 28_800.0, 2_000_000.0),
    }
}

impl WebStone {
    pub const ALL: [WebStone; 2] = [WebStone::Wa, WebStone::Wb];

    pub fn name(self) -> &'static str {
        match self {
            WebStone::Wa => "WA",
            WebStone::Wb => "WB",
        }
    }

    pub fn files(self) -> WebStoneFiles {
        let (_, mean, largest) = table_1(WebStone::Wa);
        // The mean rises with the smallest file, and falls with alpha.
        let smallest = root(1.0, largest, |smallest| WebStoneFiles::new(WebStone::Wa, smallest, 0.0).mean() - mean);
        let (_, mean, _) = table_1(self);
        let alpha = match self {
            WebStone::Wa => 0.0,
            WebStone::Wb => root(0.0, 2.0, |alpha| mean - WebStoneFiles::new(self, smallest, alpha).mean()),
        };
        WebStoneFiles::new(self, smallest, alpha)
    }
}

impl FromStr for WebStone {
    type Err = String;

    fn from_str(text: &str) -> Result<WebStone, String> {
        let named = WebStone::ALL.into_iter().find(|of| of.name().eq_ignore_ascii_case(text));
        named.ok_or_else(|| format!("`{text}` is no workload of WebStone: write WA or WB"))
    }
}

/// Returns the zero of a rising function, to the last digits of a double.
fn root(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if value(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

impl WebStoneFiles {
    fn new(of: WebStone, smallest: f64, alpha: f64) -> WebStoneFiles {
        let (count, _, largest) = table_1(of);
        let size = |n: u32| smallest * (largest / smallest).powf(f64::from(n) / f64::from(count - 1));
        let exact: Vec<f64> = (0..count).map(size).collect();
        let weights: Vec<f64> = exact.iter().map(|size| size.powf(-alpha)).collect();
        let all: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let ends = weights.iter().map(|weight| {
            sum += weight / all;
            sum
        });
        WebStoneFiles { ends: ends.collect(), sizes: exact.iter().map(|size| size.round() as u64).collect() }
    }

    /// The sizes, ascending and distinct.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The share of the requests for this file.
    pub fn share(&self, file: usize) -> f64 {
        self.ends[file] - file.checked_sub(1).map_or(0.0, |before| self.ends[before])
    }

    /// Returns the mean size of the requests in bytes.
    pub fn mean(&self) -> f64 {
        self.sizes.iter().enumerate().map(|(file, size)| *size as f64 * self.share(file)).sum()
    }

    /// The size at this quantile of the requests, 0 to 1.
    pub fn quantile(&self, u: f64) -> u64 {
        // The last sum may be a rounding error below 1.
        self.sizes[self.ends.partition_point(|&end| end <= u).min(self.sizes.len() - 1)]
    }
}

impl WebStoneClients {
    /// Creates the clients of each class. All send a request at the start, the next one after each response, and none
    /// from `until` on.
    pub fn new(of: WebStone, clients: &[u32], until: Nanos, seed: u64) -> WebStoneClients {
        let classes = (0..).zip(clients).flat_map(|(class, &clients)| (0..clients).map(move |_| class));
        let clients: Vec<Client> = classes
            .zip(1..)
            .map(|(class, stream)| {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(stream);
                Client { class, random, asked_at: Nanos::ZERO }
            })
            .collect();
        let first = (0..clients.len() as u32).map(|number| (Nanos(APART.0 * u64::from(number)), number));
        let due = first.filter(|(at, _)| *at < until).map(Reverse).collect();
        WebStoneClients { files: of.files(), clients, until, due }
    }
}

/// Checks the numbers of clients of the classes; the error states the valid values.
pub fn check_webstone(clients: &[u32]) -> Result<(), String> {
    if !(1..=WEBSTONE_CLASSES_MAX).contains(&clients.len()) {
        return Err(format!("{} classes: write 1 to {WEBSTONE_CLASSES_MAX}", clients.len()));
    }
    let sum: u64 = clients.iter().map(|&clients| u64::from(clients)).sum();
    if clients.contains(&0) || sum > u64::from(WEBSTONE_CLIENTS_MAX) {
        return Err(format!("{sum} clients: write 1 or more for each class, and up to {WEBSTONE_CLIENTS_MAX} in all"));
    }
    Ok(())
}

impl Source for WebStoneClients {
    fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self) -> Option<Ask> {
        let Reverse((at, number)) = self.due.pop()?;
        let client = &mut self.clients[number as usize];
        client.asked_at = at;
        let size_bytes = self.files.quantile(unit(&mut client.random));
        Some(Ask { at, size_bytes, user: Some(number), group: Some(client.class), client: None, part: None })
    }

    fn on_end(&mut self, user: u32, at: Nanos) -> bool {
        let Some(client) = self.clients.get(user as usize) else { return false };
        let next = at.max(client.asked_at + APART);
        if next >= self.until {
            return false;
        }
        self.due.push(Reverse((next, user)));
        true
    }

    fn last_at(&self) -> Nanos {
        self.until
    }

    fn count(&self) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_table_1() {
        for (of, count, mean, largest) in
            [(WebStone::Wa, 40, 18_500.0, 115_000), (WebStone::Wb, 60, 28_800.0, 2_000_000)]
        {
            let files = of.files();
            assert!((files.mean() - mean).abs() < 1.0, "{}: {}", of.name(), files.mean());
            assert_eq!((files.sizes().len(), files.sizes().last()), (count, Some(&largest)));
            assert!(files.sizes().is_sorted_by(|one, next| one < next), "{:?}", files.sizes());
            let shares: f64 = (0..count).map(|file| files.share(file)).sum();
            assert!((shares - 1.0).abs() < 1e-9);
        }
        let (wa, wb) = (WebStone::Wa.files(), WebStone::Wb.files());
        assert_eq!(wa.sizes()[0], wb.sizes()[0]);
        // The sizes of neighbours to the power -alpha.
        let alpha = (wb.share(0) / wb.share(1)).ln() / (wb.sizes()[1] as f64 / wb.sizes()[0] as f64).ln();
        assert!((0.40..0.63).contains(&alpha), "{alpha}");
        assert!((wa.share(0) - wa.share(39)).abs() < 1e-12);
    }

    #[test]
    fn requests_have_the_mean_and_the_classes_theirs() {
        let mut clients = WebStoneClients::new(WebStone::Wa, &[1, 1], Nanos::from_secs(1_000), 7);
        let mut asks = Vec::new();
        while let Some(ask) = clients.take() {
            asks.push(ask);
            clients.on_end(ask.user.unwrap(), ask.at + Nanos::from_millis(20));
        }
        assert_eq!(asks.len(), 100_000);
        let mean = asks.iter().map(|ask| ask.size_bytes as f64).sum::<f64>() / asks.len() as f64;
        // The standard deviation of a size is 27 KB: five standard errors.
        assert!((mean - 18_500.0).abs() < 430.0, "{mean}");
        assert!(asks.iter().all(|ask| ask.group == ask.user));
    }

    #[test]
    fn a_client_waits_for_its_answer_and_asks_at_once() {
        let mut clients = WebStoneClients::new(WebStone::Wb, &[1, 2], Nanos::from_millis(50), 1);
        let first: Vec<(u32, u32)> =
            (0..3).map(|_| clients.take().unwrap()).map(|ask| (ask.user.unwrap(), ask.group.unwrap())).collect();
        assert_eq!((first, clients.due()), (vec![(0, 0), (1, 1), (2, 1)], None));
        assert!(clients.on_end(1, Nanos::from_millis(9)));
        assert_eq!(clients.due(), Some(Nanos::from_millis(9)));
        assert_eq!(clients.take().unwrap().user, Some(1));
        assert!(clients.on_end(1, Nanos::from_millis(9)) && !clients.on_end(0, Nanos::from_millis(50)));
        assert_eq!(clients.due(), Some(Nanos::from_millis(9) + APART), "it failed at once");
    }

    #[test]
    fn what_is_no_number_of_clients_is_told() {
        assert_eq!(check_webstone(&[15, 15]), Ok(()));
        for wrong in [&[][..], &[0], &[15, 0], &[5000], &[1; 17]] {
            assert!(check_webstone(wrong).unwrap_err().contains("write 1"), "{wrong:?}");
        }
        assert_eq!("wb".parse(), Ok(WebStone::Wb));
        assert!("WC".parse::<WebStone>().unwrap_err().contains("WA or WB"));
    }
}
