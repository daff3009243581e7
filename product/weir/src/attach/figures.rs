//! The figures of attaches, read once for all that show them: `weir attach --list` as text, as JSON and for Prometheus, and `weir top`.
//!
//! A band's packets are those that left it, by the kernel's queue, and not those that the classifier gave it: other traffic is among them, and
//! what was lost or still waits is not.

use ::uplink::classify::{self, Attached, Policy, Settings};
use ::uplink::follow::{self, Followed};
use ::uplink::tree::{self, CONTROL_BAND, DATA_BAND_FIRST, OTHER_BAND, Tree};
use ::uplink::{Counted, Error};

use super::trial::{self, Gain};

/// An attach with its counters at one instant.
#[derive(Debug, Clone)]
pub struct Figures {
    pub attached: Attached,
    /// `None` if the bands are gone.
    pub tree: Option<Tree>,
    /// `None` if the rate was given.
    pub line: Option<Followed>,
    /// `None` if no trial of it ran in the last day.
    pub gain: Option<Gain>,
    /// By number; empty if the bands are gone.
    pub bands: Vec<Counted>,
    /// By number, as the settings have the classes; empty without classes, zeros if the bands are gone.
    pub classes: Vec<Counted>,
}

/// The packets that a band is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Control,
    Other,
    /// Responses whose size, or time under `srrt`, is up to this.
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
    /// Reads the figures of an attach. Parts that are gone meanwhile count zero.
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

    /// The bands with the packets that they are for; none if another version of weir attached.
    pub fn held(&self) -> impl Iterator<Item = (usize, Held, Counted)> {
        let settings = self.attached.settings.as_ref();
        let held = move |(band, counted): (usize, &Counted)| Some((band, held(settings?, band)?, *counted));
        self.bands.iter().enumerate().filter_map(held)
    }

    /// The classes with their names.
    pub fn named(&self) -> impl Iterator<Item = (&str, Counted)> {
        let all = self.attached.settings.iter().flat_map(|settings| &settings.classes.all);
        all.map(|class| class.name.as_str()).zip(self.classes.iter().copied())
    }

    /// Packets of responses that were given a place in the order.
    pub fn ordered_packets(&self) -> u64 {
        self.attached.counters.bands.iter().skip(DATA_BAND_FIRST.into()).map(|band| band.packets).sum()
    }
}

/// The packets that a band is for; `None` for one without use.
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
    /// In words.
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

    /// As the value of a label, in the style of `size_class` of the server's metrics.
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
