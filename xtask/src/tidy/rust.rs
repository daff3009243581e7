//! What Rust source may say where: `unsafe`, input and output in pure crates, unfinished code.

use super::source::{Kind, Source, Token};

/// Unsafe is a place: a reviewer of memory safety reads these folders and nothing else.
const UNSAFE_PLACES: &[&str] = &["product/uplink/src/", "product/server/src/sys/", "product/http2/src/ffi/"];

/// Crates that are told facts and asked questions: no files, no sockets, no threads, no clock.
const PURE_PLACES: &[&str] =
    &["core/sched/src/", "core/http/src/", "core/units/src/", "lab/workload/src/", "lab/stats/src/", "lab/theory/src/"];
const IMPURE_MODULES: &[&str] = &["fs", "net", "thread"];
const CLOCKS: &[&str] = &["Instant", "SystemTime"];

const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// How many lines a statement may have before its `unsafe`; the SAFETY comment stands above the statement.
const STATEMENT_LINES_MAX: usize = 6;

pub fn check(source: &Source) -> Vec<String> {
    let mut problems = check_unsafe(source);
    problems.extend(check_unfinished(source));
    if PURE_PLACES.iter().any(|place| source.path.starts_with(place)) {
        problems.extend(check_pure(source));
    }
    problems
}

fn check_unsafe(source: &Source) -> Vec<String> {
    let may_be_unsafe = UNSAFE_PLACES.iter().any(|place| source.path.starts_with(place));
    let mut problems = Vec::new();
    for pair in source.tokens.windows(2).filter(|pair| pair[0].is_word("unsafe")) {
        let place = format!("{}:{}", source.path, pair[0].line);
        let needs_reason = matches!(pair[1].kind, Kind::Open(proc_macro2::Delimiter::Brace)) || pair[1].is_word("impl");
        if !may_be_unsafe {
            problems.push(format!("{place}: `unsafe` stands only in {}; wrap it there", UNSAFE_PLACES.join(", ")));
        } else if needs_reason && !has_safety_comment(&source.lines, pair[0].line) {
            problems
                .push(format!("{place}: `unsafe` without a `// SAFETY:` comment above it that says why it is sound"));
        }
    }
    problems
}

/// Looks at the comment above line `line` (from 1) and above the statement that the line continues.
fn has_safety_comment(lines: &[String], line: usize) -> bool {
    let mut above = lines[..line - 1].iter().rev().map(|text| text.trim());
    let mut statement_lines = 0;
    while let Some(text) = above.next() {
        if text.starts_with("//") {
            return text.contains("SAFETY:")
                || above.take_while(|t| t.starts_with("//")).any(|t| t.contains("SAFETY:"));
        }
        statement_lines += 1;
        let is_other_statement = text.is_empty() || text.ends_with([';', '{', '}', ',']);
        if (is_other_statement && !text.starts_with("#[")) || statement_lines > STATEMENT_LINES_MAX {
            return false;
        }
    }
    false
}

fn check_unfinished(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    for three in source.tokens.windows(3) {
        let place = || format!("{}:{}", source.path, three[0].line);
        if let Kind::Word(word) = &three[0].kind
            && UNFINISHED_MACROS.contains(&word.as_str())
            && three[1].is_mark('!')
            && matches!(three[2].kind, Kind::Open(_))
        {
            problems.push(format!("{}: `{word}!` is for work in progress; finish it or return an error", place()));
        }
        let is_attribute = three[0].is_mark('#') && three[1].kind == Kind::Open(proc_macro2::Delimiter::Bracket);
        if is_attribute && three[2].is_word("ignore") {
            problems.push(format!(
                "{}: an ignored test is no test; assert today's behaviour, or print SKIPPED for lack of privilege",
                place()
            ));
        }
    }
    problems
}

fn check_pure(source: &Source) -> Vec<String> {
    let code: Vec<&Token> = source.tokens.iter().filter(|token| !token.is_test).collect();
    let mut problems = Vec::new();
    for at in 0..code.len() {
        let Some(what) = impure_at(&code[at..]) else { continue };
        let place = format!("{}:{}", source.path, code[at].line);
        problems.push(format!(
            "{place}: `{what}` in a pure crate; let the caller do it and pass in the outcome (address types: core::net)"
        ));
    }
    problems
}

/// The forbidden path that begins here, if one does: `std::fs`, `std::{.., fs, ..}`, `Instant::now`.
fn impure_at(code: &[&Token]) -> Option<String> {
    let Kind::Word(first) = &code[0].kind else { return None };
    let (a, b, next) = (code.get(1)?, code.get(2)?, code.get(3)?);
    if !(a.is_mark(':') && b.is_mark(':')) {
        return None;
    }
    match &next.kind {
        Kind::Word(second) if first == "std" && IMPURE_MODULES.contains(&second.as_str()) => {
            Some(format!("std::{second}"))
        }
        Kind::Word(second) if CLOCKS.contains(&first.as_str()) && second == "now" => Some(format!("{first}::now")),
        Kind::Open(_) if first == "std" => impure_branch(&code[3..]).map(|module| format!("std::{module}")),
        _ => None,
    }
}

/// The first forbidden module among the branches of a `{a, b::{c}, d}` that begins with its brace.
fn impure_branch(tree: &[&Token]) -> Option<&'static str> {
    let mut depth = 0_usize;
    for pair in tree.windows(2) {
        match pair[0].kind {
            Kind::Open(_) => depth += 1,
            Kind::Close(_) => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let begins_branch = depth == 1 && (pair[0].is_mark(',') || matches!(pair[0].kind, Kind::Open(_)));
        let module = IMPURE_MODULES.iter().find(|module| pair[1].is_word(module));
        if depth == 0 || (begins_branch && module.is_some()) {
            return module.copied().filter(|_| depth > 0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `text` as the file `path`; each problem shortened to its line and its first quoted word.
    fn found(path: &str, text: &str) -> Vec<String> {
        let problems = check(&Source::parse(path, text).unwrap());
        let short = |p: &String| {
            let line = p.strip_prefix(path).and_then(|rest| rest.split(':').nth(1)).unwrap_or("?");
            let word = p.split('`').nth(1).unwrap_or("attribute");
            format!("{line} {word}")
        };
        problems.iter().map(short).collect()
    }

    #[test]
    fn unsafe_only_in_its_places() {
        let text = "// SAFETY: none\nfn a() { unsafe { b() } }\nm!(unsafe { c() });\n";
        assert_eq!(found("core/http/src/a.rs", text), ["2 unsafe", "3 unsafe"]);
        assert_eq!(found("product/server/src/a.rs", "unsafe impl Send for A {}"), ["1 unsafe"]);
        assert_eq!(found("core/http/src/a.rs", "// unsafe\nconst A: &str = \"unsafe\";\n"), [""; 0]);
    }

    #[test]
    fn unsafe_needs_its_reason() {
        let path = "product/uplink/src/a.rs";
        for good in [
            "// SAFETY: x\nunsafe { b() }",
            "// SAFETY: x\n// and y\nlet c =\n    unsafe { b() };",
            "// SAFETY: x\n#[inline]\nunsafe impl A for B {}",
            "unsafe fn a() {}",
        ] {
            assert_eq!(found(path, good), [""; 0], "{good}");
        }
        for bad in [
            "let a = 1;\nunsafe { b() }",
            "// why\nunsafe { b() }",
            "// SAFETY: x\nlet a = 1;\nunsafe { b() }",
            "unsafe impl A for B {}",
        ] {
            assert_eq!(found(path, bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn pure_crates_touch_nothing() {
        for (text, what) in [
            ("use std::fs;", "std::fs"),
            ("use std::fs::File;", "std::fs"),
            ("use std::{fmt, net::{Ipv4Addr}};", "std::net"),
            ("use std::{collections::{a, b}, thread};", "std::thread"),
            ("fn a() { let t = std::time::Instant::now(); }", "Instant::now"),
            ("fn a() { m!(SystemTime::now()) }", "SystemTime::now"),
        ] {
            assert_eq!(found("core/sched/src/a.rs", text), [format!("1 {what}")], "{text}");
            assert_eq!(found("product/server/src/a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn pure_crates_may_do_the_rest() {
        for text in [
            "use std::{fmt, collections::{fs, net}};",
            "use crate::fs;",
            "/// Reads no std::fs.\nconst A: &str = \"std::fs\";",
            "#[cfg(test)]\nmod tests { use std::fs; }",
        ] {
            assert_eq!(found("core/units/src/a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unfinished_code_is_found() {
        let text = "fn a() { todo!() }\nfn b() { dbg!(1); }\nfn todo() { unimplemented!(\"x\") }\n";
        assert_eq!(found("a.rs", text), ["1 todo!", "2 dbg!", "3 unimplemented!"]);
        assert_eq!(found("a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() { let ignore = !todo; }\n").len(), 1);
    }
}
