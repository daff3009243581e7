//! Lists of rules in which the first match decides. Finds rules that are never reached and pairs that compete.

use crate::pattern::Pattern;
use crate::place::Place;
use crate::section::Book;

/// Maximum number of rules, since every rule is compared with every one before it.
pub(crate) const RULES_MAX: usize = 1000;

/// A rule of such a list.
pub(crate) trait Rule {
    /// The path of the table, for messages: `class.rule`.
    const NOUN: &'static str;

    fn at(&self) -> Place;
    /// The pattern of paths, if the rule has one.
    fn path(&self) -> Option<&Pattern>;
    /// Returns whether this matches every request that the other matches.
    fn covers(&self, other: &Self) -> bool;
    /// Returns whether both match some request, neither covers the other, and the order makes a difference.
    fn competes(&self, other: &Self) -> bool;
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
        }
        let before = &rules[..index];
        if let Some(first) = before.iter().find(|first| first.covers(rule)) {
            let said = format!(
                "{} is never reached: expected before that of {}, which matches all of it",
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
