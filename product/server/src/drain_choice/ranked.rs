//! The drain `ranked`: our own queueing discipline orders the connections, by ranks that the classifier gives their packets, and
//! the classifier knows each response because the server tells it.

use std::net::SocketAddr;
use std::sync::Arc;

use sched::policy::{Order, PolicySpec};
use uplink::classify::{self, Settings, Target};
use uplink::tree::Kind;
use uplink::{Interface, ToldMap};

use super::bands::{burst_bytes, tree_at};
use super::error::Misfit;
use super::{DrainChoice, DrainError, DrainOptions};
use crate::transmit::{Mark, Marker};

pub fn find(options: &DrainOptions, listen: SocketAddr) -> Result<DrainChoice, DrainError> {
    let policy = &options.policy;
    let Some(ranks) = ranks_of(policy) else {
        let known = classify::Policy::ALL.map(classify::Policy::name).join(", ");
        return Err(DrainError::Policy(Misfit::NoRank { policy: policy.clone(), known }));
    };
    let (interface, tree) = tree_at(listen.ip())?;
    let name = interface.name.clone();
    let Some(tree) = tree.filter(|tree| tree.plan.kind == Kind::Ranked) else {
        return Err(DrainError::NotRanked { interface: name });
    };
    let unattached =
        |why| DrainError::Unattached { why, interface: name.clone(), port: listen.port(), policy: policy.clone() };
    let attached = classify::find(&interface).map_err(DrainError::Kernel)?.and_then(|attached| attached.settings);
    let Some(settings) = attached else { return Err(unattached("has no compatible classifier")) };
    fits(&settings, listen.port(), ranks).map_err(unattached)?;
    let map = ToldMap::of(&interface).map_err(DrainError::Kernel)?;
    let Some(map) = map else { return Err(unattached("has lost its classifier")) };
    let mark = Mark::Told(Arc::new(map));
    let why = format!("shaping ranked, policy {policy}: the qdisc on {name} orders at {}", tree.plan.rate);
    let marker = Some(Marker { mark, burst_bytes: burst_bytes(&tree) });
    let link = Some(tree.plan.rate);
    Ok(DrainChoice { marker, link, ..DrainChoice::off(options, "").because(why) })
}

/// Whether a classifier sorts this server's packets into bands, whatever we mark them with.
pub fn is_sorted(interface: &Interface, port: u16) -> bool {
    let settings = classify::find(interface).ok().flatten().and_then(|attached| attached.settings);
    settings.is_some_and(|settings| settings.target == Target::Bands && settings.ports.contains(&port))
}

/// The classifier's policy that is this one.
fn ranks_of(policy: &PolicySpec) -> Option<classify::Policy> {
    match policy.order() {
        Order::Las => Some(classify::Policy::Las),
        Order::Psjf => Some(classify::Policy::Psjf),
        Order::Srpt => Some(classify::Policy::Srpt),
        Order::Srrt => Some(classify::Policy::Srrt),
        _ => None,
    }
}

/// Whether what the classifier does is what was asked for.
fn fits(settings: &Settings, port: u16, policy: classify::Policy) -> Result<(), &'static str> {
    if settings.target != Target::Ranked {
        return Err("has a classifier that sorts into bands");
    }
    if !settings.ports.contains(&port) {
        return Err("has a classifier for other ports");
    }
    if settings.policy != policy {
        return Err("has a classifier with another policy");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_classifier_is_not_ours() {
        let settings = Settings {
            policy: classify::Policy::Srpt,
            target: Target::Ranked,
            made_clsact: true,
            made_tree: true,
            cuts: vec![],
            priorities: Default::default(),
            ports: vec![80, 443],
            share: None,
        };
        let (srpt, las) = (classify::Policy::Srpt, classify::Policy::Las);
        assert_eq!(fits(&settings, 80, srpt), Ok(()));
        assert!(fits(&settings, 8080, srpt).is_err() && fits(&settings, 80, las).is_err());
        assert!(fits(&Settings { target: Target::Bands, ..settings }, 80, srpt).is_err());
    }

    /// Each has the name of its own there, and no other is there.
    #[test]
    fn the_classifier_knows_four_policies() {
        let known: Vec<&str> = (sched::policy::NAMES.iter().copied())
            .filter(|name| {
                let ranks = ranks_of(&name.parse().unwrap());
                ranks.inspect(|ranks| assert_eq!(ranks.name(), *name)).is_some()
            })
            .collect();
        assert_eq!(known, ["srpt", "psjf", "las", "srrt"]);
        assert_eq!(["fcfs", "srrt:5"].map(|spec| ranks_of(&spec.parse().unwrap())), [None, None]);
    }
}
