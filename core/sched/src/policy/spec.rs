//! A policy as a value: parsed once, then passed around and queried.
//!
//! If a policy were passed as text, it would be parsed again in every place that depends on it, compared as strings
//! although `quick-fix` and `quick-fix:1000` are the same policy, and its parsers would drift apart.

use std::fmt;

use super::{
    BANDS_MAX, Bands, ByClient, ClientShare, Expression, Fair, Fcf, Fcfs, Fsp, Las, Policy, Psjf, QuickFix, Rank,
    Ranked, RouteIndex, Rule, Srpt, Srrt,
};

/// A policy with all its options. [`std::str::FromStr`] parses the forms in [`super::FORMS`]; [`fmt::Display`] writes
/// the spec with its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySpec {
    order: Order,
}

/// The policies that [`PolicySpec::has_bands`], for messages.
pub const BAND_POLICIES: &str = "srpt, srpt-bands, srrt, quick-fix, fair";

/// The order of all jobs, or of the jobs of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Fair,
    Fcfs,
    Srpt,
    Psjf,
    Las,
    SrptBands(BandSpec),
    /// The cut is at least 1.
    QuickFix {
        cut_bytes: u64,
    },
    /// Beta is at least 1000.
    Fcf {
        beta_permille: u32,
    },
    Srrt,
    SrrtBands(BandSpec),
    Fsp,
    /// A rank expression as the operator wrote it.
    Rank(Box<Expression>),
}

/// The cut points of bands. Two values with the same cut points are equal, even if they are spelled differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandSpec(Box<Written>);

/// The option of the spec. Boxed, because policies are passed around and few have bands.
#[derive(Debug, Clone)]
struct Written {
    cut: Cut,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cut {
    /// The number of bands.
    Learned(usize),
    /// The cut points, increasing.
    At(Vec<u64>),
}

impl PolicySpec {
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// The same as [`Policy::bands`].
    pub fn bands(&self) -> usize {
        match &self.order {
            Order::SrptBands(bands) | Order::SrrtBands(bands) => bands.count(),
            Order::QuickFix { .. } => 2,
            _ => 1,
        }
    }

    /// Returns whether kernel queues can keep this order, with any number of bands or with a fixed number.
    pub fn has_bands(&self) -> bool {
        matches!(
            self.order,
            Order::Srpt
                | Order::Srrt
                | Order::Fair
                | Order::SrptBands(_)
                | Order::SrrtBands(_)
                | Order::QuickFix { .. }
        )
    }

    /// Returns whether the order needs a route index that only the laboratory learns; a server learns only the Gittins
    /// index.
    pub fn needs_laboratory(&self) -> bool {
        matches!(&self.order, Order::Rank(expression) if expression.route_index() == Some(RouteIndex::MSerpt))
    }

    /// Returns whether the policy treats all jobs alike, so that there is nothing to order.
    pub fn is_fair(&self) -> bool {
        self.order == Order::Fair
    }

    /// Returns whether serving a job can change the order without an arrival.
    pub fn takes_turns(&self) -> bool {
        match &self.order {
            Order::Rank(expression) => expression.takes_turns(),
            order => matches!(order, Order::Fair | Order::Las),
        }
    }

    /// Makes the policy, without jobs.
    pub fn build(&self) -> Box<dyn Policy> {
        self.order.build()
    }

    /// Makes the policy, with a share between clients if one is given.
    pub fn build_among_clients(&self, share: Option<ClientShare>) -> Box<dyn Policy> {
        share.map_or_else(|| self.build(), |share| self.build_shared(share))
    }

    /// Makes the policy with this share between clients.
    pub fn build_shared(&self, share: ClientShare) -> Box<dyn Policy> {
        Box::new(self.order.among_clients(share))
    }
}

impl From<Order> for PolicySpec {
    fn from(order: Order) -> PolicySpec {
        PolicySpec { order }
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.order.fmt(f)
    }
}

fn listed(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The range of the cut points before any are learned: in bytes, the ends that Harchol-Balter et al. used; in
/// nanoseconds, the response times of a page and of a long wait.
const SIZES_AT_FIRST: (u64, u64) = (1000, 50_000);
const TIMES_AT_FIRST: (u64, u64) = (100_000_000, 1_000_000_000);

impl Order {
    /// Makes the order with this share between clients.
    pub(crate) fn among_clients(&self, share: ClientShare) -> ByClient {
        // An order of turns by client is fair from the start: no client gets ahead.
        let allowance_bytes = if *self == Order::Fair { u64::MAX } else { share.allowance_bytes };
        ByClient::new(self.build(), ClientShare { allowance_bytes, ..share })
    }

    /// The same as [`Policy::needs_path`].
    pub fn needs_path(&self) -> bool {
        match self {
            Order::Rank(expression) => expression.needs_path(),
            order => matches!(order, Order::Fcf { .. } | Order::Srrt | Order::SrrtBands(_)),
        }
    }

    fn build(&self) -> Box<dyn Policy> {
        let name = self.to_string();
        match self {
            Order::Fair => Box::<Fair>::default(),
            Order::Fcfs => Box::new(Ranked::new(Fcfs)),
            Order::Srpt => Box::new(Ranked::new(Srpt)),
            Order::Psjf => Box::new(Ranked::new(Psjf)),
            Order::Las => Box::new(Ranked::new(Las)),
            Order::SrptBands(bands) => Box::new(bands.build(name, Srpt, Rule::Sizes, SIZES_AT_FIRST)),
            Order::QuickFix { cut_bytes } => Box::new(QuickFix::new(name, *cut_bytes)),
            Order::Fcf { beta_permille } => Box::new(Fcf::new(name, *beta_permille)),
            Order::Srrt => Box::new(Ranked::new(Srrt)),
            Order::SrrtBands(bands) => Box::new(bands.build(name, Srrt, Rule::Times, TIMES_AT_FIRST)),
            Order::Fsp => Box::<Fsp>::default(),
            Order::Rank(expression) => Box::new(Ranked::new((**expression).clone())),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Fair => f.write_str("fair"),
            Order::Fcfs => f.write_str("fcfs"),
            Order::Srpt => f.write_str("srpt"),
            Order::Psjf => f.write_str("psjf"),
            Order::Las => f.write_str("las"),
            Order::SrptBands(bands) => write!(f, "srpt-bands:{}", bands.0.text),
            Order::QuickFix { cut_bytes } => write!(f, "quick-fix:{cut_bytes}"),
            Order::Fcf { beta_permille } => write!(f, "fcf:{}", f64::from(*beta_permille) / 1000.0),
            Order::Srrt => f.write_str("srrt"),
            Order::SrrtBands(bands) => write!(f, "srrt:{}", bands.0.text),
            Order::Fsp => f.write_str("fsp"),
            Order::Rank(expression) => expression.fmt(f),
        }
    }
}

impl BandSpec {
    /// Makes `bands` bands, 1 to [`BANDS_MAX`], with learned cut points.
    pub fn learned(bands: usize) -> BandSpec {
        assert!((1..=BANDS_MAX).contains(&bands), "{bands} bands");
        BandSpec(Box::new(Written { cut: Cut::Learned(bands), text: bands.to_string() }))
    }

    /// Makes bands cut at these sizes, which must increase and be at least 1; fewer than [`BANDS_MAX`].
    pub fn at_bytes(cuts: Vec<u64>) -> BandSpec {
        // The text has a unit: a single bare number would be a number of bands.
        let written = listed(&cuts.iter().map(|cut| format!("{cut}B")).collect::<Vec<_>>());
        BandSpec::at(cuts, written)
    }

    /// Makes bands cut at these ranks; `text` is the option as written.
    pub(super) fn at(cuts: Vec<u64>, text: String) -> BandSpec {
        assert!((1..BANDS_MAX).contains(&cuts.len()) && cuts.is_sorted_by(|a, b| a < b), "cut points {cuts:?}");
        BandSpec(Box::new(Written { cut: Cut::At(cuts), text }))
    }

    /// The number of bands.
    pub fn count(&self) -> usize {
        match &self.0.cut {
            Cut::Learned(bands) => *bands,
            Cut::At(cuts) => cuts.len() + 1,
        }
    }

    /// The cut points, in bytes, or in nanoseconds for `srrt`; `None` if they are learned.
    pub fn cuts(&self) -> Option<&[u64]> {
        match &self.0.cut {
            Cut::Learned(_) => None,
            Cut::At(cuts) => Some(cuts),
        }
    }

    fn build<R: Rank>(&self, name: String, rank: R, rule: Rule, between: (u64, u64)) -> Bands<R> {
        match &self.0.cut {
            Cut::Learned(bands) => Bands::learned(name, rank, *bands, rule, between),
            Cut::At(cuts) => Bands::at(name, rank, cuts.clone()),
        }
    }
}

impl PartialEq for Written {
    fn eq(&self, other: &Written) -> bool {
        self.cut == other.cut
    }
}

impl Eq for Written {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Increasing numbers with a unit each, as an operator could write them, and their values.
    fn cut_points(units: &'static [(&'static str, u64)]) -> impl Strategy<Value = BandSpec> {
        let numbers = prop::collection::vec((1u64..1 << 40, prop::sample::select(units)), 1..BANDS_MAX);
        numbers.prop_map(|numbers| {
            let mut cuts: Vec<(u64, String)> = numbers
                .into_iter()
                .map(|(number, (unit, scale))| (number * scale, format!("{number}{unit}")))
                .collect();
            cuts.sort();
            cuts.dedup_by_key(|(cut, _)| *cut);
            let (cuts, written): (Vec<u64>, Vec<String>) = cuts.into_iter().unzip();
            BandSpec::at(cuts, written.join(","))
        })
    }

    fn order() -> impl Strategy<Value = Order> {
        let (sizes, times) = (&[("B", 1), ("KB", 1000), ("KiB", 1024)], &[("ns", 1), ("us", 1000), ("ms", 1_000_000)]);
        let learned = || (1..=BANDS_MAX).prop_map(BandSpec::learned);
        let plain = [Order::Fair, Order::Fcfs, Order::Srpt, Order::Psjf, Order::Las, Order::Srrt, Order::Fsp];
        prop_oneof![
            prop::sample::select(plain.to_vec()),
            learned().prop_map(Order::SrptBands),
            cut_points(sizes).prop_map(Order::SrptBands),
            prop::collection::btree_set(1u64.., 1..BANDS_MAX)
                .prop_map(|cuts| Order::SrptBands(BandSpec::at_bytes(cuts.into_iter().collect()))),
            (1u64..).prop_map(|cut_bytes| Order::QuickFix { cut_bytes }),
            (1000u32..=1_000_000_000).prop_map(|beta_permille| Order::Fcf { beta_permille }),
            learned().prop_map(Order::SrrtBands),
            cut_points(times).prop_map(Order::SrrtBands),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(order in order()) {
            let spec = PolicySpec::from(order);
            let written = spec.to_string();
            let read = written.parse::<PolicySpec>();
            prop_assert_eq!(read.as_ref(), Ok(&spec), "{}", &written);
            prop_assert_eq!(read.map(|read| read.to_string()), Ok(written));
        }

        #[test]
        fn a_spec_tells_what_its_policy_tells(order in order()) {
            let spec = PolicySpec::from(order);
            let policy = spec.build();
            prop_assert_eq!(policy.name(), spec.to_string());
            prop_assert_eq!(policy.bands(), spec.bands());
            prop_assert_eq!(policy.needs_path(), spec.order().needs_path());
        }
    }

    #[test]
    fn what_is_asked_of_specs() {
        let spec = |text: &str| text.parse::<PolicySpec>().unwrap();
        for (text, is_fair, takes_turns) in [("fair", true, true), ("srpt", false, false), ("las", false, true)] {
            assert_eq!((spec(text).is_fair(), spec(text).takes_turns()), (is_fair, takes_turns), "{text}");
        }
        let Order::SrptBands(bands) = spec("srpt-bands:1000,2KB").order().clone() else { panic!("has bands") };
        assert_eq!((bands.count(), bands.cuts()), (3, Some(&[1000, 2000][..])));
        assert_eq!(spec("srpt-bands:1000,2KB"), spec("srpt-bands:1KB,2000"));
        assert_ne!(spec("srpt-bands:1000,2000"), spec("srpt-bands:1000,2001"));
        assert_ne!(spec("srpt-bands"), spec("srrt:5"));
    }
}
