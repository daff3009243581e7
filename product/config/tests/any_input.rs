//! No input panics, and every answer has a place within the file.

use config::read;
use proptest::prelude::*;

const EXAMPLES: [&str; 4] = [
    include_str!("../../../examples/small-site.toml"),
    include_str!("../../../examples/several-sites.toml"),
    include_str!("../../../examples/hoster.toml"),
    include_str!("../../../examples/proxy.toml"),
];

/// Words that a user may write anywhere, on purpose or by mistake.
const PIECES: &[&str] = &[
    "[[class.rule]]\n",
    "[[site]]\n",
    "[site]\n",
    "= ",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ".",
    "\n",
    "\r\n",
    "-1",
    "0",
    "99999999999999999999",
    "1.5",
    "true",
    "*",
    "/*",
    "ä",
    "\0",
    "\u{FEFF}",
    "path = \"/*\"\n",
    "weight = 0\n",
    "#",
    "0x1F",
    "1979-05-27",
    "[]",
    "{a = 1}",
    "min_rate = \"1tbit\"\n",
    "10.0.0.0/8",
    "from_host = 'a'\n",
];

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    if let Err(mistakes) = read(bytes) {
        prop_assert!(!mistakes.is_empty());
        for mistake in mistakes {
            prop_assert!(mistake.at.line >= 1 && mistake.at.line <= lines && mistake.at.column >= 1);
            prop_assert!(!mistake.said.contains('\n'), "{}", mistake.said);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes)?;
    }

    #[test]
    fn text(text in "\\PC{0,200}") {
        check(text.as_bytes())?;
    }

    #[test]
    fn a_right_file_with_changes(
        example in prop::sample::select(&EXAMPLES[..]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..20usize, prop::sample::select(PIECES)), 1..6),
    ) {
        let mut bytes = example.as_bytes().to_vec();
        for (at, removed, piece) in edits {
            let at = at.index(bytes.len() + 1);
            let end = bytes.len().min(at + removed);
            bytes.splice(at..end, piece.bytes());
        }
        check(&bytes)?;
    }

    /// Values of one key under another have a wrong type or form, but cause no panic.
    #[test]
    fn right_lines_in_any_order(lines in Just(EXAMPLES.concat()).prop_map(|text| text.lines().map(String::from).collect::<Vec<_>>()).prop_shuffle()) {
        let distinct: Vec<String> = lines.into_iter().take(40).collect();
        check(distinct.join("\n").as_bytes())?;
    }

    #[test]
    fn a_right_file_cut_anywhere(example in prop::sample::select(&EXAMPLES[..]), at in any::<prop::sample::Index>()) {
        check(&example.as_bytes()[..at.index(example.len() + 1)])?;
    }
}
