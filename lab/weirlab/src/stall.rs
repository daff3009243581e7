//! `weirlab stall`: connections of HTTP/3 that ask and never read, for `cargo xtask attack`, which starts it beside its own server.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use cli::Failure;
use loadgen::{Stall, Stalled};
use serde_json::json;

const GLANCE: Duration = Duration::from_millis(20);
/// The maximum time for which connections are held.
const HOLD_MAX: Duration = Duration::from_secs(120);

/// Hold connections of HTTP/3 to a server on loopback, print what is held, and close all when standard input ends.
#[derive(clap::Args)]
pub struct Args {
    target: SocketAddr,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// GETs on each connection.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    requests: u32,
    #[arg(long, default_value = "/")]
    path: String,
    /// For opening them.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
}

pub fn main(args: &Args) -> Result<(), Failure> {
    let stall = Stall {
        target: args.target,
        path: args.path.clone(),
        connections: args.connections,
        requests: args.requests,
        until: Instant::now() + Duration::from_secs(args.seconds),
    };
    let mut stalled = Stalled::open(&stall)?;
    let said = json!({
        "held": stalled.held(),
        "given_up": stalled.given_up(),
        "answered": stalled.answered(),
        "upload_bytes": stalled.upload_bytes(),
    });
    writeln!(io::stdout(), "{said}")?;
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::spawn(|| {
        // An error ends it too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        IS_OVER.store(true, Ordering::Relaxed);
    });
    let until = Instant::now() + HOLD_MAX;
    while !IS_OVER.load(Ordering::Relaxed) && Instant::now() < until {
        sleep(GLANCE);
        stalled.hold();
    }
    stalled.close();
    Ok(())
}
