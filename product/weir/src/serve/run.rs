//! `weir run`: what `weir serve` does, from a file. What the file asks for beyond that is an error, so that nobody relies on it.

use std::path::{Path, PathBuf};

use clap::Parser;
use cli::Failure;
use config::{AccessLog, Configuration, Remark};

use super::{LogFormat, PromotionArg, Shaping};

const AFTER_HELP: &str = "\
Examples:
  weir run /etc/weir/weir.toml

`weir check FILE` prints the keys that have no effect yet; they are errors here.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
}

/// The flags with their defaults, for those that no key sets.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    args: super::Args,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let configuration = config::read_file(&args.file)?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    let flags = flags(configuration, folder).map_err(|missing| {
        let file = args.file.display().to_string();
        Failure::Failed(missing.iter().map(|remark| remark.line(&file)).collect::<Vec<_>>().join("\n"))
    })?;
    super::main(flags)
}

/// What the file asks for and cannot have yet.
fn missing(configuration: &Configuration) -> Vec<Remark> {
    let one = |at, noun: &str| Remark { at, said: format!("{noun} 2: no effect yet, expected one") };
    let listener = configuration.settings.listeners.get(1).map(|listener| one(listener.at, "listener"));
    let site = configuration.sites.get(1).map(|site| one(site.at, "site"));
    let mut missing: Vec<Remark> = configuration.idle.iter().cloned().chain(listener).chain(site).collect();
    missing.sort();
    missing
}

/// The file as flags, its relative paths beneath this folder; or what is missing.
fn flags(configuration: Configuration, folder: &Path) -> Result<super::Args, Vec<Remark>> {
    let missing = missing(&configuration);
    let (settings, site) = (configuration.settings, configuration.sites.into_iter().next());
    let (Some(listener), Some(site), true) = (settings.listeners.first(), site, missing.is_empty()) else {
        return Err(missing);
    };
    let (process, uplink) = (settings.process, settings.uplink);
    let defaults = Flags::parse_from(["weir"]).args;
    Ok(super::Args {
        // A site of redirects alone has none, and redirects are not there yet.
        dir: folder.join(site.root.unwrap_or_default()),
        listing: site.listing,
        hidden: site.hidden,
        listen: listener.value,
        uplink: uplink.rate,
        policy: uplink.policy,
        shaping: shaping(uplink.shaping),
        promotion: promotion(uplink.promotion),
        guard: uplink.guard_permille,
        foreign_share: uplink.foreign_permille,
        client_share: uplink.client_share,
        workers: process.workers,
        connections: process.connections,
        slots: process.slots,
        backlog: process.backlog,
        access_log: process.access_log.as_ref().map(|log| log_path(log, folder)),
        log_format: process.access_log.map_or(defaults.log_format, |log| log_format(log.format)),
        records: process.records.map(|path| folder.join(path)),
        ..bounded(settings.limits, settings.timeouts, defaults)
    })
}

fn bounded(limits: config::Limits, timeouts: config::Timeouts, args: super::Args) -> super::Args {
    super::Args {
        idle_timeout: timeouts.idle,
        head_timeout: timeouts.head,
        body_timeout: timeouts.body,
        stop_timeout: timeouts.stop,
        body_rate_min: limits.body_rate_bytes_per_s_min,
        send_rate_min: limits.send_rate_bytes_per_s_min,
        send_window: limits.send_window,
        client_connections: limits.client_connections,
        client_requests: limits.client_requests_per_s,
        client_rate: limits.client_rate,
        ..args
    }
}

fn log_path(log: &AccessLog, folder: &Path) -> PathBuf {
    if log.path.as_os_str() == "-" { log.path.clone() } else { folder.join(&log.path) }
}

fn log_format(format: config::LogFormat) -> LogFormat {
    match format {
        config::LogFormat::Combined => LogFormat::Combined,
        config::LogFormat::Json => LogFormat::Json,
    }
}

fn shaping(shaping: config::Shaping) -> Shaping {
    match shaping {
        config::Shaping::Auto => Shaping::Auto,
        config::Shaping::Paced => Shaping::Paced,
        config::Shaping::Bands => Shaping::Bands,
        config::Shaping::Ranked => Shaping::Ranked,
        config::Shaping::Off => Shaping::Off,
    }
}

fn promotion(promotion: config::Promotion) -> PromotionArg {
    match promotion {
        config::Promotion::WhenEmpty => PromotionArg::WhenEmpty,
        config::Promotion::Plain => PromotionArg::Plain,
        config::Promotion::Never => PromotionArg::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(text: &str) -> Result<String, Vec<String>> {
        let Ok(configuration) = config::read(text.as_bytes()) else { panic!("a right file: {text}") };
        let lines = |missing: Vec<Remark>| missing.iter().map(|remark| remark.line("f")).collect();
        flags(configuration, Path::new("/etc")).map(|args| format!("{args:#?}")).map_err(lines)
    }

    fn of_flags(words: &[&str]) -> String {
        format!("{:#?}", Flags::parse_from([&["weir"], words].concat()).args)
    }

    /// They stand in two places: the flags and the table of keys.
    #[test]
    fn the_defaults_of_the_keys_are_those_of_the_flags() {
        assert_eq!(of_file("[[site]]\nroot = '.'"), Ok(of_flags(&["/etc/."])));
    }

    #[test]
    fn every_key_that_works_sets_its_flag() {
        let text = "\
[server]\nconnections = 5\nbacklog = 6\nworkers = 2\nrecords = 'r'\naccess_log = '/a'\nlog_format = 'json'
[uplink]\nrate = '10mbit'\nshaping = 'paced'\npolicy = 'las'\nguard = 1\nforeign_share = 2\nclient_share = 'strict'\npromotion = 'plain'
[limits]\nbody_rate_min = 3\nsend_rate_min = '4'\nsend_window = '5s'\nclient_connections = 7\nclient_requests = 8\nclient_rate = '9mbit'
[timeouts]\nidle = '6s'\nhead = '7s'\nbody = '8s'\nstop = '9s'
[[listener]]\naddress = '[::1]:81'
[[site]]\nroot = '/w'\nlisting = true\nhidden = true\n";
        let words = "--connections 5 --backlog 6 --workers 2 --records /etc/r --access-log /a --log-format json --uplink 10mbit \
            --shaping paced --policy las --guard 1 --foreign-share 2 --client-share strict --promotion plain --body-rate-min 3 --send-rate-min 4 \
            --send-window 5s --client-connections 7 --client-requests 8 --client-rate 9mbit --idle-timeout 6s --head-timeout 7s --body-timeout 8s --stop-timeout 9s --listen [::1]:81 \
            --listing --hidden /w";
        assert_eq!(of_file(text), Ok(of_flags(&words.split_whitespace().collect::<Vec<_>>())));
        assert_eq!(of_file("[server]\nslots = 3\n[[site]]\nroot = '/w'"), Ok(of_flags(&["--slots", "3", "/w"])));
    }

    #[test]
    fn what_is_not_there_yet_is_an_error() {
        let text = "[[site]]\nroot='a'\ndefault=true\n[[site]]\nroot='b'\nhosts=['b']\n[[listener]]\naddress='1.1.1.1:1'\n[[listener]]\naddress='1.1.1.1:2'\n";
        let missing = of_file(text).expect_err("two sites and two listeners");
        assert_eq!(
            missing,
            [
                "f:4:1: site 2: no effect yet, expected one",
                "f:6:1: site.hosts: no effect yet",
                "f:10:9: listener 2: no effect yet, expected one",
            ]
        );
    }
}
