//! Makes, changes and removes the tree. Everything is checked before anything is changed, and a failure half way is
//! undone, which restores the interface.

use std::io;

use units::Rate;

use super::build::At;
use super::found::{Found, look};
use super::{CONTROL_BAND, OTHER_BAND, Plan, Tree, build, classes, keep, leftovers, segments};
use crate::device::Device;
use crate::netlink::Socket;
use crate::tc::Qdisc;
use crate::{Error, Interface};

/// The command that removes a tree.
const DOWN: &str = "weir uplink down";

#[cfg(test)]
thread_local! {
    /// True if [`up`] fails in this thread.
    pub static IS_REFUSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The action that [`up`] took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There was no tree, and one was made.
    Made,
    /// The rates of the tree were changed; waiting packets stay in it.
    Rates,
    /// The tree was rebuilt; the packets that waited in it were dropped.
    Rebuilt,
    /// The tree was already as wanted.
    Nothing,
}

/// Ensures that the tree of this plan is on the interface. Another program's qdisc makes it fail, or with `replace` is
/// stored and later restored by [`down`].
pub fn up(interface: &Interface, plan: &Plan, replace: bool) -> Result<Change, Error> {
    #[cfg(test)]
    if IS_REFUSED.get() {
        return Err(Error::new("refused by a test"));
    }
    interface.explain(make(interface, plan, replace))
}

/// Returns the error of [`up`], if it can be found without changing anything.
pub fn check(interface: &Interface, plan: &Plan, replace: bool) -> Result<(), Error> {
    interface.explain(inspect(interface, plan, replace).map(drop))
}

/// Returns an error unless the qdisc at the root is one that a tree may replace; `undo` is the command that restores it.
pub fn check_root(interface: &Interface, replace: bool, undo: &str) -> Result<(), Error> {
    look_at_root(interface, replace, undo).map(drop)
}

fn look_at_root(interface: &Interface, replace: bool, undo: &str) -> Result<Found, Error> {
    let found = look(interface)?;
    if let Found::Others(qdisc) = &found {
        check_cross(&interface.name, qdisc, replace, undo)?;
    }
    Ok(found)
}

fn inspect(interface: &Interface, plan: &Plan, replace: bool) -> Result<(Device, Found), Error> {
    plan.check()?;
    let device = check_device(interface, plan)?;
    Ok((device, look_at_root(interface, replace, DOWN)?))
}

/// Changes the rate of a tree that is unchanged since it had the rate `before`; returns false if it is not. With
/// `packets_for`, packets become as large as suits that rate. This changes the interface, which other programs notice,
/// so it is left out for a rate that changes often.
pub fn change_rate(interface: &Interface, before: Rate, rate: Rate, packets_for: Option<Rate>) -> Result<bool, Error> {
    let change = || {
        let kernel = |error: io::Error| Error::kernel(&format!("changing the rate on {}", interface.name), error);
        let Found::Ours(tree) = look(interface)? else { return Ok(false) };
        if !is_rate(tree.plan.rate, before) {
            return Ok(false);
        }
        let plan = Plan { rate, ..tree.plan.clone() };
        plan.check()?;
        let device = check_device(interface, &plan)?;
        let mut netlink = Socket::open().map_err(kernel)?;
        if let Some(rate) = packets_for {
            segments::bound(&mut netlink, interface, &device, rate).map_err(kernel)?;
        }
        let mut site = Site { netlink: &mut netlink, interface, mtu_bytes: device.mtu_bytes };
        site.change_rates(&tree, &plan).map(|_| true)
    };
    interface.explain(change())
}

/// Returns true if both rates are the same to the kernel, which stores whole bytes per second.
pub fn is_rate(one: Rate, other: Rate) -> bool {
    build::bytes_per_s(one) == build::bytes_per_s(other)
}

fn make(interface: &Interface, plan: &Plan, replace: bool) -> Result<Change, Error> {
    let (device, found) = inspect(interface, plan, replace)?;
    let doing = format!("making the tree on {}", interface.name);
    let kernel = |error: io::Error| Error::kernel(&doing, error);
    let mut netlink = Socket::open().map_err(kernel)?;
    let is_new = segments::bound(&mut netlink, interface, &device, plan.rate).map_err(kernel)?;
    let outcome = put_up(&mut netlink, interface, &device, plan, found);
    if outcome.is_err() && is_new {
        // The first error is the one to report.
        let _ = segments::release(&mut netlink, interface);
    }
    leftovers::sweep();
    outcome
}

fn put_up(
    netlink: &mut Socket,
    interface: &Interface,
    device: &Device,
    plan: &Plan,
    found: Found,
) -> Result<Change, Error> {
    let mut site = Site { netlink, interface, mtu_bytes: device.mtu_bytes };
    match found {
        Found::Ours(tree) if same(&tree.plan, plan) => return Ok(Change::Nothing),
        Found::Ours(tree) if same_queues(&tree.plan, plan) => return site.change_rates(&tree, plan),
        Found::Others(qdisc) => {
            keep::keep(interface, &qdisc)?;
            if let Err(error) = site.build(plan, Before::Others(qdisc)) {
                keep::forget(interface);
                return Err(error);
            }
            return Ok(Change::Made);
        }
        Found::Ours(tree) => site.build(plan, Before::Ours(tree.plan))?,
        Found::Broken => site.build(plan, Before::Broken)?,
        Found::Default => {
            // A process that was killed between the removal of a tree and the end of its work leaves a record, which
            // holds on. Any other belongs to an earlier interface or namespace with these numbers.
            if keep::kept(interface).is_none() {
                keep::forget(interface);
            }
            site.build(plan, Before::Default)?;
            return Ok(Change::Made);
        }
    }
    Ok(Change::Rebuilt)
}

/// Removes the tree and restores the previous state. Returns false if there was nothing of ours.
pub fn down(interface: &Interface) -> Result<bool, Error> {
    leftovers::sweep();
    interface.check()?;
    interface.explain(take_down(interface))
}

fn take_down(interface: &Interface) -> Result<bool, Error> {
    let name = &interface.name;
    match look(interface)? {
        Found::Ours(_) | Found::Broken => {
            let remove = || build::remove(&mut Socket::open()?, interface.index);
            remove().map_err(|error| Error::kernel(&format!("removing the tree from {name}"), error))?;
            put_back(interface)?;
            Ok(true)
        }
        Found::Default => put_back(interface),
        Found::Others(_) if put_back(interface)? => Ok(true),
        Found::Others(Qdisc { kind, .. }) => Err(Error::new(format!(
            "the {kind} on {name} is not weir's: run `tc qdisc del dev {name} root` to remove it"
        ))),
    }
}

/// Restores the settings that a removed tree had changed, whichever program removed it: the size of packets, and the
/// discipline that it replaced, unless another discipline is there. Returns false if there was nothing to restore.
pub fn put_back(interface: &Interface) -> Result<bool, Error> {
    let name = &interface.name;
    let kernel = |error: io::Error| Error::kernel(&format!("restoring the packet size on {name}"), error);
    let mut netlink = Socket::open().map_err(kernel)?;
    let is_released = segments::release(&mut netlink, interface).map_err(kernel)?;
    let kept = if matches!(look(interface)?, Found::Default) { keep::kept(interface) } else { None };
    if let Some(qdisc) = &kept {
        keep::restore(&mut netlink, interface, qdisc).map_err(|error| {
            let kind = &qdisc.kind;
            Error::other(format!("the tree is gone from {name}, but the previous {kind} could not be restored"), error)
        })?;
    }
    keep::forget(interface);
    classes::forget(interface);
    Ok(is_released || kept.is_some())
}

/// The previous state, to restore if the new tree cannot be made.
enum Before {
    Default,
    Others(Qdisc),
    Ours(Plan),
    /// Our tree, but incomplete: it is not restored.
    Broken,
}

struct Site<'a> {
    netlink: &'a mut Socket,
    interface: &'a Interface,
    mtu_bytes: u32,
}

impl Site<'_> {
    fn build(&mut self, plan: &Plan, before: Before) -> Result<(), Error> {
        let name = &self.interface.name;
        if let Before::Ours(_) | Before::Broken = before {
            // An HTB's globals cannot be changed, nor can an HTB replace another with the same handle.
            build::remove(self.netlink, self.interface.index)
                .map_err(|error| Error::kernel(&format!("replacing the tree on {name}"), error))?;
        }
        let Err(error) = self.put(plan) else { return Ok(()) };
        match self.undo(before) {
            Ok(()) => Err(error),
            Err(undo) => Err(Error::undo(error, format!("the qdisc before on {name}"), undo)),
        }
    }

    fn undo(&mut self, before: Before) -> Result<(), Error> {
        let doing = "putting it back";
        // If the very first step failed, there is nothing to remove.
        if let Ok(Found::Ours(_) | Found::Broken) = look(self.interface) {
            build::remove(self.netlink, self.interface.index).map_err(|error| Error::kernel(doing, error))?;
        }
        match before {
            Before::Default | Before::Broken => Ok(()),
            Before::Others(qdisc) => {
                keep::restore(self.netlink, self.interface, &qdisc).map_err(|error| Error::kernel(doing, error))
            }
            Before::Ours(plan) => self.put(&plan),
        }
    }

    fn change_rates(&mut self, tree: &Tree, plan: &Plan) -> Result<Change, Error> {
        if plan.classes != tree.plan.classes {
            classes::keep(self.interface, &plan.classes).map_err(|error| self.explain(plan, error))?;
        }
        let [before, now] = [&tree.plan, plan].map(|plan| plan.classes.len());
        let Err(error) = self.set_rates(plan, before) else { return Ok(Change::Rates) };
        let undo = classes::keep(self.interface, &tree.plan.classes).map_err(|error| self.explain(plan, error));
        match undo.and_then(|()| self.set_rates(&tree.plan, now)) {
            Ok(()) => Err(error),
            Err(undo) => Err(Error::undo(error, "the rate before", undo)),
        }
    }

    fn put(&mut self, plan: &Plan) -> Result<(), Error> {
        // The shares are stored first, because a tree whose shares are not known is incomplete.
        classes::keep(self.interface, &plan.classes).map_err(|error| self.explain(plan, error))?;
        build::build(&mut self.at(), plan).map_err(|error| self.explain(plan, error))
    }

    fn set_rates(&mut self, plan: &Plan, before: usize) -> Result<(), Error> {
        build::set_rates(&mut self.at(), plan, before).map_err(|error| self.explain(plan, error))
    }

    fn at(&mut self) -> At<'_> {
        At { netlink: self.netlink, interface: self.interface.index, mtu_bytes: self.mtu_bytes }
    }

    fn explain(&self, plan: &Plan, error: io::Error) -> Error {
        let (kind, name) = (plan.kind.name(), &self.interface.name);
        match error.raw_os_error() {
            // The kernel has no qdisc or class of this kind and found no module for it.
            Some(libc::ENOENT) => Error::missing(format!(
                "this kernel has no {kind}, nor its module sch_{kind}: run `weir uplink doctor` to list what it has"
            )),
            _ => Error::kernel(&format!("making the tree on {name}"), error),
        }
    }
}

fn check_device(interface: &Interface, plan: &Plan) -> Result<Device, Error> {
    let name = &interface.name;
    let device = Device::of(interface).map_err(|error| Error::kernel(&format!("reading {name}"), error))?;
    // `explain` reports this too.
    let device = device.ok_or_else(|| Error::new(format!("the interface {name} has gone")))?;
    if !device.is_up {
        return Err(Error::new(format!("{name} is down: run `ip link set {name} up` first")));
    }
    match device.speed {
        Some(speed) if plan.rate > speed => {
            let rate = plan.rate;
            Err(Error::new(format!("rate {rate} is above the {speed} of {name}: write {speed} or less")))
        }
        _ => Ok(device),
    }
}

fn check_cross(name: &str, qdisc: &Qdisc, replace: bool, undo: &str) -> Result<(), Error> {
    let kind = &qdisc.kind;
    if !keep::is_restorable(qdisc) {
        return Err(Error::new(format!(
            "{name} has a {kind}, which weir cannot restore later: run `tc qdisc del dev {name} root` to remove it"
        )));
    }
    if !replace {
        return Err(Error::new(format!(
            "{name} has a {kind} of another program: write --replace to take its place until `{undo} {name}`"
        )));
    }
    Ok(())
}

/// Returns true if both plans would make the same tree.
pub fn same(one: &Plan, other: &Plan) -> bool {
    let rates = |plan: &Plan| {
        (
            build::bytes_per_s(plan.rate),
            plan.framing,
            [CONTROL_BAND, OTHER_BAND].map(|band| build::share_bytes_per_s(plan, band)),
            plan.classes.clone(),
        )
    };
    same_queues(one, other) && rates(one) == rates(other)
}

/// Returns true if the plans differ in rates, framing and classes only, and both have classes or none.
fn same_queues(one: &Plan, other: &Plan) -> bool {
    let queues = |plan: &Plan| (plan.kind, plan.bands, plan.packets_per_band, plan.classes.is_empty());
    queues(one) == queues(other)
}
