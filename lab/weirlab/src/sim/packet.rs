//! Converts a spec to the model of TCP over a bottleneck.

use std::fmt::Display;
use std::str::FromStr;

use cli::Failure;
use serde_json::{Map, Value};
use sim::Hooks;
use sim::packet::{self, ClosedLoad, Config, Discipline, PathConfig, Server, Shape, Shaping, Tcp, User};
use units::{Nanos, Rate};
use workload::{Distribution, Job, LoadProfile, Scaling};

use super::queue::wrong;
use super::{PacketSpec, SimOutcome, SimSpec, distribution};

pub(super) fn check(spec: &SimSpec) -> Result<(), Failure> {
    let config = config(spec)?;
    config.check().map_err(usage)?;
    match closed_load(spec)? {
        Some(load) => load.check(&config).map_err(usage),
        None => jobs(spec, &config).map(drop),
    }
}

fn usage(error: packet::ConfigError) -> Failure {
    Failure::Usage(error.to_string())
}

pub(super) fn run(spec: &SimSpec, hooks: Hooks) -> Result<SimOutcome, Failure> {
    let config = config(spec)?;
    let outcome = match closed_load(spec)? {
        Some(load) => packet::run_users(&config, &load, hooks),
        None => packet::run(&config, jobs(spec, &config)?, hooks),
    };
    let outcome = outcome.map_err(usage)?;
    let summary = outcome.summary.clone();
    let simulated_jobs = outcome.complete + outcome.aborted + outcome.incomplete + outcome.refused;
    let mut details = Map::new();
    if let Value::Object(fields) = serde_json::to_value(&outcome)? {
        let is_told = |(name, value): &(String, Value)| name != "summary" && *value != Value::Array(Vec::new());
        details.extend(fields.into_iter().filter(is_told));
    }
    Ok(SimOutcome { summary, details, link_bps: config.link.bits_per_s(), simulated_jobs })
}

fn config(spec: &SimSpec) -> Result<Config, Failure> {
    let packet = &spec.packet;
    let base = Config::default();
    let link: Rate = spec.link().parse().map_err(wrong("link"))?;
    let shaping = one_of("shaping", packet.shaping.as_deref().unwrap_or("off"), &SHAPINGS)?;
    // The papers' bands belong to another server.
    let is_paper = packet.tcp.as_deref() == Some("2003");
    let is_weir = shaping == Shaping::Paced || (shaping != Shaping::Off && !is_paper);
    let is_router = packet.tcp.as_deref() == Some("router");
    Ok(Config {
        link,
        shape: shape(packet.shaper.as_deref().unwrap_or("htb"), link)?,
        bottleneck: bottleneck(packet.bottleneck.as_deref(), shaping)?,
        shaping,
        policy: spec.policy.parse().map_err(wrong("policy"))?,
        promotes_at_once: is_paper,
        sees_queue: !is_router,
        rate_changes: Vec::new(),
        told: None,
        tcp: tcp(packet)?,
        paths: paths(packet)?,
        server: Server {
            syn_queue: packet.syn_queue.unwrap_or(base.server.syn_queue),
            accept_queue: packet.accept_queue.unwrap_or(base.server.accept_queue),
            workers: packet.workers,
            syn_cookies: packet.syn_cookies,
            acks_ride: is_weir,
            ..base.server
        },
        per_connection: packet.per_connection.unwrap_or(1),
        user: user(packet)?,
        grace: packet.grace.as_deref().map(|text| time("grace", text)).transpose()?,
        warm_up_jobs: spec.warm_up.unwrap_or(0),
        sample_every: None,
        seed: spec.seed,
    })
}

const SHAPINGS: [(&str, Shaping); 3] = [("off", Shaping::Off), ("paced", Shaping::Paced), ("bands", Shaping::Bands)];

fn one_of<T: Copy>(field: &str, text: &str, known: &[(&str, T)]) -> Result<T, Failure> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| wrong(field)(format!("unknown value `{text}`; expected one of {}", names.join(", "))))
}

/// Parses `NAME` or `NAME:NUMBER`.
fn numbered<'a, N: FromStr<Err: Display>>(field: &str, text: &'a str) -> Result<(&'a str, Option<N>), Failure> {
    let Some((name, number)) = text.split_once(':') else { return Ok((text, None)) };
    let number = number.parse().map_err(|error| wrong(field)(format!("`{text}`: {error}")))?;
    Ok((name, Some(number)))
}

/// Parses the shape of the link. HTB has the burst that it has in the laboratory: a full packet, or a millisecond if
/// that is more.
fn shape(text: &str, link: Rate) -> Result<Shape, Failure> {
    const PACKET_BYTES: u64 = 1600;
    let usual = PACKET_BYTES.max(link.bits_per_s() / 8000);
    match numbered("shaper", text)? {
        ("htb", burst) => Ok(Shape::Bucket(burst.unwrap_or(usual))),
        ("htb-wire", burst) => Ok(Shape::BucketWire(burst.unwrap_or(usual))),
        ("wire", None) => Ok(Shape::Wire),
        _ => Err(wrong("shaper")(format!(
            "unknown value `{text}`; expected wire, or htb or htb-wire, either with :BURST_BYTES"
        ))),
    }
}

fn bottleneck(text: Option<&str>, shaping: Shaping) -> Result<Discipline, Failure> {
    let usual = match shaping {
        Shaping::Off | Shaping::Paced => "fifo",
        Shaping::Bands => "bands",
    };
    let text = text.unwrap_or(usual);
    // The papers' FIFO.
    match numbered("bottleneck", text)? {
        ("fifo", limit) => Ok(Discipline::Fifo(limit.unwrap_or(100))),
        ("bands", limit) => Ok(Discipline::Bands(limit.unwrap_or(100))),
        _ => {
            Err(wrong("bottleneck")(format!("unknown value `{text}`; expected fifo or bands, each also with :PACKETS")))
        }
    }
}

fn tcp(packet: &PacketSpec) -> Result<Tcp, Failure> {
    let kinds = [("linux", Tcp::default()), ("router", Tcp::behind_router()), ("2003", Tcp::of_2003())];
    let mut tcp = one_of("tcp", packet.tcp.as_deref().unwrap_or("linux"), &kinds)?;
    tcp.initial_window = packet.initial_window.unwrap_or(tcp.initial_window);
    tcp.receive_window_bytes = packet.receive_window.unwrap_or(tcp.receive_window_bytes);
    tcp.gso_segments = packet.gso_segments.unwrap_or(tcp.gso_segments);
    if let Some(text) = &packet.initial_rto {
        tcp.initial_rto = time("initial_rto", text)?;
    }
    if let Some(mtu) = packet.mtu {
        // IPv4 and TCP with timestamps.
        const HEADER_BYTES: u32 = 52;
        if !(128..=65_000).contains(&mtu) {
            return Err(wrong("mtu")(format!("{mtu} is out of range: write 128 to 65000")));
        }
        tcp.segment_bytes = mtu - HEADER_BYTES;
    }
    Ok(tcp)
}

fn paths(packet: &PacketSpec) -> Result<Vec<PathConfig>, Failure> {
    let Some(wans) = &packet.wans else {
        let zero = || "0ms".to_owned();
        let (rtt, jitter) = (packet.rtt.clone().unwrap_or_else(zero), packet.jitter.clone().unwrap_or_else(zero));
        let rtt = time("rtt", &rtt)?;
        let path = path(rtt, time("jitter", &jitter)?, packet.loss.unwrap_or(0.0), packet.loss_back.unwrap_or(0.0));
        return Ok(vec![path]);
    };
    let of_word = |word: &str| {
        let parts: Vec<&str> = word.split('/').collect();
        let [rtt, jitter, loss] = parts[..] else {
            return Err(wrong("wans")(format!("`{word}` is no path: write RTT/JITTER/LOSS, such as 50ms/10ms/0.005")));
        };
        let loss = loss.parse().map_err(|error| wrong("wans")(format!("`{word}`: {error}")))?;
        Ok(path(time("wans", rtt)?, time("wans", jitter)?, loss, packet.loss_back.unwrap_or(0.0)))
    };
    wans.split(',').map(|word| of_word(word.trim())).collect()
}

fn path(rtt: Nanos, jitter: Nanos, loss: f64, loss_back: f64) -> PathConfig {
    let back = Nanos(rtt.0 / 2);
    PathConfig { forward: rtt - back, back, jitter, loss, loss_back }
}

fn user(packet: &PacketSpec) -> Result<Option<User>, Failure> {
    match (&packet.abort_after, packet.retries) {
        (Some(text), retries) => {
            Ok(Some(User { aborts_after: time("abort_after", text)?, retries: retries.unwrap_or(0) }))
        }
        (None, Some(_)) => Err(wrong("retries")("nobody tries again who never aborts: write --abort-after too")),
        (None, None) => Ok(None),
    }
}

fn time(field: &str, text: &str) -> Result<Nanos, Failure> {
    units::parse_duration(text).map(Nanos::from).map_err(wrong(field))
}

/// The users, if there are any.
fn closed_load(spec: &SimSpec) -> Result<Option<ClosedLoad>, Failure> {
    let Some(users) = spec.users else { return Ok(None) };
    let given = [("rho", spec.rho.is_some()), ("trace", spec.trace.is_some()), ("profile", spec.profile.is_some())];
    if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(wrong(name)("--users are the load already: write one of the two"));
    }
    if spec.jobs.is_none() && spec.seconds.is_none() {
        return Err(wrong("seconds")("users ask without end: write --seconds or --jobs"));
    }
    let requests_max = spec.jobs.unwrap_or(u64::MAX);
    Ok(Some(ClosedLoad { users, sizes: sizes(spec)?, until: until(spec)?, requests_max }))
}

/// The end of arrivals.
fn until(spec: &SimSpec) -> Result<Nanos, Failure> {
    spec.seconds.map_or(Ok(Nanos::MAX), |seconds| match (1e-9..=1e9).contains(&seconds) {
        true => Ok(Nanos((seconds * 1e9).round() as u64)),
        false => Err(wrong("seconds")(format!("{seconds} makes no sense: write seconds above 0, such as 60"))),
    })
}

/// The jobs, drawn when they are needed.
fn jobs(spec: &SimSpec, config: &Config) -> Result<Box<dyn Iterator<Item = Job>>, Failure> {
    let until = until(spec)?;
    let most = spec.jobs.map_or(usize::MAX, |jobs| usize::try_from(jobs).unwrap_or(usize::MAX));
    let arrivals: Box<dyn Iterator<Item = Job>> = match &spec.trace {
        Some(_) => Box::new(packet::at_load(replay(spec, config)?, load(spec)?)),
        None if spec.jobs.is_none() && spec.seconds.is_none() => {
            return Err(wrong("seconds")("arrivals have no end: write --seconds or --jobs"));
        }
        None => {
            let sizes = sizes(spec)?;
            // The arrivals of users are unknown; packet headers are a few per cent.
            let service_ns = sizes.mean_drawn() * 8e9 / config.link.bits_per_s() as f64;
            sim::queue::check_span(&sizes, service_ns, &load(spec)?, spec.jobs.unwrap_or(0))
                .map_err(super::queue::failure)?;
            Box::new(packet::poisson(&sizes, load(spec)?, config.link, config.per_connection, spec.seed))
        }
    };
    Ok(Box::new(arrivals.take_while(move |job| job.arrival < until).take(most)))
}

fn load(spec: &SimSpec) -> Result<LoadProfile, Failure> {
    match (&spec.profile, spec.rho) {
        (Some(_), Some(_)) => Err(wrong("rho")("--profile says the load already: write one of the two")),
        (Some(profile), None) => profile.parse().map_err(wrong("profile")),
        (None, Some(rho)) => LoadProfile::constant(rho).map_err(wrong("rho")),
        (None, None) => Err(wrong("rho")("write the load of the link, such as 0.8")),
    }
}

fn sizes(spec: &SimSpec) -> Result<Distribution, Failure> {
    let Some(dist) = &spec.dist else {
        return Err(wrong("dist")("write a distribution of sizes, such as exponential:mean=5000, or a --trace"));
    };
    distribution(dist)
}

/// The trace, scaled to a load of 1.
fn replay(spec: &SimSpec, config: &Config) -> Result<Vec<Job>, Failure> {
    let (Some(file), None) = (&spec.trace, &spec.dist) else {
        return Err(wrong("trace")("a trace has its own sizes and times: write no --dist"));
    };
    let trace = crate::trace::read_for_schedule(file, spec.seed)?;
    let load = LoadProfile::constant(1.0).map_err(wrong("rho"))?;
    let per_connection = config.per_connection.into();
    let scaling = Scaling { load, link: config.link, seconds: None, per_connection, repeat: None };
    let schedule = workload::schedule(&trace, &scaling);
    Ok(schedule.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))?.jobs)
}
