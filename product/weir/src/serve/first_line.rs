//! The startup message: what is served, at which addresses, and in which order. On a terminal it has a few short lines,
//! in a log one.

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use server::service_manager::Account;
use server::{Config, Listen, MemoryLimit, MemoryOrigin, Server, SiteConfig, WaitBound};

/// The parts of the message that come from the configuration, which the server then takes.
pub struct FirstLine {
    served: String,
    /// The service manager's sockets, each with its label.
    passed: Vec<(SocketAddr, String)>,
    /// All remarks, each preceded by a separator.
    remarks: String,
    is_stdout_a_log: bool,
}

impl FirstLine {
    pub fn of(config: &Config, served: String, asked_loops: u16) -> FirstLine {
        let loops = if config.has_one_loop() && asked_loops > 1 {
            let reason = if config.shaping.is_paced() { "paced shaping has" } else { "classes have" };
            format!("; one event loop for {asked_loops}: {reason} one order")
        } else {
            String::new()
        };
        let account = config.privileges.account.as_ref().map_or(String::new(), |account| account_of(account, config));
        let certificates = certificates(config);
        let remarks = [memory(config.limits.memory), loops, account, certificates];
        let places = [no_index(config), reach(config), ipv4_alone(config)].concat();
        let remarks = [remarks.concat(), http3_off(config), local(config), places].concat();
        // Sockets of the process before this one are not those of a service manager.
        let passed = config.passed.iter().filter(|socket| !socket.is_own());
        let passed = passed.map(|socket| (socket.address, socket.label())).collect();
        let logs = config.sites.iter().filter_map(|site| site.log.as_ref()).chain(&config.reporting.access_log);
        let is_stdout_a_log = logs.into_iter().any(|log| log.path.is_none());
        FirstLine { served, passed, remarks, is_stdout_a_log }
    }

    /// Prints the message. Returns the part for the service manager, which already has the rest.
    pub fn tell(&self, server: &Server) -> String {
        let guard = server.wait_bound().map_or(String::new(), guard_promise);
        let share = server.client_allowance_bytes().map_or(String::new(), share_promise);
        let sockets = self.sockets(server.addresses());
        let at: Vec<String> = server.addresses().iter().map(url).collect();
        let http3 = http3(server.addresses());
        let FirstLine { served, remarks, .. } = self;
        let said = Said {
            status: format!("serving {served} at {}", at.join(", ")),
            order: order(server.why()),
            limits: format!("at most {} connections{sockets}{http3}{remarks}{share}{guard}", server.connections_max()),
        };
        // An error here does not matter to serving. If a log goes to standard output, nothing else does.
        let is_terminal = if self.is_stdout_a_log { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        let mut out: Box<dyn Write> =
            if self.is_stdout_a_log { Box::new(io::stderr()) } else { Box::new(io::stdout()) };
        let text = match (is_terminal, self.is_stdout_a_log) {
            (true, _) => said.lines(),
            (false, true) => server::stderr::line(&said.line()),
            (false, false) => format!("weir: {}\n", said.line()),
        };
        let _ = out.write_all(text.as_bytes());
        said.status
    }

    /// Lists the addresses: first those of the service manager's sockets, then those that this process has bound.
    fn sockets(&self, addresses: &[Listen]) -> String {
        if self.passed.is_empty() {
            return String::new();
        }
        let is_passed = |listen: &&Listen| self.passed.iter().any(|(address, _)| *address == listen.address);
        let bound: Vec<String> =
            addresses.iter().filter(|listen| !is_passed(listen)).map(|listen| listen.address.to_string()).collect();
        let bound = if bound.is_empty() { "none".to_string() } else { bound.join(", ") };
        let passed: Vec<&str> = self.passed.iter().map(|(_, label)| label.as_str()).collect();
        format!("; passed by the service manager: {}; bound: {bound}", passed.join(", "))
    }
}

/// The message at the start.
struct Said {
    status: String,
    order: String,
    /// Limits and remarks, separated by `; `.
    limits: String,
}

impl Said {
    fn line(&self) -> String {
        let Said { status, order, limits } = self;
        format!("{status} ({order}; {limits})")
    }

    /// Returns the message with one line per remark.
    fn lines(&self) -> String {
        let begun = |text: &str| text[..1].to_uppercase() + &text[1..];
        let limits = self.limits.split("; ").map(|limit| format!("  {limit}\n"));
        format!("{}\n{}\n{}", begun(&self.status), begun(&self.order), limits.collect::<String>())
    }
}

/// Describes the order, in the server's words for its shaping. Without an order, explains how to enable it.
fn order(why: &str) -> String {
    match why.strip_prefix("shaping off") {
        Some(rest) => format!("order OFF{rest}; --uplink auto or a rate (uplink.rate) turns it on"),
        None => why.into(),
    }
}

fn url(listen: &Listen) -> String {
    let scheme = if listen.is_secure { "https" } else { "http" };
    format!("{scheme}://{}/", listen.address)
}

/// Lists the addresses of HTTP/3, because a firewall must admit UDP for them.
fn http3(addresses: &[Listen]) -> String {
    let spoken = addresses.iter().filter(|listen| listen.has_http3).map(|listen| listen.address.to_string());
    match spoken.collect::<Vec<_>>() {
        spoken if spoken.is_empty() => String::new(),
        spoken => format!("; HTTP/3 over UDP at {}", spoken.join(", ")),
    }
}

/// Describes what is served: the folder of the only site, or the number of sites.
pub fn served(sites: &[SiteConfig]) -> String {
    match sites {
        [SiteConfig { dir: Some(dir), .. }] => dir.display().to_string(),
        [site] => alone(site),
        sites => format!("{} sites", sites.len()),
    }
}

/// Describes the only site if it has no folder.
fn alone(site: &SiteConfig) -> String {
    let proxies = site.answers.proxies.iter().flat_map(|proxy| &proxy.to).map(ToString::to_string);
    let upstreams: Vec<String> = proxies.collect();
    if upstreams.is_empty() { "redirects".to_string() } else { upstreams.join(" and ") }
}

fn account_of(account: &Account, config: &Config) -> String {
    let kept = if config.shaping.capabilities().is_empty() { "" } else { " with CAP_NET_ADMIN, to mark packets" };
    format!("; as user {account}{kept}")
}

/// Returns a remark about certificates by ACME: their authority, and the folder where they are kept.
fn certificates(config: &Config) -> String {
    config.acme.as_ref().map_or(String::new(), |acme| {
        format!("; certificates from {}, kept in {}", acme.directory, acme.folder.display())
    })
}

fn http3_off(config: &Config) -> String {
    let is_wanted = config.listen.iter().any(|listen| listen.is_secure && listen.has_http3)
        || config.passed.iter().any(|socket| socket.is_secure && socket.has_http3);
    match is_wanted {
        true if !config.shaping.orders_http3() => "; HTTP/3 off: with bands it would have no order".to_string(),
        _ => String::new(),
    }
}

/// Returns a remark if other machines cannot reach the default address.
fn reach(config: &Config) -> String {
    let is_default = config.passed.is_empty() && config.listen.iter().all(|listen| listen.address == super::LISTEN);
    if is_default { "; for this machine only, address 0.0.0.0:8080 serves others".into() } else { String::new() }
}

/// Returns a remark about clients that are not paced, or about clients that may be paced although they are local.
fn local(config: &Config) -> String {
    let networks = &config.limits.local_networks;
    match networks.is_empty() {
        _ if !config.shaping.is_paced() => String::new(),
        true => near(config),
        false => format!("; clients of {networks} do not use the line (--local-network, uplink.local_networks)"),
    }
}

/// Returns a remark about private networks of the interface, whose machines may reach this one without the line.
fn near(config: &Config) -> String {
    let Some(listen) = config.listen.iter().find(|listen| !listen.address.ip().is_loopback()) else {
        return String::new();
    };
    let interface = uplink::Interface::serving(listen.address.ip()).ok().flatten();
    near_of(&interface.and_then(|found| found.private_addresses().ok()).unwrap_or_default())
}

/// Does the same for the addresses of an interface, each with the prefix length of its network.
fn near_of(addresses: &[(IpAddr, u32)]) -> String {
    let mut networks: Vec<String> =
        addresses.iter().map(|(address, bits)| config::Network::around(*address, *bits).to_string()).collect();
    networks.dedup();
    let Some(first) = networks.first() else { return String::new() };
    let all = networks.join(" and ");
    format!("; clients of {all} share the line's pace: if they do not use the line, --local-network {first} frees them")
}

/// Returns a remark if an address without a host, which means all addresses, covers only IPv4 here.
fn ipv4_alone(config: &Config) -> String {
    let is_of_all = config.listen.iter().any(|listen| listen.address.ip() == Ipv4Addr::UNSPECIFIED);
    if is_of_all && !config::has_ipv6() { "; IPv4 only: this machine has no IPv6".into() } else { String::new() }
}

/// Returns a remark if the only site serves files and its root has no index file, so that `/` is refused.
fn no_index(config: &Config) -> String {
    let [site] = &config.sites[..] else { return String::new() };
    let Some(dir) = site.dir.as_ref().filter(|_| !site.files.listing && site.answers.is_empty()) else {
        return String::new();
    };
    match &site.files.index[..] {
        [first, ..] if !site.files.index.iter().any(|name| dir.join(name).exists()) => {
            format!("; the folder has no {first}, so / is 403: --autoindex (site.autoindex) lists its names")
        }
        _ => String::new(),
    }
}

/// Returns a remark about memory if the cgroup limits it.
fn memory(limit: MemoryLimit) -> String {
    match limit.origin {
        MemoryOrigin::Cgroup => {
            format!("; {} MiB of memory at most, half of what the cgroup allows", limit.bytes >> 20)
        }
        MemoryOrigin::Asked | MemoryOrigin::Machine => String::new(),
    }
}

/// Returns a remark about clients that wait for others.
fn share_promise(allowance_bytes: u64) -> String {
    format!(
        "; a client {:.1} MB ahead of its share waits for others (--client-share, uplink.client_share)",
        allowance_bytes as f64 / 1e6
    )
}

/// Describes the maximum wait that the starvation share guarantees.
fn guard_promise(bound: WaitBound) -> String {
    let [fixed, each, hundred] = [bound.fixed, bound.per_response, bound.with(100)].map(|span| span.as_secs_f64());
    format!(
        "; longest wait {fixed:.1} s + {each:.3} s for each ready response, {hundred:.0} s with 100 (--starvation-share, uplink.starvation_share)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_near_by_are_named_once_each() {
        assert_eq!(near_of(&[]), "");
        let addresses = [("192.168.1.7", 24), ("192.168.1.8", 24), ("fd00::7", 64)];
        let said = near_of(&addresses.map(|(address, bits)| (address.parse().unwrap(), bits)));
        let all = "clients of 192.168.1.0/24 and fd00::/64 share the line's pace";
        assert_eq!(said, format!("; {all}: if they do not use the line, --local-network 192.168.1.0/24 frees them"));
    }

    #[test]
    fn one_line_or_several_say_the_same() {
        let said = Said {
            status: "serving www at http://127.0.0.1:8080/".into(),
            order: order("shaping off, as requested"),
            limits: "at most 9 connections; for this machine only".into(),
        };
        let order = "order OFF, as requested; --uplink auto or a rate (uplink.rate) turns it on";
        let line = format!("{} ({order}; {})", said.status, said.limits);
        assert_eq!(said.line(), line);
        let lines = "Serving www at http://127.0.0.1:8080/\nOrder OFF, as requested; --uplink auto or a rate \
            (uplink.rate) turns it on\n  at most 9 connections\n  for this machine only\n";
        assert_eq!(said.lines(), lines);
    }
}
