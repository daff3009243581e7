//! Doc comments that open with a bare function word ("Whose turn it is.") give no subject: a reader has to guess what the thing is.
//!
//! Counted as the share of the doc comments that open with a word. Some are good English, so a share is allowed: quinn has 5.5 %,
//! ripgrep 4.3 %.

use super::source::{self, Source};

/// Where comments are counted.
const FOLDERS: [&str; 3] = ["core/", "lab/", "product/"];
const PERCENT_MAX: usize = 6;
/// How many places the message lists.
const PLACES_MAX: usize = 20;

const WORDS: &[&str] = &[
    "Of",
    "That",
    "This",
    "It",
    "Whose",
    "What",
    "Who",
    "So",
    "Those",
    "Nobody",
    "Nothing",
    "Its",
    "As",
    "By",
    "With",
    "Without",
    "Where",
    "None",
    "One",
    "Such",
    "How",
    "Why",
    "Whether",
    "Something",
    "Somebody",
    "Whoever",
    "Anybody",
    "More",
    "Less",
    "Most",
    "Least",
];

/// Doc comments that open with a word, and the places of those that open with one of [`WORDS`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Openers {
    comments: usize,
    places: Vec<String>,
}

pub fn measure(sources: &[Source]) -> Openers {
    let mut openers = Openers::default();
    let is_counted = |source: &&&Source| FOLDERS.iter().any(|folder| source.path.starts_with(folder));
    for source in source::built(sources).iter().filter(is_counted) {
        for (line, word) in opening_words(source) {
            openers.comments += 1;
            if WORDS.contains(&word) {
                openers.places.push(format!("{}:{line} `{word}`", source.path));
            }
        }
    }
    openers
}

/// The first word of each `///` comment that is not of tests, with its line.
fn opening_words(source: &Source) -> Vec<(usize, &str)> {
    let text = |line: usize| source.lines.get(line.checked_sub(1)?)?.trim_start().strip_prefix("///");
    let is_doc = |at: usize| {
        let follows = |more: usize, word: &str| source.tokens.get(at + more).is_some_and(|token| token.is_word(word));
        source.tokens[at].is_mark('#') && !source.tokens[at].is_test && follows(2, "doc")
    };
    let comments = (0..source.tokens.len()).filter(|at| is_doc(*at)).map(|at| source.tokens[at].line);
    let first_lines = comments.filter(|line| text(line - 1).is_none());
    first_lines.filter_map(|line| Some((line, first_word(text(line)?)?))).collect()
}

/// The word that a comment's text opens with; `None` for a code span, a link or an empty line.
fn first_word(text: &str) -> Option<&str> {
    let text = text.strip_prefix(char::is_whitespace)?.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(&text[..end]).filter(|word| !word.is_empty())
}

pub fn check(openers: &Openers) -> Vec<String> {
    let Openers { comments, places } = openers;
    if places.len() * 100 <= comments * PERCENT_MAX {
        return Vec::new();
    }
    let listed: Vec<String> = places.iter().take(PLACES_MAX).map(|place| format!("\n  {place}")).collect();
    let tenths = (places.len() * 1000).div_ceil(*comments);
    vec![format!(
        "{}: {} of {comments} doc comments ({}.{} %) open with a bare function word, at most {PERCENT_MAX} %; open with the noun or the verb; the first {}:{}",
        FOLDERS.join(", "),
        places.len(),
        tenths / 10,
        tenths % 10,
        listed.len(),
        listed.concat()
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str, text: &str) -> (usize, Vec<String>) {
        let openers = measure(&[Source::parse(path, text).unwrap()]);
        (openers.comments, openers.places)
    }

    #[test]
    fn the_first_word_of_each_comment_counts() {
        let text = "/// Whose turn it is.\nstruct A {\n    /// The number.\n    /// What follows is no opener.\n    a: u8,\n\n    \
                    /// None: no limit.\n    b: u8,\n}\nmacro_rules! m { () => {\n/// So it is.\nfn f() {} } }\n";
        let places = ["core/a/src/lib.rs:1 `Whose`", "core/a/src/lib.rs:7 `None`", "core/a/src/lib.rs:11 `So`"];
        assert_eq!(measured("core/a/src/lib.rs", text), (4, places.map(String::from).to_vec()));
    }

    #[test]
    fn other_comments_and_those_of_tests_do_not_count() {
        for text in [
            "//! What this is.\n// What it does.\nfn a() {}\n",
            "/// `None` is a code span.\nfn a() {}\n/// [`What`] too.\nfn b() {}\n",
            "const A: &str = \"\n/// What a string has.\n\";\n",
            "#[cfg(test)]\nmod tests {\n/// What a test has.\nfn a() {} }\n",
        ] {
            assert_eq!(measured("core/a/src/lib.rs", text), (0, vec![]), "{text}");
        }
        let text = "/// What a test has.\nfn a() {}\n";
        for path in ["core/a/tests/a.rs", "core/a/src/a_tests.rs", "product/a/src/testing.rs", "xtask/src/main.rs"] {
            assert_eq!(measured(path, text), (0, vec![]), "{path}");
        }
        assert_eq!(measured("core/a/src/lib.rs", "/// Whatever else.\nfn a() {}\n"), (1, vec![]));
    }

    #[test]
    fn six_percent_are_allowed() {
        let openers = |count: usize| Openers { comments: 500, places: (1..=count).map(|n| format!("a:{n}")).collect() };
        assert_eq!(check(&Openers::default()), [""; 0]);
        assert_eq!(check(&openers(30)), [""; 0]);
        let problems = check(&openers(31));
        assert!(problems.len() == 1 && problems[0].contains("31 of 500 doc comments (6.2 %)"), "{problems:?}");
        assert!(problems[0].contains("the first 20:\n  a:1\n") && problems[0].ends_with("\n  a:20"), "{problems:?}");
    }
}
