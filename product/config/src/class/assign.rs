//! Assigns a class to a request: that of the first rule that the request matches, or else its site's class, or else the
//! default.

use super::{Asked, Class, Rule, by_name};
use crate::Site;
use crate::place::Placed;

/// The reason why a request has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A rule decides; this is its index among all rules.
    Rule(usize),
    Site,
    /// The default decides: `uplink.default_class`.
    Default,
    /// Nothing decides: there is no rule, site or default, and the class is [`super::OTHERS`].
    Nothing,
}

/// Assigns classes to requests. Only the rules of a request's site and the rules for all sites are tried, however many
/// sites there are.
#[derive(Debug, Clone, Default)]
pub struct Assignment {
    /// All rules, in the order of the file.
    rules: Vec<Rule>,
    /// The indices of the rules for all sites.
    of_any: Vec<usize>,
    /// For each site, the indices of its rules and the index of its class.
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

    /// Returns the index of the class among the classes of the file, or one past the last for [`super::OTHERS`], and
    /// the reason.
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

    /// The class of requests that belong to no site, or whose path cannot be decoded.
    pub fn default(&self) -> usize {
        self.default.unwrap_or(self.others)
    }

    /// Returns whether any rule has a path. Only then must paths be decoded.
    pub fn looks_at_paths(&self) -> bool {
        self.rules.iter().any(|rule| rule.path.is_some())
    }
}
