//! `weir run`: serves according to a configuration file.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;
use cli::Failure;
use config::{AccessLog, Change, Configuration, Remark};
use server::{Certificate, Checked, ClassesConfig, Fault, FileOptions, Https, Listen, Saving, Server, SiteConfig};

use crate::faults::{fault_in, is_of_key, shaping_in};

use super::acme::AcmeFlags;
use super::reload_config::{Next, Refused, Source, UplinkChange};
use super::unmet::Unmet;
use super::{Hosted, LogFormat, Shaping, shaping};

const HTTPS_PORT: u16 = 443;

const AFTER_HELP: &str = "\
Examples:
  weir run /etc/weir/weir.toml

SIGHUP and `weir reload` read the file again: either all of it takes effect, or nothing, and the reason is printed.
`weir check FILE` prints all mistakes of the file, and `weir check --explain URL` what it does with a request.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Configuration
    #[arg(default_value = "weir.toml")]
    file: PathBuf,
}

/// The default values of flags, for flags that no key sets.
#[derive(Parser)]
#[command(disable_help_flag = true)]
struct Defaults {
    #[command(flatten)]
    flags: super::Flags,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let configuration = config::read_file(&args.file)?;
    let (hosted, settings) = (hosted(&configuration, &args.file), configuration.settings.clone());
    let listen = super::Addresses { listen: listen(&settings), is_secure: false, has_http3: false };
    let flags = flags_of(&configuration, &args.file);
    let source = OfFile { file: args.file, in_force: RefCell::new(configuration), read: RefCell::new(None) };
    super::serve(flags, hosted, listen, &source)
}

/// The file, and the configuration in force.
struct OfFile {
    file: PathBuf,
    in_force: RefCell<Configuration>,
    read: RefCell<Option<Configuration>>,
}

impl Source for OfFile {
    fn file(&self) -> Option<&Path> {
        Some(&self.file)
    }

    fn next(&self) -> Result<Next, Refused> {
        let configuration = config::read_file(&self.file)?;
        let changes = config::changes(&self.in_force.borrow(), &configuration);
        let files = &configuration.files;
        let fixed: Vec<String> =
            changes.iter().filter(|change| is_fixed(change)).map(|change| change.of_file(files).to_string()).collect();
        if !fixed.is_empty() {
            return Err(Refused::fixed(format!("{}\n{TAKES_A_PROCESS}", fixed.join("\n"))));
        }
        let next = Next {
            hosted: hosted(&configuration, &self.file),
            flags: flags_of(&configuration, &self.file),
            uplink: uplink_change(&changes),
            changes: changes.iter().map(|change| change.of_file(files).to_string()).collect(),
        };
        *self.read.borrow_mut() = Some(configuration);
        Ok(next)
    }

    fn placed(&self, faults: &[Fault]) -> Vec<String> {
        let (read, in_force) = (self.read.borrow(), self.in_force.borrow());
        let configuration = read.as_ref().unwrap_or(&in_force);
        let (placed, others): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(|fault| is_of_key(fault));
        let mut mistakes: Vec<Remark> = placed.iter().map(|fault| fault_in(configuration, fault)).collect();
        mistakes.sort();
        let placed = mistakes.iter().map(|mistake| mistake.line(&configuration.files));
        placed.chain(others.iter().map(|fault| fault.error.to_string())).collect()
    }

    fn unmet(&self, unmet: Unmet) -> Failure {
        let (read, in_force) = (self.read.borrow(), self.in_force.borrow());
        unmet.in_file(read.as_ref().unwrap_or(&in_force))
    }

    fn adopt(&self) {
        if let Some(configuration) = self.read.take() {
            *self.in_force.borrow_mut() = configuration;
        }
    }
}

/// The line after changes that a reload cannot make.
pub const TAKES_A_PROCESS: &str = "only a new process takes this change: run `weir upgrade`";

/// The keys that cannot be changed while a process runs.
const FIXED: [&str; 13] = [
    "acme.dns_hook",
    "limits.client_prefix",
    "server.workers",
    "server.max_accepted_connections",
    "server.backlog",
    "server.admin",
    "server.user",
    "server.group",
    "server.sandbox",
    "server.spool_folder",
    "server.state",
    "uplink.shaping",
    "uplink.concurrency_sharing",
];

fn is_fixed(change: &Change) -> bool {
    change.is_of_listener() || change.key.is_some_and(|key| FIXED.contains(&key))
}

fn uplink_change(changes: &[Change]) -> UplinkChange {
    let has = |is: fn(&str) -> bool| changes.iter().filter_map(|change| change.key).any(is);
    if has(|key| key == "uplink.rate") {
        return UplinkChange::Line;
    }
    if has(|key| key.starts_with("uplink.")) { UplinkChange::Order } else { UplinkChange::None }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Starts a server of this configuration at an address, without TLS; paths are relative to the folder of `file`. It has
/// no signals, service manager or saved rate, which require a process of its own.
pub fn start(configuration: Configuration, file: &Path, address: SocketAddr) -> Result<Server, Failure> {
    let hosted = hosted(&configuration, file);
    let settings = configuration.settings;
    let listen = Listen { address, is_secure: false, has_http3: false, has_proxy_header: false };
    let listen = super::Addresses { listen: vec![listen], is_secure: false, has_http3: false };
    let config = super::config(flags(settings, folder_of(file)), hosted, listen, Vec::new(), None)?;
    Ok(Server::start(config, || {})?)
}

/// Checks that this machine supports the shaping of a file.
pub fn check_shaping(configuration: &Configuration, file: &Path) -> Result<(), Remark> {
    let (settings, classes) = (&configuration.settings, hosted(configuration, file).classes);
    let addresses: Vec<SocketAddr> = settings.listeners.iter().map(|listener| listener.value.address).collect();
    let found = shaping::find(&flags_of(configuration, file), classes.as_ref(), &addresses, None);
    found.map(drop).map_err(|error| shaping_in(configuration, &error))
}

/// Opens and closes everything that `weir run` would open for this file.
pub fn check(configuration: Configuration, file: &Path) -> Result<Checked, Failure> {
    let hosted = hosted(&configuration, file);
    let settings = configuration.settings;
    let listen = super::Addresses { listen: listen(&settings), is_secure: false, has_http3: false };
    let config = super::config(flags(settings, folder_of(file)), hosted, listen, Vec::new(), None)?;
    Ok(server::check(config))
}

/// The sites and classes of a file.
fn hosted(configuration: &Configuration, file: &Path) -> Hosted {
    let (port, above) = (secure_port(&configuration.settings), configuration.settings.process.access_log.as_ref());
    let has_acme = configuration.settings.acme.is_some();
    let sites = configuration.sites.iter().map(|site| {
        let config = site_config(site, above, folder_of(file), port);
        let is_ordered = has_acme && site.is_ordered();
        let certificate = if is_ordered { Some(Certificate::Automatic) } else { config.https.certificate };
        SiteConfig { https: Https { certificate, ..config.https }, ..config }
    });
    let sites = sites.collect();
    let classes = configuration.class_table();
    let (assignment, objectives) = (configuration.assignment(), configuration.objectives());
    let classes = classes.map(|table| ClassesConfig { table, assignment, objectives });
    Hosted { sites, classes }
}

/// Converts the settings of a file, except its sites and classes, to flags.
fn flags_of(configuration: &Configuration, file: &Path) -> super::Flags {
    let flags = flags(configuration.settings.clone(), folder_of(file));
    let included = configuration.include_folders.iter().cloned();
    super::Flags { configuration: std::iter::once(file.into()).chain(included).collect(), ..flags }
}

/// The listeners of the file.
fn listen(settings: &config::Settings) -> Vec<Listen> {
    let given = settings.listeners.iter().filter(|_| !settings.has_default_listener);
    given.map(|listener| listener.value).map(listened).collect()
}

fn listened(listener: config::Listener) -> Listen {
    let config::Listener { address, is_secure, has_http3, has_proxy_header } = listener;
    Listen { address, is_secure, has_http3, has_proxy_header }
}

/// The port to which requests without TLS are redirected: 443, or the first port with TLS if none is 443.
fn secure_port(settings: &config::Settings) -> u16 {
    let listeners = settings.listeners.iter().filter(|listener| listener.value.is_secure);
    let ports: Vec<u16> = listeners.map(|listener| listener.value.address.port()).collect();
    if ports.contains(&HTTPS_PORT) { HTTPS_PORT } else { ports.first().copied().unwrap_or(HTTPS_PORT) }
}

/// Converts a site to the server's form. Paths are relative to this folder; `above` is the log of sites without their
/// own; `port` is the target port of redirects to https://.
fn site_config(site: &config::Site, above: Option<&AccessLog>, folder: &Path, port: u16) -> SiteConfig {
    let own_log = site.access_log.as_ref().filter(|log| Some(*log) != above);
    let index = site.index.clone();
    let links_into = site.links_into.iter().map(|into| folder.join(into)).collect();
    let (listing, codings) = (site.autoindex, site.compression.codings);
    let (hidden, image_sidecars) = (site.serve_dotfiles, site.compression.has_image_sidecars);
    let types = site.types.clone();
    let files = FileOptions { hidden, listing, index, page: None, links_into, codings, image_sidecars, types };
    let dir = site.root.as_ref().map(|root| folder.join(root));
    let below = |page: &String| dir.as_ref().map(|dir| dir.join(page.trim_start_matches('/')));
    SiteConfig {
        name: site.name.clone(),
        hosts: site.hosts.iter().map(|host| host.value.to_string()).collect(),
        is_default: site.is_default,
        listing_page: site.listing_page.as_ref().and_then(below),
        dir,
        files,
        answers: answers(&site.answers, folder),
        log: own_log.map(|log| super::access_log(log_path(log, folder), log_format(log.format))),
        https: Https {
            certificate: site.https.certificate.as_ref().map(|files| {
                let (cert, key) = &files.value;
                Certificate::Files { cert: folder.join(cert), key: folder.join(key) }
            }),
            redirects_to: site.https.redirects.map(|_| port),
            hsts: site.https.hsts.as_ref().map(|hsts| hsts.value.clone()),
        },
        saving: Saving {
            compresses_private: site.compression.is_of_private,
            has_dictionaries: site.compression.has_dictionaries,
            has_upstream_dictionaries: site.compression.has_upstream_dictionaries,
            has_immutable: site.compression.has_immutable,
        },
    }
}

/// Returns the same answers, with relative paths resolved in this folder.
fn answers(answers: &config::Answers, folder: &Path) -> config::Answers {
    let mut answers = answers.clone();
    let paths = answers.proxies.iter_mut().flat_map(|proxy| [&mut proxy.accel_root, &mut proxy.tls_ca]);
    paths.flatten().chain(&mut answers.error_root).for_each(|path| *path = folder.join(&path));
    let users = answers.access.iter_mut().filter_map(|access| access.users.as_mut());
    users.for_each(|users| users.file = folder.join(&users.file));
    answers
}

/// Converts the settings of the whole server to flags, with relative paths resolved in this folder.
fn flags(settings: config::Settings, folder: &Path) -> super::Flags {
    let (process, uplink) = (settings.process, settings.uplink);
    let defaults = Defaults::parse_from(["weir"]).flags;
    let state = process.state.as_ref().map(|state| folder.join(state));
    let acme = AcmeFlags { state, ..defaults.acme.clone() };
    let acme = match &settings.acme {
        Some(table) => acme.of_file(table, folder),
        None => acme,
    };
    super::Flags {
        acme,
        uplink: uplink.rate,
        policy: uplink.policy,
        shaping: shaping_kind(uplink.shaping),
        starvation_share: uplink.starvation_share,
        other_traffic_share: uplink.other_traffic_share,
        client_share: uplink.client_share,
        client_weights: uplink.client_weights,
        local_networks: uplink.local_networks,
        workers: process.workers,
        connections: process.connections,
        max_accepted_connections: process.max_accepted_connections,
        backlog: process.backlog,
        access_log: process.access_log.as_ref().map(|log| log_path(log, folder)),
        log_format: process.access_log.map_or(defaults.log_format, |log| log_format(log.format)),
        trusted_proxies: process.trusted_proxies,
        spool_folder: folder.join(process.spool_folder),
        admin: process.admin,
        user: process.user,
        group: process.group,
        no_sandbox: !process.sandbox,
        ..bounded(settings.limits, settings.timeouts, defaults)
    }
}

fn bounded(limits: config::Limits, timeouts: config::Timeouts, args: super::Flags) -> super::Flags {
    super::Flags {
        idle_timeout: timeouts.idle,
        header_timeout: timeouts.header,
        body_timeout: timeouts.body,
        shutdown_timeout: timeouts.shutdown,
        memory: limits.memory_bytes,
        spool: limits.spool_bytes,
        head_bytes: limits.head.head_bytes_max,
        head_fields: limits.head.fields_max as u32,
        min_request_rate: limits.min_request_bytes_per_s,
        min_send_rate: limits.min_send_bytes_per_s,
        min_send_rate_window: limits.min_send_rate_window,
        client_prefix: limits.client_prefix,
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

fn shaping_kind(shaping: config::Shaping) -> Shaping {
    match shaping {
        config::Shaping::Auto => Shaping::Auto,
        config::Shaping::Paced => Shaping::Paced,
        config::Shaping::Bands => Shaping::Bands,
        config::Shaping::Off => Shaping::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Configuration {
        let Ok(configuration) = config::read(text.as_bytes()) else { panic!("a right file: {text}") };
        configuration
    }

    fn of_file(text: &str) -> String {
        format!("{:#?}", flags(parsed(text).settings, Path::new("/etc")))
    }

    fn of_flags(words: &[&str]) -> String {
        format!("{:#?}", Defaults::parse_from([&["weir"], words].concat()).flags)
    }

    /// Both the flags and the table of keys have defaults.
    #[test]
    fn the_defaults_of_the_keys_are_those_of_the_flags() {
        let configuration = parsed("[[site]]\nroot = '.'");
        assert_eq!(of_file("[[site]]\nroot = '.'"), of_flags(&[]));
        assert_eq!(configuration.settings.listeners[0].value.address, crate::serve::LISTEN);
        assert_eq!(listen(&configuration.settings), []);
        let site = site_config(&configuration.sites[0], None, Path::new("/etc"), 443);
        assert_eq!(site, SiteConfig::alone("/etc/.".into(), FileOptions::default()));
    }

    #[test]
    fn every_key_of_the_server_sets_its_flag() {
        let text = "\
[server]\nconnections = 5\nbacklog = 6\nworkers = 2\nuser = 'u'\ngroup = 'g'\nsandbox = false\naccess_log = '/a'\nlog_format = 'json'
trusted_proxies = ['::1', '10.0.0.0/8']\nstate = '/s'
[uplink]\nrate = '10mbit'\nshaping = 'paced'\npolicy = 'las'\nstarvation_share = '0.1%'\nother_traffic_share = '0.2%'\nclient_share = 'strict'\nclient_weights = ['198.18.0.0/16=8', '::1=2']\nlocal_networks = ['10.0.0.0/8', '::1']
[limits]\nclient_prefix = '24,48'\nmemory = '64MiB'\nhead_bytes = '8KiB'\nhead_fields = 17\nmin_request_rate = 3\nmin_send_rate = '4'\nmin_send_rate_window = '5s'\nclient_connections = 7\nclient_requests = 8\nclient_rate = '9mbit'
[timeouts]\nidle = '6s'\nheader = '7s'\nbody = '8s'\nshutdown = '9s'
[[site]]\nroot = '/w'\n";
        let words = "--connections 5 --backlog 6 --workers 2 --user u --group g --no-sandbox --access-log /a --log-format json --trusted-proxy ::1 --trusted-proxy 10.0.0.0/8 --uplink 10mbit \
            --shaping paced --policy las --starvation-share 0.1% --other-traffic-share 0.2% --client-share strict --client-weight 198.18.0.0/16=8 --client-weight ::1=2 --local-network 10.0.0.0/8 --local-network ::1 --client-prefix 24,48 --state /s --memory 64MiB --head-bytes 8KiB --head-fields 17 --min-request-rate 3 --min-send-rate 4 \
            --min-send-rate-window 5s --client-connections 7 --client-requests 8 --client-rate 9mbit --idle-timeout 6s --header-timeout 7s --body-timeout 8s --shutdown-timeout 9s";
        assert_eq!(of_file(text), of_flags(&words.split_whitespace().collect::<Vec<_>>()));
        assert_eq!(
            of_file("[server]\nmax_accepted_connections = 3\n[[site]]\nroot = '/w'"),
            of_flags(&["--max-accepted-connections", "3"])
        );
    }

    #[test]
    fn every_key_of_a_site_is_taken() {
        let text = "[[site]]\nroot = 'w'\nhosts = ['A.org', '*.a.org']\nindex = ['i', 'j']\nautoindex = true\nserve_dotfiles = true\nfollow_symlinks_into = ['/m', 'n']\ncodings = ['gzip']\ncompress_private = true\ndictionaries = false\nimmutable = false\nimage_sidecars = false\ncharset = 'off'\ndefault_type = 'a/b'\n[[site.type]]\nextensions = ['LOG']\nmedia_type = 'text/x-a'\n[[site]]\nroot = '/x'\ndefault = true";
        let sites = parsed(text).sites;
        let [one, other] = [0, 1].map(|at| site_config(&sites[at], None, Path::new("/etc"), 443));
        let files = FileOptions {
            hidden: true,
            listing: true,
            index: vec!["i".into(), "j".into()],
            page: None,
            links_into: vec!["/m".into(), "/etc/n".into()],
            codings: [http::Coding::Gzip].into_iter().collect(),
            image_sidecars: false,
            types: config::MediaTypes {
                by_extension: [("log".into(), "text/x-a".into())].into(),
                default: Some("a/b".into()),
                charset: None,
            },
        };
        let hosts = vec!["a.org".into(), "*.a.org".into()];
        assert_eq!(
            one,
            SiteConfig {
                name: one.name.clone(),
                hosts,
                is_default: false,
                saving: Saving {
                    compresses_private: true,
                    has_dictionaries: false,
                    has_upstream_dictionaries: false,
                    has_immutable: false,
                },
                ..SiteConfig::alone("/etc/w".into(), files)
            }
        );
        assert_eq!(other, SiteConfig::alone("/x".into(), FileOptions::default()));
    }

    /// The path and the format can each come from the site or from the server.
    #[test]
    fn the_log_of_a_site() {
        let of = |server: &str, site: &str| {
            let configuration = parsed(&format!("[server]\n{server}\n[[site]]\nroot = 'w'\n{site}"));
            let above = configuration.settings.process.access_log;
            site_config(&configuration.sites[0], above.as_ref(), Path::new("/etc"), 443).log
        };
        let log = |path: Option<&str>, format| Some(server::LogConfig { path: path.map(Into::into), format });
        let (combined, json) = (server::LogFormat::Combined, server::LogFormat::Json);
        let above = "access_log = '/a'\nlog_format = 'json'";
        assert_eq!(of("", ""), None);
        assert_eq!(of("", "log_format = 'json'"), None);
        assert_eq!(of(above, ""), None);
        assert_eq!(of(above, "access_log = '/a'"), None, "that of the server");
        assert_eq!(of("", "access_log = 'b'"), log(Some("/etc/b"), combined));
        assert_eq!(of(above, "access_log = '-'"), log(None, json));
        assert_eq!(of(above, "log_format = 'combined'"), log(Some("/a"), combined));
        assert_eq!(of(above, "access_log = 'b'\nlog_format = 'combined'"), log(Some("/etc/b"), combined));
    }
}
