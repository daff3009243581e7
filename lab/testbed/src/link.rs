//! The link under test: server and client each in a namespace, a cable between them, and a bottleneck at the server's
//! egress. Everything that could differ between machines is set here and recorded in the manifest.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use uplink::congestion;

use crate::bottleneck::{attach_command, build_commands, follow_command, weir_words};
use crate::cables::{DEVICE, FAR_DEVICE, cable_addresses, chain_commands};
use crate::limits::KernelLimits;
use crate::line::Changes;
use crate::namespace::{Namespace, Place};
use crate::program::Program;
use crate::wide::Paths;
use crate::wire::Wire;
use crate::{ClientGroup, Counters, Experiment, LabError, Network, RunSpec, ipv6, tool};

/// A built link. Dropping it removes both namespaces, and with them the cable and the bottleneck.
#[derive(Debug)]
pub struct Link {
    /// The `weir` whose tree is the bottleneck. It must remove the tree again, because a BPF qdisc outlives its device.
    tree_of: Option<PathBuf>,
    server: Namespace,
    /// The host of a server in a container.
    host: Option<Namespace>,
    client: Namespace,
    /// The router of the bottleneck, if the bottleneck is not at the server.
    router: Option<Namespace>,
    /// The wire that serialises behind the bottleneck, unless the experiment leaves it out.
    wire: Option<Wire>,
    /// Wide-area paths between the bottleneck and the clients, if any.
    paths: Option<Paths>,
    limits: KernelLimits,
    is_ipv6: bool,
}

impl Link {
    /// Builds the link for a run of an experiment (needs root). `weir` is our program, for its trees.
    pub fn build(experiment: &Experiment, spec: &RunSpec, weir: Option<&Path>) -> Result<Link, LabError> {
        let is_routed = experiment.network == Network::Router;
        let router = if is_routed { Some(Namespace::create("router")?) } else { None };
        let (server, client) = (Namespace::create("server")?, Namespace::create("client")?);
        let host = spec.container.then(|| Namespace::create("host")).transpose()?;
        let wire = experiment.wire.then(|| Wire::new(experiment.link)).transpose()?;
        let paths = Paths::new(experiment.clients(), || Namespace::create("wan"))?;
        let (limits, is_ipv6) = (KernelLimits::default(), experiment.ipv6);
        let mut link = Link { tree_of: None, server, host, client, router, wire, paths, limits, is_ipv6 };
        for side in link.routers().chain([&link.server, &link.client]) {
            if experiment.ipv6 { ipv6::quieten(Place::In(side))? } else { silence_ipv6(side)? }
        }
        for command in link.commands(experiment) {
            tool::run(&if experiment.ipv6 { ipv6::command(&command) } else { command })?;
        }
        if experiment.clients().any(ClientGroup::has_prefixes) {
            tool::run(&ipv6::prefixes_command(link.client.name()))?;
            // A route of type local is enough to receive at an IPv6 address, but not to send from it.
            write_setting(link.client(), "net/ipv6/ip_nonlocal_bind", "1")?;
        }
        link.build_bottleneck(experiment, spec, weir)?;
        link.wire.as_ref().map_or(Ok(()), |wire| wire.build(FAR_DEVICE))?;
        if let Some(paths) = &link.paths {
            paths.build(link.client.name(), experiment.ipv6)?;
        }
        for side in link.routers() {
            let setting = if experiment.ipv6 { "net/ipv6/conf/all/forwarding" } else { "net/ipv4/ip_forward" };
            tool::run_words(&patient_write(Place::In(side), setting, "1"))?;
        }
        link.set_tcp(experiment)?;
        link.limits = KernelLimits::set(&experiment.limits, &link.server, &link.client)?;
        Ok(link)
    }

    fn build_bottleneck(
        &mut self,
        experiment: &Experiment,
        spec: &RunSpec,
        weir: Option<&Path>,
    ) -> Result<(), LabError> {
        let qdisc = experiment.qdisc_of(spec);
        let (side, device) = self.bottleneck();
        let refused = |cause| LabError::Qdisc { name: qdisc.name(), cause: Box::new(cause) };
        for words in build_commands(side, device, experiment, spec, weir).map_err(refused)? {
            tool::run_words(&words).map_err(refused)?;
        }
        self.tree_of = weir.filter(|_| qdisc.is_ours()).map(PathBuf::from);
        Ok(())
    }

    /// Lets `weir attach` order the traffic of the server on `port`, if the run asks for it, and returns the command.
    /// The attachment ends with the link.
    pub fn attach(
        &self,
        experiment: &Experiment,
        spec: &RunSpec,
        port: u16,
        weir: Option<&Path>,
    ) -> Result<Option<String>, LabError> {
        let (side, device) = self.attached();
        let words = attach_command(side, device, experiment, spec, port, weir)?;
        words
            .map(|words| {
                tool::run_words(&words).map_err(|cause| LabError::Attach { cause: Box::new(cause) })?;
                Ok(words.join(" "))
            })
            .transpose()
    }

    /// Follows the rate of the line from the server's side until the program is dropped, if the run attaches and no
    /// rate is given. Its log is in `folder`.
    pub fn follow(&self, spec: &RunSpec, folder: &Path, weir: Option<&Path>) -> Result<Option<Program>, LabError> {
        let (side, device) = self.attached();
        let words = follow_command(side, device, spec, folder, weir)?;
        words.map(|words| Program::start(Place::Here, "weir attach", &words, &folder.join("attach.log"))).transpose()
    }

    /// The namespaces that forward packets, from the server to the clients.
    fn routers(&self) -> impl Iterator<Item = &Namespace> {
        let wire = self.wire.as_ref().map(|wire| &wire.namespace);
        self.host.iter().chain(&self.router).chain(wire).chain(self.paths.as_ref().map(|paths| &paths.namespace))
    }

    /// The commands that build the cables and routes.
    fn commands(&self, experiment: &Experiment) -> Vec<String> {
        let mut hops = vec![self.server.name()];
        hops.extend(self.routers().map(Namespace::name));
        hops.push(self.client.name());
        let plain = (0..).zip(experiment.clients()).filter(|(_, group)| group.path.is_plain());
        let plain: Vec<usize> = plain.map(|(index, _)| index).collect();
        chain_commands(&hops, &plain, experiment.gso_max_segs)
    }

    /// The namespace and device of `weir attach`: the server or its host sends through it.
    fn attached(&self) -> (&str, &'static str) {
        self.host.as_ref().map_or((self.server.name(), DEVICE), |host| (host.name(), FAR_DEVICE))
    }

    /// The namespace and device that are shaped.
    fn bottleneck(&self) -> (&str, &'static str) {
        self.router.as_ref().map_or((self.server.name(), DEVICE), |router| (router.name(), FAR_DEVICE))
    }

    /// The namespace and device that are shaped, as a place to run commands in.
    pub(crate) fn bottleneck_place(&self) -> (Place<'_>, &'static str) {
        (Place::In(self.router.as_ref().unwrap_or(&self.server)), self.bottleneck().1)
    }

    /// Starts the changes of the line's rate.
    pub(crate) fn start_changes(&self, experiment: &Experiment) -> Changes {
        let wire = self.wire.as_ref().map(|wire| (wire.namespace.name(), FAR_DEVICE));
        Changes::start(experiment, self.bottleneck(), wire)
    }

    pub fn server(&self) -> Place<'_> {
        Place::In(&self.server)
    }

    pub fn client(&self) -> Place<'_> {
        Place::In(&self.client)
    }

    pub fn server_address(&self) -> IpAddr {
        ipv6::address(self.is_ipv6, cable_addresses(0)[0])
    }

    /// The counters of the bottleneck so far.
    pub fn counters(&self) -> Result<Counters, LabError> {
        let (side, device) = self.bottleneck();
        Counters::parse(&tool::run(&format!("tc -n {side} -s -j qdisc show dev {device}"))?)
    }

    /// The properties of the link as reported by the kernel, for the manifest.
    pub fn describe(&self) -> Result<BTreeMap<String, String>, LabError> {
        let name = self.server.name();
        let (side, device) = self.bottleneck();
        let show = |what: &str| tool::run(&format!("tc -n {side} -s -d {what} show dev {device}"));
        let features = tool::run(&format!("ip netns exec {name} ethtool -k {DEVICE}"))?;
        let mut said = BTreeMap::from([
            ("qdisc".to_owned(), show("qdisc")?.trim().to_owned()),
            ("class".to_owned(), show("class")?.trim().to_owned()),
            ("offloads".to_owned(), offloads(&features)),
            ("device".to_owned(), tool::run(&format!("ip -n {name} -d link show dev {DEVICE}"))?.trim().to_owned()),
        ]);
        for setting in ["tcp_congestion_control", "tcp_limit_output_bytes", "tcp_no_metrics_save"] {
            said.insert(setting.to_owned(), read_setting(self.server(), &format!("net/ipv4/{setting}"))?);
        }
        said.extend(self.limits.describe(&self.server)?);
        if let Some(paths) = &self.paths {
            said.insert("wan".into(), "netem".into());
            said.insert("wan_paths".into(), paths.describe());
            said.insert("wan_counted".into(), paths.counters()?);
        }
        said.extend(self.wire.as_ref().map(|wire| ("wire".into(), wire.describe())));
        if let Some(weir) = &self.tree_of {
            let show = weir_words(side, Some(weir), &["uplink", "show", device, "--json"])?;
            said.insert("uplink".to_owned(), tool::run_words(&show)?.trim().to_owned());
        }
        Ok(said)
    }

    /// Sets the TCP settings that would otherwise be inherited from the machine, on both sides.
    fn set_tcp(&self, experiment: &Experiment) -> Result<(), LabError> {
        for side in [self.server(), self.client()] {
            // Otherwise the kernel applies ssthresh and RTT of earlier connections to later ones to the same address.
            write_setting(side, "net/ipv4/tcp_no_metrics_save", "1")?;
            if let Some(bytes) = experiment.tcp_limit_output_bytes {
                write_setting(side, "net/ipv4/tcp_limit_output_bytes", &bytes.to_string())?;
            }
        }
        // A new connection per request uses many ports, and a closed one keeps its port for a minute.
        write_setting(self.client(), "net/ipv4/ip_local_port_range", "1024 65535")?;
        let wanted = &experiment.congestion_control;
        congestion::while_allowed(wanted, || {
            for side in [self.server(), self.client()] {
                side.enter(|| fs::write(congestion::CHOSEN, wanted))
                    .map_err(|e| LabError::io(congestion::CHOSEN, e))?;
            }
            Ok(())
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(weir) = &self.tree_of else { return };
        let (side, device) = self.bottleneck();
        let down = weir_words(side, Some(weir), &["uplink", "down", device]);
        if let Err(error) = down.and_then(|words| tool::run_words(&words)) {
            eprintln!("weirlab: {error}");
        }
    }
}

/// Disables IPv6, because the shaper would count router solicitations and the like. A kernel without IPv6 sends none.
fn silence_ipv6(namespace: &Namespace) -> Result<(), LabError> {
    const SETTING: &str = "net/ipv6/conf/default/disable_ipv6";
    if fs::exists(format!("/proc/sys/{SETTING}")).unwrap_or(false) {
        tool::run_words(&patient_write(Place::In(namespace), SETTING, "1"))?;
    }
    Ok(())
}

/// The command for a write that needs the lock of all links (RTNL), at ordinary priority, whatever our own is.
///
/// If another process holds that lock, the kernel restarts the write immediately, without end (`restart_syscall`). At
/// real-time priority this keeps the holder from the processor: two such writes on two processors blocked each other
/// for 25 minutes.
fn patient_write(place: Place<'_>, setting: &str, value: &str) -> Vec<String> {
    let mut words = ["chrt", "-o", "0"].map(String::from).to_vec();
    words.extend(place.prefix());
    words.extend(["sh".into(), "-c".into(), format!("echo {value} > /proc/sys/{setting}")]);
    words
}

pub(crate) fn write_setting(place: Place<'_>, setting: &str, value: &str) -> Result<(), LabError> {
    let path = format!("/proc/sys/{setting}");
    place.enter(|| fs::write(&path, value)).map_err(|e| LabError::io(&path, e))
}

pub(crate) fn read_setting(place: Place<'_>, setting: &str) -> Result<String, LabError> {
    let path = format!("/proc/sys/{setting}");
    let text = place.enter(|| fs::read_to_string(&path)).map_err(|e| LabError::io(&path, e))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The relevant offloads in the output of `ethtool -k`.
fn offloads(features: &str) -> String {
    const NAMES: [&str; 4] = [
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "large-receive-offload",
    ];
    let is_ours = |line: &&str| line.split_once(':').is_some_and(|(name, _)| NAMES.contains(&name));
    features.lines().filter(is_ours).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This holds under `chrt -f 1 weirlab run` too.
    #[test]
    fn what_the_kernel_would_have_begin_again_is_never_written_at_real_time_priority() {
        let words = patient_write(Place::Here, "net/ipv4/ip_forward", "1").join(" ");
        assert_eq!(words, "chrt -o 0 sh -c echo 1 > /proc/sys/net/ipv4/ip_forward");
    }

    #[test]
    fn picks_the_offloads_that_matter() {
        let printed = "Features for cable:\nrx-checksumming: on\ntcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\ngeneric-receive-offload: off\nlarge-receive-offload: off [fixed]\n";
        assert_eq!(
            offloads(printed),
            "tcp-segmentation-offload: off, generic-receive-offload: off, large-receive-offload: off [fixed]"
        );
    }
}
