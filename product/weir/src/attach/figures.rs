//! The figures of attaches, read once for all outputs: `weir attach --list` as text, JSON or Prometheus metrics, and
//! `weir top`.
//!
//! A band's packets are counted by the kernel's queue as they leave it. They differ from the packets that the
//! classifier assigned to the band: other traffic is included; lost and waiting packets are not.

use ::uplink::classify::{self, Attached, Policy, Settings};
use ::uplink::follow::{self, Followed};
use ::uplink::tree::{self, CONTROL_BAND, DATA_BAND_FIRST, OTHER_BAND, Tree};
use ::uplink::{Counted, Error};

use super::trial::{self, Gain};

/// An attach with its counters at one point in time.
#[derive(Debug, Clone)]
pub struct Figures {
    pub attached: Attached,
    /// The tree; `None` if the bands are gone.
    pub tree: Option<Tree>,
    /// The record of the followed line; `None` if the rate is configured.
    pub line: Option<Followed>,
    /// The gain measured by trials; `None` if there was no trial in the last day.
    pub gain: Option<Gain>,
    /// Counters by band number; empty if the bands are gone.
    pub bands: Vec<Counted>,
    /// Counters by class, in the order of the settings; empty without classes, and zeros if the bands are gone.
    pub classes: Vec<Counted>,
}

/// The packets that a band is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Control,
    Other,
    /// Responses up to this size, or up to this time under `srrt`.
    UpTo(u64),
    Above(u64),
    AllResponses,
    /// Responses to clients that are ahead of their share.
    Behind,
}

/// Reads the figures of all attaches in this network namespace.
pub fn all() -> Result<Vec<Figures>, Error> {
    Ok(classify::list()?.into_iter().map(Figures::of).collect())
}

impl Figures {
    /// Reads the figures of an attach. Parts that have disappeared count as zero.
    fn of(attached: Attached) -> Figures {
        let tree = tree::find(&attached.interface).ok().flatten();
        let of_tree = |read: fn(&Tree) -> Result<Vec<Counted>, Error>| tree.as_ref().and_then(|tree| read(tree).ok());
        let count = attached.settings.as_ref().map_or(0, |settings| settings.classes.all.len());
        let mut classes = if count > 0 { of_tree(Tree::class_stats).unwrap_or_default() } else { Vec::new() };
        classes.resize(count, Counted::default());
        let bands = of_tree(Tree::stats).unwrap_or_default();
        let gain = attached
            .settings
            .as_ref()
            .zip(tree.as_ref())
            .and_then(|(settings, tree)| trial::gain(&attached.interface, settings, tree.plan.rate));
        Figures { line: follow::read(&attached.interface), gain, tree, bands, classes, attached }
    }

    pub fn name(&self) -> &str {
        &self.attached.interface.name
    }

    /// Returns each band with the kind of packets that it holds; empty if another version of weir attached the
    /// classifier.
    pub fn held(&self) -> impl Iterator<Item = (usize, Held, Counted)> {
        let settings = self.attached.settings.as_ref();
        let held = move |(band, counted): (usize, &Counted)| Some((band, held(settings?, band)?, *counted));
        self.bands.iter().enumerate().filter_map(held)
    }

    /// Returns each class's name and counters.
    pub fn named(&self) -> impl Iterator<Item = (&str, Counted)> {
        let all = self.attached.settings.iter().flat_map(|settings| &settings.classes.all);
        all.map(|class| class.name.as_str()).zip(self.classes.iter().copied())
    }

    /// Returns the number of packets of responses that were ordered.
    pub fn ordered_packets(&self) -> u64 {
        self.attached.counters.bands.iter().skip(DATA_BAND_FIRST.into()).map(|band| band.packets).sum()
    }
}

/// Returns the kind of packets that a band holds; `None` for an unused band.
fn held(settings: &Settings, band: usize) -> Option<Held> {
    let number = u8::try_from(band).ok()?;
    if settings.share.is_some_and(|share| (share.behind_band..share.behind_band + share.behind_bands).contains(&number))
    {
        return Some(Held::Behind);
    }
    match number {
        CONTROL_BAND => return Some(Held::Control),
        OTHER_BAND => return Some(Held::Other),
        _ => {}
    }
    let nth = usize::from(number - DATA_BAND_FIRST);
    match (settings.cuts.get(nth), nth.checked_sub(1).and_then(|before| settings.cuts.get(before))) {
        (Some(cut), _) => Some(Held::UpTo(*cut)),
        (None, Some(before)) => Some(Held::Above(*before)),
        (None, None) => (nth == 0).then_some(Held::AllResponses),
    }
}

impl Held {
    /// Describes the kind of packets for people.
    pub fn said(self, policy: Policy) -> String {
        let unit = if policy == Policy::Srrt { "us" } else { "B" };
        match self {
            Held::Control => "control".to_string(),
            Held::Other => "other".to_string(),
            Held::UpTo(cut) => format!("up to {cut} {unit}"),
            Held::Above(cut) => format!("above {cut} {unit}"),
            Held::AllResponses => "all data".to_string(),
            Held::Behind => "ahead of their share".to_string(),
        }
    }

    /// Returns the kind of packets as a label value, in the style of `size_class` in the server's metrics.
    pub fn label(self, policy: Policy) -> String {
        let unit = if policy == Policy::Srrt { "us" } else { "B" };
        match self {
            Held::Control => "control".to_string(),
            Held::Other => "other".to_string(),
            Held::UpTo(cut) => format!("le_{cut}{unit}"),
            Held::Above(cut) => format!("gt_{cut}{unit}"),
            Held::AllResponses => "responses".to_string(),
            Held::Behind => "ahead_of_share".to_string(),
        }
    }
}
