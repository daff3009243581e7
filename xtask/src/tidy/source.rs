//! A Rust file as a flat list of tokens that know their line and whether they are test code.
//!
//! Tokens are enough: every rule here is about a word in a place. They also see inside macros, which a syntax tree
//! does not, and never mistake a comment or a string for code, which a search by line does.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One token; a group is an `Open`, its content, and a `Close`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    Mark(char),
    Literal,
    Open(Delimiter),
    Close(Delimiter),
}

#[derive(Debug, Clone)]
pub struct Token {
    pub kind: Kind,
    /// Counted from 1.
    pub line: usize,
    /// Inside an item under `#[cfg(test)]`, or in a file that only tests see.
    pub is_test: bool,
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Word(w) if w == word)
    }

    pub fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

pub struct Source {
    /// Relative to the workspace, with `/`.
    pub path: String,
    pub lines: Vec<String>,
    pub tokens: Vec<Token>,
}

/// A function with a body and how many lines it has, from `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub line: usize,
    pub line_count: usize,
}

impl Source {
    pub fn parse(path: &str, text: &str) -> Result<Source, String> {
        let stream: TokenStream = text.parse().map_err(|e| format!("{path}: this is not Rust: {e}"))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let is_test_file = ["/tests.rs", "_tests.rs"].iter().any(|end| path.ends_with(end))
            || path.split('/').any(|part| part == "tests" || part == "benches");
        if is_test_file {
            tokens.iter_mut().for_each(|token| token.is_test = true);
        } else {
            mark_tests(&mut tokens);
        }
        Ok(Source { path: path.into(), lines: text.lines().map(str::to_owned).collect(), tokens })
    }

    /// Lines of the file that are not in test code.
    pub fn line_count(&self) -> usize {
        let mut in_test: Vec<bool> = vec![false; self.lines.len() + 1];
        let mut tokens = self.tokens.iter().peekable();
        while let Some(first) = tokens.next() {
            let mut last = first;
            while first.is_test && tokens.peek().is_some_and(|next| next.is_test) {
                last = tokens.next().unwrap_or(last);
            }
            if first.is_test {
                in_test[first.line..=last.line].fill(true);
            }
        }
        self.lines.len() - in_test.iter().filter(|&&is_test| is_test).count()
    }

    /// Every function with a body, also those in `impl` blocks, in macros and inside other functions.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, pair) in self.tokens.windows(2).enumerate() {
            let (true, Kind::Word(name)) = (pair[0].is_word("fn"), &pair[1].kind) else { continue };
            if let Some(end) = item_end(&self.tokens, at).filter(|&end| !self.tokens[end].is_mark(';')) {
                let line = pair[0].line;
                let line_count = self.tokens[end].line - line + 1;
                found.push(Function { name: name.clone(), line, line_count });
            }
        }
        found
    }
}

/// The sources that are not for tests: all but modules declared under `#[cfg(test)]` and `testing`, which the tests of other crates use.
/// Tokens of the rest may still be of tests.
pub fn built(sources: &[Source]) -> Vec<&Source> {
    let of_tests: Vec<String> = sources.iter().flat_map(test_modules).collect();
    let is_test = |path: &str| {
        path.split('/').any(|part| part.trim_end_matches(".rs") == "testing")
            || of_tests.iter().any(|module| is_within(path, module))
    };
    sources.iter().filter(|source| !is_test(&source.path)).collect()
}

/// The modules in files of their own that are declared for tests alone, as paths without an ending.
fn test_modules(source: &Source) -> Vec<String> {
    let stem = source.path.trim_end_matches(".rs");
    let folder = match stem.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder,
        _ => stem,
    };
    let declared = |tokens: &[Token]| match (&tokens[0], &tokens[1].kind, &tokens[2]) {
        (word, Kind::Word(name), end) if word.is_test && word.is_word("mod") && end.is_mark(';') => {
            Some(format!("{folder}/{name}"))
        }
        _ => None,
    };
    source.tokens.windows(3).filter_map(declared).collect()
}

/// Of a file and a module.
fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        let (kind, line) = match &tree {
            TokenTree::Ident(word) => (Kind::Word(word.to_string()), word.span().start().line),
            TokenTree::Punct(mark) => (Kind::Mark(mark.as_char()), mark.span().start().line),
            TokenTree::Literal(literal) => (Kind::Literal, literal.span().start().line),
            TokenTree::Group(group) => (Kind::Open(group.delimiter()), group.span_open().start().line),
        };
        into.push(Token { kind, line, is_test: false });
        if let TokenTree::Group(group) = tree {
            flatten(group.stream(), into);
            let line = group.span_close().end().line;
            into.push(Token { kind: Kind::Close(group.delimiter()), line, is_test: false });
        }
    }
}

/// Marks every item under `#[cfg(test)]`, from the `#` to the item's end.
fn mark_tests(tokens: &mut [Token]) {
    let is_cfg_test = |at: &[Token]| {
        at[0].is_mark('#')
            && at[1].kind == Kind::Open(Delimiter::Bracket)
            && at[2].is_word("cfg")
            && at[4].is_word("test")
            && at[5].kind == Kind::Close(Delimiter::Parenthesis)
    };
    let starts: Vec<usize> =
        (0..tokens.len().saturating_sub(6)).filter(|&at| is_cfg_test(&tokens[at..at + 7])).collect();
    for start in starts {
        let end = item_end(tokens, start).unwrap_or(tokens.len() - 1);
        tokens[start..=end].iter_mut().for_each(|token| token.is_test = true);
    }
}

/// Where the item that begins at `start` ends: its `;`, or the brace that closes its body.
fn item_end(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.kind {
            Kind::Open(_) => depth += 1,
            Kind::Close(delimiter) => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && delimiter == Delimiter::Brace {
                    return Some(at);
                }
            }
            Kind::Mark(';') if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(text: &str) -> Vec<(String, usize)> {
        let source = Source::parse("a.rs", text).unwrap();
        source.functions().into_iter().map(|f| (f.name, f.line_count)).collect()
    }

    #[test]
    fn functions_are_found_wherever_they_stand() {
        let text =
            "impl A {\n fn a(&self) -> [u8; 4] {\n  [0; 4]\n }\n}\nm! { fn b() {} }\ntrait T { fn none(&self); }\n";
        assert_eq!(functions(text), [("a".into(), 3), ("b".into(), 1)]);
    }

    #[test]
    fn braces_in_strings_and_comments_do_not_count() {
        assert_eq!(
            functions("fn a() {\n let _ = \"}\"; // }\n let _ = '}';\n}\nfn b() {}\n"),
            [("a".into(), 4), ("b".into(), 1)]
        );
    }

    #[test]
    fn a_type_of_a_function_is_no_function() {
        assert_eq!(functions("type F = fn(u8) -> u8;\nstruct S { f: fn() }\n"), []);
    }

    #[test]
    fn test_items_do_not_count_as_lines() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n fn b() {}\n\n}\n#[cfg(test)]\nuse x;\nfn c() {}\n";
        assert_eq!(Source::parse("a.rs", text).unwrap().line_count(), 3);
        for path in ["a/tests/b.rs", "a/tests.rs", "a/b_tests.rs"] {
            assert_eq!(Source::parse(path, "fn a() {}\nfn b() {}\n").unwrap().line_count(), 0, "{path}");
        }
    }

    #[test]
    fn what_is_not_rust_is_named() {
        assert!(Source::parse("a.rs", "fn a( {").err().unwrap().starts_with("a.rs: this is not Rust"));
    }
}
