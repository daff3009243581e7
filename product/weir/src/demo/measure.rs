//! The demo without a browser: the same downloads and pages, loaded as browsers load them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use units::Rate;

use super::{DOWNLOADS, Lane, OBJECTS};

/// The number of parallel requests of a browser to one host, in addition to the downloads.
const PARALLEL: usize = 4;
/// Pause between two loads.
const PAUSE: Duration = Duration::from_millis(200);
/// The part of its rate below which a lane shows that the processor is too busy.
const BUSY_BELOW: f64 = 0.8;

/// The results of one lane.
#[derive(Debug, Default)]
pub struct Measured {
    /// Time of each page, in seconds.
    pages: Vec<f64>,
    bits_per_s: f64,
}

impl Measured {
    fn median(&self) -> Option<f64> {
        let mut pages = self.pages.clone();
        pages.sort_by(f64::total_cmp);
        pages.get(pages.len() / 2).copied()
    }
}

/// Measures all lanes at the same time.
pub fn lanes(lanes: &[Lane], time: Duration) -> io::Result<Vec<Measured>> {
    let started = |&Lane { line, .. }: &Lane| thread::spawn(move || lane(line, time));
    let joined = |thread: thread::JoinHandle<io::Result<Measured>>| {
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the demo has ended")))
    };
    let started: Vec<_> = lanes.iter().map(started).collect();
    started.into_iter().map(joined).collect()
}

fn lane(line: SocketAddr, time: Duration) -> io::Result<Measured> {
    let (bytes, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..DOWNLOADS {
        let (bytes, is_over) = (Arc::clone(&bytes), Arc::clone(&is_over));
        let mut download = ask(line, "download")?;
        thread::spawn(move || read(&mut download, &bytes, &is_over));
    }
    let begin = Instant::now();
    let mut pages = Vec::new();
    while begin.elapsed() < time {
        let start = Instant::now();
        page(line, &bytes)?;
        pages.push(start.elapsed().as_secs_f64());
        thread::sleep(PAUSE);
    }
    is_over.store(true, Ordering::Relaxed);
    let bits_per_s = bytes.load(Ordering::Relaxed) as f64 * 8.0 / begin.elapsed().as_secs_f64();
    Ok(Measured { pages, bits_per_s })
}

fn ask(line: SocketAddr, name: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(line)?;
    write!(stream, "GET /{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

/// Reads a response to its end, or until the measurement is over.
fn read(stream: &mut TcpStream, bytes: &AtomicU64, is_over: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes.fetch_add(read as u64, Ordering::Relaxed);
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// Loads the page, then its objects.
fn page(line: SocketAddr, bytes: &AtomicU64) -> io::Result<()> {
    let (next, goes_on) = (AtomicUsize::new(0), AtomicBool::new(false));
    read(&mut ask(line, "page")?, bytes, &goes_on);
    let load = || -> io::Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= OBJECTS.len() {
                return Ok(());
            }
            read(&mut ask(line, &format!("object-{at}"))?, bytes, &goes_on);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(load)).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the demo has ended")))
        };
        threads.into_iter().try_for_each(ended)
    })
}

/// Describes the result in a sentence, or gives the reason why there is none. The last lane is compared with the
/// others.
pub fn told(lanes: &[Lane], results: &[Measured], rate: Rate) -> Result<String, String> {
    let rate_bits_per_s = rate.bits_per_s() as f64;
    let slowest = results.iter().map(|result| result.bits_per_s).fold(f64::INFINITY, f64::min);
    if slowest < BUSY_BELOW * rate_bits_per_s {
        let (slowest, rate) = (slowest / 1e6, rate_bits_per_s / 1e6);
        return Err(format!(
            "no result: this machine was too busy, so that one of the lines carried {slowest:.1} of its {rate:.1} Mbit/s"
        ));
    }
    let medians: Option<Vec<f64>> = results.iter().map(Measured::median).collect();
    let Some((medians, &weir)) = medians.as_deref().and_then(|medians| Some((medians, medians.last()?))) else {
        return Err("no result: no page was loaded to its end; give it longer (--time)".into());
    };
    let took = medians.iter().zip(lanes).map(|(median, lane)| format!("{median:.2} s {}", lane.said));
    let others = &medians[..medians.len() - 1];
    let than = |at: usize| if others.len() > 1 { format!(" than {}", lanes[at].said) } else { String::new() };
    let compared = others.iter().enumerate().map(|(at, other)| compared(other / weir) + &than(at));
    let carried = results.iter().map(|result| format!("{:.1}", result.bits_per_s / 1e6));
    Ok(format!(
        "During {DOWNLOADS} downloads a page took {}: {}. The lines carried {} Mbit/s.",
        listed(took),
        compared.collect::<Vec<_>>().join(", "),
        listed(carried)
    ))
}

fn compared(times: f64) -> String {
    match times {
        1.05.. => format!("{times:.1} times sooner"),
        ..0.95 => format!("{:.1} times later", 1.0 / times),
        _ => "no sooner".into(),
    }
}

/// Returns `a, b and c`.
fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(results: &[(&'static str, &[f64], f64)]) -> Result<String, String> {
        let line = (std::net::Ipv4Addr::LOCALHOST, 1).into();
        let lanes: Vec<Lane> = results.iter().map(|&(said, ..)| Lane { name: said, said, line }).collect();
        let measured = results.iter().map(|&(_, pages, bits_per_s)| Measured { pages: pages.to_vec(), bits_per_s });
        told(&lanes, &measured.collect::<Vec<_>>(), Rate::from_bits_per_s(10_000_000).unwrap())
    }

    #[test]
    fn the_sentence_can_go_either_way() {
        let said_of = |turns: &[f64], weir: &[f64]| said(&[("in turn", turns, 9.4e6), ("with Weir", weir, 9.2e6)]);
        let carried = "The lines carried 9.4 and 9.2 Mbit/s.";
        let sooner =
            format!("During 2 downloads a page took 2.00 s in turn and 0.50 s with Weir: 4.0 times sooner. {carried}");
        assert_eq!(said_of(&[9.0, 1.0, 2.0], &[0.5]), Ok(sooner));
        for (turns, weir, compared) in [(0.5, 2.0, "4.0 times later"), (1.0, 1.0, "no sooner")] {
            assert!(said_of(&[turns], &[weir]).is_ok_and(|said| said.contains(compared)), "{compared}");
        }
        assert!(said_of(&[], &[1.0]).is_err_and(|said| said.starts_with("no result: no page")));
        let busy = said(&[("in turn", &[1.0], 9.4e6), ("with Weir", &[0.1], 5e6)]).unwrap_err();
        assert!(busy.starts_with("no result: this machine was too busy") && busy.contains("5.0 of its 10.0"), "{busy}");
    }

    #[test]
    fn weir_is_compared_with_each_other_lane() {
        let lanes = |nginx_bits_per_s| {
            let weir: (&str, &[f64], f64) = ("with Weir", &[0.5], 9.2e6);
            said(&[("with nginx", &[2.2], nginx_bits_per_s), ("in turn", &[0.5], 9.4e6), weir])
        };
        let expected = "During 2 downloads a page took 2.20 s with nginx, 0.50 s in turn and 0.50 s with Weir: \
            4.4 times sooner than with nginx, no sooner than in turn. The lines carried 9.5, 9.4 and 9.2 Mbit/s.";
        assert_eq!(lanes(9.5e6), Ok(expected.into()));
        assert!(lanes(7e6).is_err_and(|said| said.contains("7.0 of its 10.0")), "a lane that another hides");
    }
}
