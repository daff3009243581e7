//! `weir demo`: compares the load times of a page from two or three servers, each behind its own slow line with
//! downloads in progress.

mod line;
mod measure;
pub mod nginx;

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cli::Failure;
use server::Server;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Rate;

use self::nginx::Nginx;
use crate::serve::run;

const AFTER_HELP: &str = "\
The servers are nginx, if it is on PATH, Weir without an order, which sends as nginx does, and
Weir. Each has a line of its own with one queue of 100 packets. Nothing leaves this machine.

Examples:
  weir demo
  weir demo --text
  weir demo --rate 4mbit --listen 127.0.0.1:9000";

/// The size of the page. The next constants describe its objects, as for a small site.
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
/// The number of downloads in each lane.
const DOWNLOADS: usize = 2;
const PAGE: &str = include_str!("page.html");
/// The line that explains how to get a lane with nginx.
const NO_NGINX: &str = "A third lane shows nginx if it is on PATH: apt install nginx; PATH=$PATH:/usr/sbin weir demo";
/// The text on the page about the servers.
const WITH_NGINX: &str = "nginx has sendfile and tcp_nopush and no other tuning. The other two servers are Weir; the \
    first of them sends without an order.";
const WITHOUT_NGINX: &str = "Both servers are Weir; the first sends without an order, as nginx does.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Rate of each line
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

/// A server behind its line.
#[derive(Clone, Copy, Debug)]
struct Lane {
    name: &'static str,
    /// The name of the lane in a sentence: `a page took 2 s in turn`.
    said: &'static str,
    line: SocketAddr,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let signals = Signals::new([SIGINT, SIGTERM])?;
    // Dropped last: the servers have files in it.
    let folder = Folder::new()?;
    let nginx = nginx(&folder.0).inspect_err(|reason| eprintln!("{reason}")).ok();
    let servers = [server(&folder.0, "off")?, server(&folder.0, &args.rate.to_string())?];
    let lanes = lanes(args.rate, nginx.as_ref(), &servers)?;
    let (ended, end) = mpsc::channel();
    wait_for_signal(signals, ended.clone())?;
    if args.text {
        return printed(lanes, &args, ended, &end);
    }
    let shown = folder.0.join("shown");
    std::fs::create_dir(&shown)?;
    std::fs::write(shown.join("index.html"), filled(&lanes, &args))?;
    let shown = started(&shown, "off", args.listen)?;
    println!("Open http://{}/ and watch for {}; ctrl-c ends this.", shown.address(), seconds(args.time));
    let _ = end.recv();
    Ok(())
}

/// Starts nginx, or returns a line with the reason why it cannot.
fn nginx(folder: &Path) -> Result<Nginx, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = nginx::find(&path).ok_or_else(|| String::from(NO_NGINX))?;
    Nginx::start(&program, folder).map_err(|reason| format!("No lane of nginx: {reason}"))
}

/// Starts a line in front of each server. Weir's lane comes last.
fn lanes(rate: Rate, nginx: Option<&Nginx>, [turns, weir]: &[Server; 2]) -> io::Result<Vec<Lane>> {
    let nginx = nginx.map(|nginx| ("nginx", "with nginx", nginx.address()));
    let of_weir = [("All in turn", "in turn", turns.address()), ("Weir", "with Weir", weir.address())];
    let lane = |(name, said, server)| Ok(Lane { name, said, line: line::start(rate, server)? });
    nginx.into_iter().chain(of_weir).map(lane).collect()
}

/// The event that ends the demo: the lanes were measured, or a signal arrived.
enum End {
    Measured(io::Result<Vec<measure::Measured>>),
    Signal,
}

fn wait_for_signal(mut signals: Signals, ended: mpsc::Sender<End>) -> io::Result<()> {
    let wait = move || {
        signals.forever().next();
        let _ = ended.send(End::Signal);
    };
    thread::Builder::new().name("demo-signals".into()).spawn(wait).map(drop)
}

/// Measures the lanes and prints the result.
fn printed(lanes: Vec<Lane>, args: &Args, ended: mpsc::Sender<End>, end: &mpsc::Receiver<End>) -> Result<(), Failure> {
    let (time, measured) = (args.time, lanes.clone());
    let measure = move || ended.send(End::Measured(measure::lanes(&measured, time)));
    thread::Builder::new().name("demo-measure".into()).spawn(measure)?;
    let Ok(End::Measured(results)) = end.recv() else {
        return Err(Failure::Failed("no result: a signal ended it before".into()));
    };
    println!("{}", measure::told(&lanes, &results?, args.rate).map_err(Failure::Failed)?);
    Ok(())
}

/// Parses the rate of the lines. Faster lines would need more processor time than the servers leave.
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

/// Starts a server for the folder, whose responses are ordered at this rate, or not at all. Its downloads are aborted
/// when it stops.
fn server(folder: &Path, rate: &str) -> Result<Server, Failure> {
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

/// The page with the addresses of the lanes.
fn filled(lanes: &[Lane], args: &Args) -> String {
    let lane =
        |lane: &Lane| serde_json::json!({"name": lane.name, "said": lane.said, "at": format!("http://{}", lane.line)});
    let note = if lanes.len() > 2 { WITH_NGINX.to_string() } else { format!("{WITHOUT_NGINX} {NO_NGINX}") };
    let settings = serde_json::json!({
        "lanes": lanes.iter().map(lane).collect::<Vec<_>>(), "note": note, "objects": OBJECTS.len(),
        "downloads": DOWNLOADS, "seconds": args.time.as_secs_f64(), "mbit": args.rate.bits_per_s() as f64 / 1e6,
    });
    PAGE.replace("{{settings}}", &settings.to_string())
}

/// The folder with the files of all lanes, which is removed at the end.
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
