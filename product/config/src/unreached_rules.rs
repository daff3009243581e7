//! Checks lists of rules in which the first match decides: finds rules that are never reached, and pairs that compete.

use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Book;

/// The maximum number of rules. Every rule is compared with all rules before it.
pub(crate) const RULES_MAX: usize = 1000;

/// A rule in a list in which the first match decides.
pub(crate) trait Rule {
    /// The path of the table, for messages: `class.rule`.
    const NOUN: &'static str;
    /// True if paths that no rule matches are open to everybody.
    const IS_PROTECTION: bool = false;

    fn at(&self) -> Place;
    /// The pattern of paths, if the rule has one.
    fn path(&self) -> Option<&Pattern>;
    /// Returns whether this matches every request that the other matches.
    fn covers(&self, other: &Self) -> bool;
    /// Returns whether some requests match both rules, neither covers the other, and their order makes a difference.
    fn competes(&self, other: &Self) -> bool;
}

/// Notes a rule for a single path that other servers would apply to all paths below it, as in nginx's `location
/// /admin/`.
fn check_below<R: Rule>(book: &Book<'_>, rule: &R, rules: &[R]) {
    let Some(path) = rule.path().filter(|path| path.stars() == 0) else { return };
    let path = path.to_string();
    let (is_folder, below) = (path.ends_with('/'), format!("{}/*", path.trim_end_matches('/')));
    if R::IS_PROTECTION && is_folder {
        let said = format!("{} for `{path}`: all paths below it stay open; expected `{below}`", R::NOUN);
        book.mistake(rule.at(), said);
    } else if is_folder && path != "/" {
        book.note(rule.at(), format!("{} for `{path}`: this path only; `{below}` is everything below it", R::NOUN));
    } else if R::IS_PROTECTION && !path.rsplit('/').next().is_some_and(|name| name.contains('.')) {
        let one_below = format!("{path}/x");
        let has_below = rules.iter().filter_map(Rule::path).any(|own| own.matches(one_below.as_bytes()));
        if !has_below {
            book.note(rule.at(), format!("{} for `{path}`: this path only; `{below}` stays open", R::NOUN));
        }
    }
}

/// Reports every rule that is never reached, and notes every pair that competes.
pub(crate) fn check<R: Rule>(book: &Book<'_>, rules: &[R]) {
    if let Some(rule) = rules.get(RULES_MAX) {
        book.mistake(rule.at(), format!("{} {}: expected {RULES_MAX} at most", R::NOUN, RULES_MAX + 1));
        return;
    }
    for (index, rule) in rules.iter().enumerate() {
        if let Some((path, why)) = rule.path().and_then(|path| Some((path, path.why_odd()?))) {
            book.note(rule.at(), format!("{} for `{path}`: {why}", R::NOUN));
        } else {
            check_below(book, rule, rules);
        }
        let before = &rules[..index];
        if let Some(first) = before.iter().find(|first| first.covers(rule)) {
            let said = format!(
                "{} is never reached: expected before the table of {}, which matches all of it",
                R::NOUN,
                book.line(first.at(), rule.at())
            );
            book.mistake(rule.at(), said);
        } else if let Some(first) = before.iter().find(|first| first.competes(rule) && !rule.covers(first)) {
            let line = book.line(first.at(), rule.at());
            let said = format!("{} overlaps that of {line}, which wins where both match", R::NOUN);
            book.note(rule.at(), said);
        }
    }
}
