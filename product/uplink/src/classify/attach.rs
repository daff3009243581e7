//! Attaching and detaching.
//!
//! The steps are ordered so that a kill does no harm. The program is attached first, with settings that record that a
//! tree will be made; the tree is made second. Detaching reverses the order. The program identifies any remaining
//! parts, and the next attach or detach completes the work. Until the tree exists, the marks on the packets have no
//! effect.

use sched::policy::ClientShareSpec;
use units::Rate;

use super::counters::Sizes;
use super::cuts::Cuts;
use super::filter::{self, Filters};
use super::gain;
use super::program::{self, Program};
use super::record::{self, Made};
use super::settings::{Settings, Share};
use super::{Classify, Clients, Hook};
use crate::constants::BANDS_MAX;
use crate::device::Device;
use crate::tree::{self, Before, Framing, Kind, Plan, Tree, leftovers};
use crate::{Error, Interface, follow};

/// The effect that an attach would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pub settings: Settings,
    /// The tree that the marks refer to.
    pub tree: Plan,
    /// True if a classifier of ours is attached already.
    pub is_again: bool,
    pub place: Hook,
}

/// Attaches the classifier to the interface, replacing an earlier one, and makes the tree or sets its rate.
pub fn attach(interface: &Interface, wanted: &Classify) -> Result<Settings, Error> {
    let attach = || {
        let (site, plan, settings) = inspect(interface, wanted)?;
        site.install(wanted, &plan, &settings)?;
        Ok(settings)
    };
    interface.check()?;
    interface.explain(attach())
}

/// Returns the effect that [`attach`] would have, or its error. The kernel loads the program and discards it.
pub fn preview(interface: &Interface, wanted: &Classify) -> Result<Preview, Error> {
    let preview = || {
        let (site, tree, settings) = inspect(interface, wanted)?;
        Program::load(&settings.to_bytes(), None)?;
        Ok(Preview { settings, tree, is_again: site.earlier.is_some(), place: site.place })
    };
    interface.explain(preview())
}

/// Returns true if everything is already as [`attach`] would make it.
pub fn is_in_place(interface: &Interface, wanted: &Classify) -> Result<bool, Error> {
    let is_in_place = || {
        let (site, plan, settings) = inspect(interface, wanted)?;
        let Ok(Some(Tree { plan: found, .. })) = &site.tree else { return Ok(false) };
        let is_first = match site.place {
            Hook::Tcx => {
                let Filters { at_tcx, arriving, tcx_before, .. } = &site.filters;
                at_tcx.len() == 1 && arriving.len() == 1 && tcx_before.is_empty()
            }
            Hook::Clsact => site.filters.at_clsact.is_some(),
        };
        let is_same = site.earlier.as_ref().is_some_and(|(_, earlier)| *earlier == settings);
        Ok(is_first && is_same && tree::same(found, &plan))
    };
    interface.explain(is_in_place())
}

/// Performs all checks before anything is changed.
fn inspect<'a>(interface: &'a Interface, wanted: &Classify) -> Result<(Site<'a>, Plan, Settings), Error> {
    let site = Site::look(interface, wanted)?;
    let plan = site.plan(wanted)?;
    tree::check(interface, &plan, wanted.replace)?;
    wanted.classes.check(&wanted.ports)?;
    if !wanted.is_followed {
        tree::check_floors(&plan)?;
    }
    let settings = site.settings(wanted, &plan)?;
    Ok((site, plan, settings))
}

/// Detaches the classifier from the interface, and removes the tree and the clsact if attaching made them. Returns
/// false if there was none.
pub fn detach(interface: &Interface) -> Result<bool, Error> {
    interface.check()?;
    interface.explain(take_away(interface))
}

fn take_away(interface: &Interface) -> Result<bool, Error> {
    // This ends a follower of the line.
    follow::forget(interface)?;
    let filters = filter::look(interface)?;
    let program = filters.ours().map(Program::open).transpose()?;
    let settings = match &program {
        Some(program) => program.settings()?.and_then(|bytes| Settings::from_bytes(&bytes)),
        None => None,
    };
    let before = settings.as_ref().map_or(Before::default(), |settings| settings.before);
    let record = record::read(interface);
    let was_attached = record::forget_earlier(interface) || record.is_some() || program.is_some();
    let record = record.unwrap_or_default();
    let made = settings.map_or(record, |made| Made {
        tree: made.made_tree,
        // Recorded while the program is attached: an attach that moved the program from the clsact to TCX was
        // interrupted.
        empty_clsact: made.made_clsact || record.empty_clsact,
    });
    let is_put_back = take_tree_away(interface, made.tree, before)?;
    if let Some(program) = &program {
        record::write(interface, made)?;
        program.detach(interface)?;
    } else {
        program::detach_arriving(interface, None)?;
    }
    if made.empty_clsact && filters.has_clsact && !filters.has_others {
        filter::remove_clsact(interface)?;
    }
    gain::forget(interface);
    record::forget(interface);
    leftovers::sweep();
    Ok(was_attached || is_put_back)
}

/// Removes the tree if attaching made it, and restores the previous state of the interface. The tree of `weir uplink
/// up` stays. Returns true if the tree was already gone and something else was restored.
fn take_tree_away(interface: &Interface, is_ours: bool, before: Before) -> Result<bool, Error> {
    match tree::find(interface) {
        // If another qdisc has taken the tree's place since, it stays.
        Ok(None) => return tree::put_back(interface),
        Ok(Some(tree)) if is_ours => before.restore(&tree)?,
        _ => {}
    }
    if is_ours {
        tree::down(interface)?;
    }
    Ok(false)
}

/// The state that a detach cannot restore because its records in /run/weir are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unrecorded(Before);

impl Unrecorded {
    /// Reads that state before a detach.
    pub fn of(interface: &Interface) -> Result<Unrecorded, Error> {
        let settings = super::find(interface)?.and_then(|attached| attached.settings);
        settings.map_or(Ok(Unrecorded::default()), |settings| settings.before.unrecorded(interface).map(Unrecorded))
    }

    /// Returns a line for each part that the detach did not restore, with the command that restores it.
    pub fn said(self, interface: &Interface) -> Vec<String> {
        let Unrecorded(Before { segments, queue }) = self;
        let name = &interface.name;
        let queue = queue.map(|kind| {
            format!(
                "{name} had a {kind}, whose settings are lost with /run/weir: run `tc qdisc replace dev {name} root {kind}`, and add them"
            )
        });
        let device = Device::of(interface).ok().flatten();
        let is_small = device.is_some_and(|device| device.gso_max_segs < segments.into());
        let segments = is_small
            .then(|| format!("the packets of {name} stay small: run `ip link set dev {name} gso_max_segs {segments}`"));
        queue.into_iter().chain(segments).collect()
    }
}

/// Returns the number of bands for clients above their share. With more than one, a crawler that competed with a
/// download kept 7 of 10 Mbit/s (docs/notebook/clients.md).
fn bands_behind(bands: u8) -> u8 {
    u8::from(bands > 1)
}

/// The divisor of a followed rate that gives the maximum difference from a rate that still counts as near.
const NEAR_PARTS: u64 = 4;

/// The state of an interface before an attach.
struct Site<'a> {
    interface: &'a Interface,
    place: Hook,
    filters: Filters,
    earlier: Option<(Program, Settings)>,
    /// The parts that an earlier attach made, if it was interrupted or has lost its program.
    record: Option<Made>,
    /// An error means that our tree is incomplete.
    tree: Result<Option<Tree>, Error>,
}

impl<'a> Site<'a> {
    fn look(interface: &'a Interface, wanted: &Classify) -> Result<Site<'a>, Error> {
        let name = &interface.name;
        if wanted.ports.is_empty() || wanted.ports.contains(&0) {
            return Err(Error::new("no port is given: expected the server's, such as --port 80,443"));
        }
        let device = Device::of(interface).map_err(|error| Error::kernel(&format!("reading {name}"), error))?;
        if !device.is_some_and(|device| device.is_up) {
            return Err(Error::new(format!("{name} is down: run `ip link set {name} up` first")));
        }
        let filters = filter::look(interface)?;
        let place = Hook::of_new(interface)?;
        if filters.has_ingress && place == Hook::Clsact {
            return Err(Error::new(format!(
                "{name} has an ingress qdisc, which has no place for what leaves: run `tc qdisc del dev {name} ingress && tc qdisc add dev {name} clsact`, and add its filters again, which a clsact takes as they are"
            )));
        }
        if filters.is_taken && place == Hook::Clsact {
            let (priority, handle) = (filter::PRIORITY, filter::HANDLE);
            return Err(Error::new(format!(
                "a filter of another program has the place of weir's on {name} (handle {handle}): run `tc filter del dev {name} egress pref {priority}` to remove it"
            )));
        }
        if wanted.clients.is_some_and(Clients::reads_headers) && place == Hook::Clsact {
            return Err(Error::missing(format!(
                "{name}: --client-by proxy reads what arrives, which this kernel does not show (it needs Linux 6.6, TCX): use --client-by mark"
            )));
        }
        tree::check_root(interface, wanted.replace, "weir attach --detach")?;
        let earlier = filters.ours().map(Program::open).transpose()?;
        let earlier = match earlier {
            Some(program) => {
                let program = program.with_arriving(filters.arriving.first().copied())?;
                let settings = program.settings()?.and_then(|bytes| Settings::from_bytes(&bytes));
                // A program of another version is replaced, and none of its state is kept.
                settings.map(|settings| (program, settings))
            }
            None => None,
        };
        Ok(Site { interface, place, filters, earlier, record: record::read(interface), tree: tree::find(interface) })
    }

    /// Returns the tree that attaching will leave in place.
    fn plan(&self, wanted: &Classify) -> Result<Plan, Error> {
        let plan = self.plan_of_rate(wanted)?;
        if !wanted.classes.all.is_empty() && !self.has_made_tree() && matches!(self.tree, Ok(Some(_))) {
            let name = &self.interface.name;
            return Err(Error::new(format!(
                "the bands on {name} are from `weir uplink up` and have no classes: run `weir uplink down {name}` first"
            )));
        }
        let plan = Plan { classes: wanted.classes.shares(), ..plan };
        let framing = wanted.overhead.map(|overhead| tree::framing(self.interface, overhead)).transpose()?;
        let plan = Plan { framing: framing.unwrap_or(plan.framing), ..plan };
        // If the bands count bytes differently from the estimator, they never seem full, and their rate never rises.
        if wanted.is_followed && plan.framing != Framing::default() {
            return Err(Error::new(format!(
                "the rate that is found on {} counts packets as the interface has them: give --rate, or --overhead none",
                self.interface.name
            )));
        }
        Ok(plan)
    }

    fn plan_of_rate(&self, wanted: &Classify) -> Result<Plan, Error> {
        let name = &self.interface.name;
        match (&self.tree, wanted.rate) {
            (Ok(Some(tree)), rate) => {
                let rate = rate.unwrap_or(tree.plan.rate);
                Ok(match tree.plan.other_share_permille {
                    // An earlier version of weir attached the program, without guaranteed shares.
                    0 if self.has_made_tree() => Plan::new(Kind::Htb, rate),
                    _ => Plan { rate, ..tree.plan.clone() },
                })
            }
            (Ok(None) | Err(_), Some(rate)) => Ok(Plan::new(Kind::Htb, rate)),
            (Ok(None), None) => Err(Error::new(format!(
                "{name} has no tree of bands: write the rate of one to be made, such as --rate 10mbit"
            ))),
            (Err(error), None) => Err(Error::new(error.to_string())),
        }
    }

    fn has_made_tree(&self) -> bool {
        let record = self.record.is_some_and(|made| made.tree);
        self.earlier.as_ref().map_or(record, |(_, settings)| settings.made_tree)
    }

    /// Returns true if an earlier attach made the clsact.
    fn has_made_clsact(&self) -> bool {
        let is_left = self.record.is_some_and(|made| made.empty_clsact);
        match &self.earlier {
            Some((_, settings)) => settings.made_clsact || is_left,
            None => is_left && self.filters.ours().is_none() && !self.filters.has_others,
        }
    }

    fn settings(&self, wanted: &Classify, plan: &Plan) -> Result<Settings, Error> {
        let tree = Tree { interface: self.interface.clone(), plan: plan.clone() };
        let bands = tree.data_bands();
        let sizes = self.earlier.as_ref().map(|(program, _)| Sizes::read(program)).transpose()?;
        let share = wanted.clients.filter(|clients| clients.share != ClientShareSpec::Off);
        // Unless their cuts are given, the last bands are for clients above their share.
        let for_sizes = match wanted.cuts {
            Cuts::Given(_) => bands,
            _ if share.is_some() => bands - bands_behind(bands),
            _ => bands,
        };
        let cuts = wanted.cuts.resolve(wanted.policy, for_sizes, sizes.as_ref())?;
        let made_tree = self.has_made_tree() || !matches!(self.tree, Ok(Some(_)));
        let mut ports = wanted.ports.clone();
        ports.sort_unstable();
        ports.dedup();
        Ok(Settings {
            policy: wanted.policy,
            made_clsact: self.place == Hook::Clsact
                && (self.has_made_clsact() || (self.earlier.is_none() && !self.filters.has_clsact)),
            made_tree,
            has_uploads: wanted.has_uploads,
            share: share.and_then(|clients| self.share(wanted, clients, plan, cuts.len(), bands)),
            cuts,
            priorities: std::array::from_fn(|band| tree.priority(band.min(BANDS_MAX) as u8)),
            ports,
            classes: wanted.classes.resolved(),
            before: if made_tree { self.before()? } else { Before::default() },
        })
    }

    /// Returns the state that attaching's tree replaces. If there was an earlier attach, it is the state that the
    /// earlier attach found.
    fn before(&self) -> Result<Before, Error> {
        let earlier = self.earlier.as_ref().map(|(_, settings)| settings.before).unwrap_or_default();
        if earlier == Before::default() { Before::of(self.interface) } else { Ok(earlier) }
    }

    /// Returns the sharing of the link. It does not change while a followed rate stays near it, because a new sharing
    /// would require reloading the program.
    fn share(&self, wanted: &Classify, clients: Clients, plan: &Plan, cuts: usize, bands: u8) -> Option<Share> {
        let share = Share::of(clients, plan.rate, cuts, bands)?;
        let earlier = self.earlier.as_ref().filter(|_| wanted.is_followed).and_then(|(_, settings)| settings.share);
        let rate_then = earlier.and_then(|earlier| Rate::from_bits_per_s(earlier.link_bytes_per_s.checked_mul(8)?));
        let near = rate_then.and_then(|rate| Share::of(clients, rate, cuts, bands)).filter(|near| {
            let [before, now] = [near.link_bytes_per_s, share.link_bytes_per_s];
            Some(*near) == earlier && before.abs_diff(now) <= before / NEAR_PARTS
        });
        Some(near.unwrap_or(share))
    }

    fn install(&self, wanted: &Classify, plan: &Plan, settings: &Settings) -> Result<(), Error> {
        let program = Program::load(&settings.to_bytes(), self.earlier.as_ref().map(|(program, _)| program))?;
        let made = Made { tree: settings.made_tree, empty_clsact: settings.made_clsact || self.has_made_clsact() };
        record::write(self.interface, made)?;
        let done = program
            .attach(self.interface)
            .and_then(|()| self.remove_clsact())
            .and_then(|()| record::write(self.interface, Made { empty_clsact: false, ..made }))
            // The last step, because [`Site::undo`] cannot undo it. If it fails, it has undone itself.
            .and_then(|()| tree::up(self.interface, plan, wanted.replace).map(|_| ()));
        let Err(error) = done else {
            record::forget_earlier(self.interface);
            return Ok(());
        };
        match self.undo(&program) {
            Ok(()) => Err(error),
            Err(undo) => Err(Error::undo(error, format!("the classifier before on {}", self.interface.name), undo)),
        }
    }

    /// Removes the clsact that an earlier attach made, if TCX is used instead now and no other filters use the clsact.
    fn remove_clsact(&self) -> Result<(), Error> {
        let is_unused = self.filters.has_clsact && !self.filters.has_others;
        match self.place == Hook::Tcx && self.has_made_clsact() && is_unused {
            true => filter::remove_clsact(self.interface),
            false => Ok(()),
        }
    }

    /// Restores the earlier program, or removes what [`Site::install`] made.
    fn undo(&self, program: &Program) -> Result<(), Error> {
        match self.record {
            Some(made) => record::write(self.interface, made)?,
            None => record::forget(self.interface),
        }
        if let Some((earlier, _)) = &self.earlier {
            return earlier.attach(self.interface);
        }
        let now = filter::look(self.interface)?;
        if now.ours().is_some() {
            program.detach(self.interface)?;
        }
        if now.has_clsact && !self.filters.has_clsact {
            filter::remove_clsact(self.interface)?;
        }
        Ok(())
    }
}
