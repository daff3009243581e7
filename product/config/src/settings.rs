//! The settings of the whole server: listeners, the process, the uplink, limits and timeouts.

use std::net::{Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use sched::policy::{BAND_POLICIES, ClientShareSpec, PolicySpec};
use units::{Rate, Share};

use crate::acme::{self, Acme};
use crate::client_prefix::ClientPrefix;
use crate::client_weight::ClientWeight;
use crate::network::Network;
use crate::place::{Place, Placed};
use crate::section::{Book, Held, Section};
use crate::uplink_rate::UplinkRate;
use crate::value_forms::{ConcurrencySharing, LogFormat, LogPath, Name, Percent, Shaping, Size, Timeout};

/// The maximum number of listeners: each needs sockets in every event loop.
const LISTENERS_MAX: usize = 64;

/// The address used if a file has no listeners, and the default of `weir serve`.
const ADDRESS: &str = "127.0.0.1:8080";

/// Everything outside sites and classes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The listeners, at least one.
    pub listeners: Vec<Placed<Listener>>,
    /// True if the file has no listener, so that the default is used.
    pub has_default_listener: bool,
    pub process: Process,
    pub uplink: Uplink,
    pub limits: Limits,
    pub timeouts: Timeouts,
    /// The table `[acme]`, if the file has it.
    pub acme: Option<Acme>,
    pub held: Vec<Held>,
}

/// An address that accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    /// Connections use TLS.
    pub is_secure: bool,
    /// True if the listener also accepts HTTP/3, which requires TLS.
    pub has_http3: bool,
    /// True if connections begin with a PROXY header.
    pub has_proxy_header: bool,
}

/// The table `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub workers: Option<u16>,
    pub connections: u32,
    pub max_accepted_connections: Option<u32>,
    pub backlog: u16,
    pub access_log: Option<AccessLog>,
    /// The peers whose information about their clients is trusted.
    pub trusted_proxies: Vec<Network>,
    pub spool_folder: PathBuf,
    /// The folder for data that is kept across restarts.
    pub state: Option<PathBuf>,
    /// The address of the admin listener, on a loopback interface.
    pub admin: Option<SocketAddr>,
    pub user: Option<String>,
    /// The group; `None` if no user is set.
    pub group: Option<String>,
    /// True if the kernel blocks files and system calls that the server does not need.
    pub sandbox: bool,
}

/// An access log; the path `-` is standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    pub path: PathBuf,
    pub format: LogFormat,
}

/// The table `[uplink]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    pub rate: UplinkRate,
    pub shaping: Shaping,
    /// The place of `shaping`, if its value is `bands`.
    pub(crate) bands_at: Option<Place>,
    pub policy: PolicySpec,
    pub starvation_share: Share,
    pub other_traffic_share: Share,
    pub client_share: ClientShareSpec,
    /// Weights of clients; all other clients have a weight of 1.
    pub client_weights: Vec<ClientWeight>,
    /// Networks whose clients are reached without the uplink.
    pub local_networks: Vec<Network>,
    /// Applies to classes that have a `max_concurrent_requests`.
    pub concurrency_sharing: ConcurrencySharing,
    /// The name of a class.
    pub default_class: Option<Placed<String>>,
}

/// The table `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub spool_bytes: u64,
    /// Limits of the heads of requests and of upstreams' responses.
    pub head: http::Limits,
    pub min_request_bytes_per_s: u64,
    pub min_send_bytes_per_s: u64,
    pub min_send_rate_window: Duration,
    /// The bits of an address that identify a client.
    pub client_prefix: ClientPrefix,
    pub client_connections: Option<u32>,
    pub client_requests_per_s: u32,
    pub client_rate: Option<Rate>,
}

/// The table `[timeouts]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    pub idle: Duration,
    pub header: Duration,
    pub body: Duration,
    pub shutdown: Duration,
}

impl Settings {
    /// Reads the tables. Returns `None` if a value is wrong; the mistake is recorded in the book.
    pub(crate) fn read(file: &Section<'_, '_>) -> Option<Settings> {
        let (server, uplink) = (file.table("server"), file.table("uplink"));
        let (limits, timeouts) = (file.table("limits"), file.table("timeouts"));
        let (listeners, has_default_listener) = (listeners(file), !file.is_given("listener"));
        let read = (process(&server), Uplink::read(&uplink), Limits::read(&limits), Timeouts::read(&timeouts));
        let (process, uplink_read, limits_read, timeouts_read) = read;
        let acme_table = file.table("acme");
        let acme = acme::read(file, &acme_table);
        let held = [server, uplink, limits, timeouts, acme_table].into_iter().flat_map(Section::held).collect();
        let (process, uplink) = (process?, uplink_read?);
        check_proxies(file.book, &listeners, &process);
        let (limits, timeouts) = (limits_read?, timeouts_read?);
        Some(Settings { listeners, has_default_listener, process, uplink, limits, timeouts, acme, held })
    }
}

/// Checks that there are trusted proxies if a listener requires PROXY headers: without them it would refuse every
/// connection.
fn check_proxies(book: &Book<'_>, listeners: &[Placed<Listener>], process: &Process) {
    let needs = listeners.iter().find(|listener| listener.value.has_proxy_header);
    if let Some(listener) = needs.filter(|_| process.trusted_proxies.is_empty()) {
        let said =
            "listener.proxy_protocol without server.trusted_proxies: expected the addresses of the proxies there";
        book.mistake(listener.at, said);
    }
}

fn listeners(file: &Section<'_, '_>) -> Vec<Placed<Listener>> {
    let tables = file.tables("listener");
    if tables.is_empty() {
        let address = ADDRESS.parse().into_iter();
        let plain = |address| Listener { address, is_secure: false, has_http3: false, has_proxy_header: false };
        return address.map(|address| Placed { value: plain(address), at: Place::START }).collect();
    }
    if tables.len() > LISTENERS_MAX {
        file.book.mistake(
            tables[LISTENERS_MAX].at,
            format!("listener {}: expected {LISTENERS_MAX} at most", LISTENERS_MAX + 1),
        );
    }
    let mut listeners: Vec<Placed<Listener>> = Vec::new();
    for table in tables.iter().take(LISTENERS_MAX) {
        let (address, is_secure) = (table.text::<SocketAddr>("address"), table.flag("tls"));
        let wants_http3 = table.flag("http3");
        if wants_http3 && !is_secure && table.is_given("http3") {
            file.book.note(table.place_of("http3"), "listener.http3: no effect without tls = true");
        }
        let has_proxy_header = has_proxy_header(table);
        let has_http3 = is_secure && wants_http3 && !has_proxy_header;
        let Some(Placed { value: address, at }) = address else { continue };
        if let Some(same) = listeners.iter().find(|known| is_overlapping(known.value.address, address)) {
            let said = format!(
                "listener.address `{address}`: expected another address, {} is {}",
                same.value.address,
                file.book.line(same.at, at)
            );
            file.book.mistake(at, said);
        }
        listeners.push(Placed { value: Listener { address, is_secure, has_http3, has_proxy_header }, at });
    }
    note_missing_ipv4(file.book, &listeners);
    listeners
}

/// Notes each listener on all addresses that serves only IPv6 because an IPv4 address has a separate listener. The
/// kernel does not divide a port further.
fn note_missing_ipv4(book: &Book<'_>, listeners: &[Placed<Listener>]) {
    for of_all in listeners.iter().filter(|listener| listener.value.address.ip() == Ipv6Addr::UNSPECIFIED) {
        let port = of_all.value.address.port();
        let of_ipv4 = || listeners.iter().filter(|one| one.value.address.is_ipv4() && one.value.address.port() == port);
        if of_ipv4().any(|one| one.value.address.ip().is_unspecified()) || port == 0 {
            continue;
        }
        if let Some(one) = of_ipv4().next() {
            let said = format!(
                "listener.address `{}`: IPv6 alone, since {} has {}; for all IPv4 addresses put 0.0.0.0:{port} there",
                of_all.value.address,
                book.line(one.at, of_all.at),
                one.value.address
            );
            book.note(of_all.at, said);
        }
    }
}

/// Returns whether a listener requires PROXY headers. HTTP/3 is then disabled, because datagrams have none.
fn has_proxy_header(table: &Section<'_, '_>) -> bool {
    let is_wanted = table.flag("proxy_protocol");
    if is_wanted && table.flag("http3") && table.is_given("http3") {
        table.book.note(table.place_of("http3"), "listener.http3: no effect with proxy_protocol = true");
    }
    is_wanted
}

/// Returns true if the kernel would refuse the second address: it has the same port and family, and either the same IP
/// address or one of the two stands for all addresses.
pub fn is_overlapping(a: SocketAddr, b: SocketAddr) -> bool {
    let scope = |address: &SocketAddr| if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 };
    let [one, other] = [a, b].map(|address| address.ip().to_canonical());
    let has_all = one.is_unspecified() || other.is_unspecified();
    let is_same = one == other && scope(&a) == scope(&b);
    a.port() != 0 && a.port() == b.port() && one.is_ipv4() == other.is_ipv4() && (is_same || has_all)
}

fn process(server: &Section<'_, '_>) -> Option<Process> {
    for name in ["connections", "workers"]
        .iter()
        .filter(|name| server.is_given("max_accepted_connections") && server.is_given(name))
    {
        let said = format!("server.{name} with server.max_accepted_connections: expected only one of them");
        server.book.mistake(server.place_of(name), said);
    }
    let (workers, accepted) = (server.whole_number("workers"), server.whole_number("max_accepted_connections"));
    let (connections, backlog) = (server.whole_number("connections"), server.whole_number("backlog"));
    let (path, format) = (server.text::<LogPath>("access_log"), server.text::<LogFormat>("log_format"));
    let (spool_folder, state) = (server.text::<PathBuf>("spool_folder"), server.text::<PathBuf>("state"));
    let [user, group] = ["user", "group"].map(|name| server.text::<Name>(name));
    if server.is_given("group") && !server.is_given("user") {
        server.book.mistake(server.place_of("group"), "server.group without server.user: expected both, or none");
    }
    Some(Process {
        workers: workers.and_then(|workers| workers.try_into().ok()),
        connections: connections?.try_into().ok()?,
        max_accepted_connections: accepted.and_then(|most| most.try_into().ok()),
        backlog: backlog?.try_into().ok()?,
        access_log: path.zip(format).map(|(path, format)| AccessLog { path: path.value.0, format: format.value }),
        trusted_proxies: trusted_proxies(server),
        spool_folder: spool_folder?.value,
        state: state.map(|folder| folder.value),
        admin: admin(server),
        user: user.map(|name| name.value.0),
        group: group.map(|name| name.value.0),
        sandbox: server.flag("sandbox"),
    })
}

/// Reads the address of the admin listener. It must be a loopback address, because other machines must not see the
/// server's activity.
fn admin(server: &Section<'_, '_>) -> Option<SocketAddr> {
    let admin = server.text::<SocketAddr>("admin")?;
    if !admin.value.ip().is_loopback() {
        let expected = "expected a loopback address, for example 127.0.0.1:9180";
        server.book.mistake(admin.at, format!("server.admin `{}`: {expected}", admin.value));
    }
    Some(admin.value)
}

fn trusted_proxies(server: &Section<'_, '_>) -> Vec<Network> {
    let networks = server.texts::<Network>("trusted_proxies");
    for all in networks.iter().filter(|network| network.value.is_all()) {
        let said = format!("server.trusted_proxies `{}`: every client can claim to be another", all.value);
        server.book.note(all.at, said);
    }
    networks.into_iter().map(|network| network.value).collect()
}

/// The keys of the uplink that determine the order of responses.
const ORDER: [&str; 5] = ["policy", "starvation_share", "client_share", "client_weights", "local_networks"];

impl Uplink {
    fn read(uplink: &Section<'_, '_>) -> Option<Uplink> {
        let rate = uplink.text::<UplinkRate>("rate");
        let (shaping, policy) = (uplink.text::<Shaping>("shaping"), uplink.text::<PolicySpec>("policy"));
        let is_off = rate.as_ref().is_some_and(|rate| rate.value == UplinkRate::Off);
        if is_off && shaping.as_ref().is_some_and(|shaping| shaping.value == Shaping::Paced) {
            let said = "uplink.rate `off` with shaping = \"paced\": expected only one of them";
            uplink.book.mistake(uplink.place_of("rate"), said);
        }
        if let Some((shaping, policy)) = shaping.as_ref().zip(policy.as_ref()) {
            check_bands(uplink, shaping, policy);
        }
        for key in ORDER.iter().filter(|key| is_off && uplink.is_given(key)) {
            uplink.book.note(uplink.place_of(key), format!("uplink.{key}: no effect with rate = \"off\""));
        }
        let starvation_share = uplink.text::<Percent<100>>("starvation_share");
        let other_traffic_share = uplink.text::<Percent<90>>("other_traffic_share");
        let client_share = uplink.text("client_share");
        let weights = uplink.texts::<ClientWeight>("client_weights");
        let (sharing, default_class) = (uplink.text("concurrency_sharing"), uplink.text::<Name>("default_class"));
        Some(Uplink {
            rate: rate?.value,
            bands_at: shaping.as_ref().filter(|shaping| shaping.value == Shaping::Bands).map(|shaping| shaping.at),
            shaping: shaping?.value,
            policy: policy?.value,
            starvation_share: starvation_share?.value.0,
            other_traffic_share: other_traffic_share?.value.0,
            client_share: client_share?.value,
            client_weights: weights.into_iter().map(|weight| weight.value).collect(),
            local_networks: local_networks(uplink),
            concurrency_sharing: sharing?.value,
            default_class: default_class.map(|name| Placed { value: name.value.0, at: name.at }),
        })
    }
}

fn local_networks(uplink: &Section<'_, '_>) -> Vec<Network> {
    let networks = uplink.texts::<Network>("local_networks");
    for all in networks.iter().filter(|network| network.value.is_all()) {
        let said = format!("uplink.local_networks `{}`: no client would be paced", all.value);
        uplink.book.note(all.at, said);
    }
    networks.into_iter().map(|network| network.value).collect()
}

/// Checks that kernel bands can keep the order of the policy; they can for only a few policies.
fn check_bands(uplink: &Section<'_, '_>, shaping: &Placed<Shaping>, policy: &Placed<PolicySpec>) {
    if shaping.value == Shaping::Bands && !policy.value.has_bands() {
        let said = format!(
            "uplink.policy `{}` with shaping = \"bands\": expected a policy with bands, {BAND_POLICIES}",
            policy.value
        );
        uplink.book.mistake(policy.at, said);
    }
}

/// The minimum of `limits.memory`: the program with its caches and a few hundred connections.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;

/// The range of `limits.head_bytes`. The maximum is the size of a head that HTTP/2 carries with eight CONTINUATION
/// frames of 16 KB, and that HTTP/3 buffers while heads are incomplete.
pub const HEAD_BYTES: RangeInclusive<u64> = 4 << 10..=128 << 10;

/// The maximum size of a field or path over HTTP/2, as sent: a constant of nghttp2 (NGHTTP2_HD_MAX_NV).
const HTTP2_FIELD_BYTES: u64 = 64 << 10;

impl Limits {
    fn read(limits: &Section<'_, '_>) -> Option<Limits> {
        let (request, send) = (limits.text::<Size>("min_request_rate"), limits.text::<Size>("min_send_rate"));
        let (window, rate) = (limits.text("min_send_rate_window"), limits.text("client_rate"));
        let (connections, prefix) = (limits.whole_number("client_connections"), limits.text("client_prefix"));
        let requests = limits.whole_number("client_requests");
        let (memory, spool) = (limits.text::<Size>("memory"), limits.text::<Size>("spool"));
        if let Some(Placed { value: Size(bytes), at }) = &memory
            && *bytes < MEMORY_BYTES_MIN
        {
            let said = format!("limits.memory `{bytes}`: expected 32MiB at least");
            limits.book.mistake(*at, said);
        }
        let (head, fields) = (limits.text::<Size>("head_bytes"), limits.whole_number("head_fields"));
        if let Some(Placed { value: Size(bytes), at }) = &head
            && !HEAD_BYTES.contains(bytes)
        {
            limits.book.mistake(*at, format!("limits.head_bytes `{bytes}`: expected 4KiB to 128KiB"));
        }
        if let Some(Placed { value: Size(bytes), at }) = &head
            && *bytes > HTTP2_FIELD_BYTES
        {
            let said = format!(
                "limits.head_bytes `{bytes}`: over HTTP/2 one field or path has 65536 bytes at most; a longer one ends its \
                 connection"
            );
            limits.book.note(*at, said);
        }
        Some(Limits {
            head: http::Limits { head_bytes_max: head?.value.0.try_into().ok()?, fields_max: fields?.try_into().ok()? },
            memory_bytes: memory.map(|size| size.value.0),
            spool_bytes: spool?.value.0,
            min_request_bytes_per_s: request?.value.0,
            min_send_bytes_per_s: send?.value.0,
            min_send_rate_window: window?.value,
            client_prefix: prefix?.value,
            client_connections: connections.and_then(|connections| connections.try_into().ok()),
            client_requests_per_s: requests?.try_into().ok()?,
            client_rate: rate.map(|rate| rate.value),
        })
    }
}

impl Timeouts {
    fn read(timeouts: &Section<'_, '_>) -> Option<Timeouts> {
        let [idle, header, body] = ["idle", "header", "body"].map(|name| timeouts.text::<Timeout>(name));
        let shutdown = timeouts.text::<Duration>("shutdown");
        Some(Timeouts { idle: idle?.value.0, header: header?.value.0, body: body?.value.0, shutdown: shutdown?.value })
    }
}
