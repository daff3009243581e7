//! `weir demo`: compares the load times of a page from two servers, each behind its own slow line with downloads in
//! flight.

mod line;
mod measure;

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::Failure;
use server::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use units::Rate;

use crate::serve::run;

const AFTER_HELP: &str = "\
Both servers are Weir, one of them without an order, which sends as nginx does. Their lines
have one queue of 100 packets each. Nothing leaves this machine.

Examples:
  weir demo
  weir demo --text
  weir demo --rate 4mbit --listen 127.0.0.1:9000";

/// Sizes of the page and its objects, as of a small site.
const PAGE_BYTES: u64 = 15_000;
const OBJECTS: [u64; 20] = [
    1_000, 1_500, 2_000, 2_000, 2_500, 3_000, 3_000, 3_500, 4_000, 4_000, 5_000, 5_000, 6_000, 7_000, 8_000, 9_000,
    11_000, 13_000, 16_000, 24_000,
];
const DOWNLOAD_BYTES: u64 = 4_000_000_000;
const RATE_MIN: u64 = 256_000;
const RATE_MAX: u64 = 200_000_000;
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(600);
/// Downloads in each lane.
const DOWNLOADS: usize = 2;
const PAGE: &str = include_str!("page.html");

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Rate of both lines
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = rate)]
    rate: Rate,
    /// Address of the page that shows it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8000", value_parser = crate::serve::address)]
    listen: SocketAddr,
    /// Measure here and print the result, without a browser
    #[arg(long)]
    text: bool,
    /// Time for which pages are loaded
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    time: Duration,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let folder = Folder::new()?;
    let servers = [lane(&folder.0, "off")?, lane(&folder.0, &args.rate.to_string())?];
    let lines = [line::start(args.rate, servers[0].address())?, line::start(args.rate, servers[1].address())?];
    if args.text {
        let results = measure::lanes(lines, args.time)?;
        println!("{}", measure::told(&results, args.rate).map_err(Failure::Failed)?);
        return Ok(());
    }
    let page = filled(lines, &args);
    let shown = folder.0.join("shown");
    std::fs::create_dir(&shown)?;
    std::fs::write(shown.join("index.html"), page)?;
    let shown = started(&shown, "off", args.listen)?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    println!("Open http://{}/ and watch for {}; ctrl-c ends this.", shown.address(), seconds(args.time));
    signals.forever().next();
    Ok(())
}

/// Reads the rate of the lines. Faster lines would need more processor time than the servers leave.
fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse::<Rate>().map_err(|error| error.to_string())?;
    let is_right = (RATE_MIN..=RATE_MAX).contains(&rate.bits_per_s());
    if is_right { Ok(rate) } else { Err("expected 256kbit to 200mbit".into()) }
}

fn time(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text).map_err(|error| error.to_string())?;
    if (TIME_MIN..=TIME_MAX).contains(&time) { Ok(time) } else { Err("expected 1s to 10min".into()) }
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

/// Starts a server of the folder, whose responses are ordered at this rate or not at all. Its downloads are aborted
/// when it stops.
fn lane(folder: &Path, rate: &str) -> Result<Server, Failure> {
    started(&folder.join("www"), rate, (Ipv4Addr::LOCALHOST, 0).into())
}

fn started(folder: &Path, rate: &str, address: SocketAddr) -> Result<Server, Failure> {
    let folder = folder.to_str().ok_or_else(|| Failure::Failed("TMPDIR is not UTF-8".into()))?;
    let folder = serde_json::Value::from(folder);
    let text = format!(
        "[server]\nsandbox = false\n[timeouts]\nshutdown = '1s'\n[uplink]\nrate = '{rate}'\n[[site]]\nroot = {folder}\n\
         [[site.header]]\nname = 'Access-Control-Allow-Origin'\nvalue = '*'\n"
    );
    let configuration = config::read(text.as_bytes());
    let configuration = configuration.map_err(|mistakes| Failure::Failed(mistakes[0].said.clone()))?;
    run::start(configuration, Path::new("weir.toml"), address)
}

/// The page with the addresses of both lanes.
fn filled([turns, weir]: [SocketAddr; 2], args: &Args) -> String {
    let lane = |address: SocketAddr| format!("http://{address}");
    let settings = serde_json::json!({
        "lanes": [lane(turns), lane(weir)], "objects": OBJECTS.len(), "downloads": DOWNLOADS,
        "seconds": args.time.as_secs_f64(), "mbit": args.rate.bits_per_s() as f64 / 1e6,
    });
    PAGE.replace("{{settings}}", &settings.to_string())
}

/// The files of both lanes, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        let folder = Folder(std::env::temp_dir().join(format!("weir-demo-{}", std::process::id())));
        let www = folder.0.join("www");
        std::fs::create_dir_all(&www)?;
        let file = |name: &str, bytes: u64| File::create(www.join(name))?.set_len(bytes);
        file("page", PAGE_BYTES)?;
        file("download", DOWNLOAD_BYTES)?;
        for (at, bytes) in OBJECTS.into_iter().enumerate() {
            file(&format!("object-{at}"), bytes)?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
