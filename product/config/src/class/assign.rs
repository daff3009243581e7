//! Which class a request has: the first rule it meets, else its site's class, else the default.

use super::{Asked, Class, Rule, by_name};
use crate::Site;
use crate::place::Placed;

/// Why a request has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// By the place of the rule among all rules.
    Rule(usize),
    Site,
    /// `uplink.default_class`.
    Default,
    /// Nothing assigns one: [`super::OTHERS`].
    Nothing,
}

/// The classes of all requests. One of ten thousand sites looks at its own rules and those of all sites.
#[derive(Debug, Clone, Default)]
pub struct Assignment {
    /// In the order of the file.
    rules: Vec<Rule>,
    /// Places of the rules for any site.
    of_any: Vec<usize>,
    /// By site: places of its own rules, and its class.
    of_sites: Vec<(Vec<usize>, Option<usize>)>,
    default: Option<usize>,
    others: usize,
}

impl Assignment {
    pub(crate) fn new(
        classes: &[Class],
        rules: &[Rule],
        sites: &[Site],
        default: Option<&Placed<String>>,
    ) -> Assignment {
        let names = by_name(classes);
        let named = |name: &Placed<String>| names.get(name.value.as_str()).copied();
        let mut of_sites: Vec<(Vec<usize>, Option<usize>)> =
            sites.iter().map(|site| (Vec::new(), site.class.as_ref().and_then(named))).collect();
        let mut of_any = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            match rule.site {
                Some(site) => of_sites[site].0.push(at),
                None => of_any.push(at),
            }
        }
        let default = default.and_then(named);
        Assignment { rules: rules.to_vec(), of_any, of_sites, default, others: classes.len() }
    }

    /// The place of the class among the classes of the file, or behind them all, and the reason.
    pub fn of(&self, asked: &Asked<'_>) -> (usize, Why) {
        let first = |places: &[usize]| places.iter().copied().find(|at| self.rules[*at].matches(asked));
        let (own, class) = self.of_sites.get(asked.site).map_or((&[][..], None), |(own, class)| (own, *class));
        let rule = first(own).into_iter().chain(first(&self.of_any)).min();
        match (rule, class, self.default) {
            (Some(at), ..) => (self.rules[at].class, Why::Rule(at)),
            (None, Some(class), _) => (class, Why::Site),
            (None, None, Some(class)) => (class, Why::Default),
            (None, None, None) => (self.others, Why::Nothing),
        }
    }

    /// The class of what is no request of any site.
    pub fn default(&self) -> usize {
        self.default.unwrap_or(self.others)
    }

    /// Whether a rule looks at paths; only then need one be decoded.
    pub fn looks_at_paths(&self) -> bool {
        self.rules.iter().any(|rule| rule.path.is_some())
    }
}
