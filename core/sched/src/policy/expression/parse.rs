//! Parsing of expressions.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = value { ("*" | "/") value }
//! value   = NUMBER [UNIT] | NAME | NAME "(" sum { "," sum } ")" | "(" sum ")"
//! ```
//!
//! A unit is that of a size, a time or a rate, written as in the configuration (`64KB`, `50ms`, `10mbit`).

use std::str::FromStr;

use super::{DEPTH_MAX, Expression, Fact, OPS_MAX, Op, RouteIndex, TEXT_MAX, Traits};

/// Policies that can be written as expressions: names and expressions. A name may be used within another expression.
pub const LIBRARY: &[(&str, &str)] = &[
    ("fcfs", "0"),
    ("srpt", "left"),
    ("psjf", "size"),
    ("las", "sent"),
    ("srrt", "rtt * (1 + left / window)"),
    ("gittins", "gittins(route, sent)"),
    ("mserpt", "mserpt(route, sent)"),
];

const FACTS: &[(&str, Fact, Kind, Motion)] = &[
    ("size", Fact::Size, Kind::Bytes, Motion::NONE),
    ("left", Fact::Left, Kind::Bytes, Motion::FALLS),
    ("sent", Fact::Sent, Kind::Bytes, Motion::RISES),
    ("arrived", Fact::Arrived, Kind::Other, Motion::NONE),
    ("class", Fact::Class, Kind::Number, Motion::NONE),
    ("rtt", Fact::Rtt, Kind::Other, Motion::NONE),
    ("window", Fact::Window, Kind::Bytes, Motion::NONE),
    ("throughput", Fact::Throughput, Kind::Other, Motion::NONE),
];

const FUNCTIONS: &[(&str, Op)] = &[
    ("min", Op::Min),
    ("max", Op::Max),
    ("step", Op::Step),
    ("noisy", Op::Noisy),
    ("floor", Op::Floor),
    ("log2", Op::Log2),
];

const INDICES: &[(&str, RouteIndex)] = &[("gittins", RouteIndex::Gittins), ("mserpt", RouteIndex::MSerpt)];

const VALUES: &str = "write a number or one of size, left, sent, arrived, class, rtt, window, throughput";

/// The reason why an expression is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rank `{text}`, column {column}: {said}")]
pub struct RankError {
    pub text: String,
    /// In characters, from 1.
    pub column: usize,
    /// The correction: the accepted form.
    pub said: String,
}

/// The dimension of a value; it decides whether a rank is a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Bytes,
    Other,
}

/// The change of a value while its job is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Motion {
    can_fall: bool,
    can_rise: bool,
}

impl Motion {
    const NONE: Motion = Motion { can_fall: false, can_rise: false };
    const FALLS: Motion = Motion { can_fall: true, can_rise: false };
    const RISES: Motion = Motion { can_fall: false, can_rise: true };

    fn and(self, other: Motion) -> Motion {
        Motion { can_fall: self.can_fall || other.can_fall, can_rise: self.can_rise || other.can_rise }
    }

    fn turned(self) -> Motion {
        Motion { can_fall: self.can_rise, can_rise: self.can_fall }
    }
}

/// The dimension and the motion of a value on the stack, derived before there are jobs.
type Shape = (Kind, Motion);

impl FromStr for Expression {
    type Err = RankError;

    fn from_str(text: &str) -> Result<Expression, RankError> {
        let text = text.trim();
        if text.chars().count() > TEXT_MAX {
            let text: String = text.chars().take(TEXT_MAX).collect();
            let said = format!("the expression goes on beyond {TEXT_MAX} characters, the maximum: write a shorter one");
            return Err(RankError { text, column: TEXT_MAX + 1, said });
        }
        let mut parser = Parser::new(text);
        parser.sum(0)?;
        if parser.at < text.len() {
            return Err(parser.wrong(parser.at, "write an operator, + - * /, or nothing"));
        }
        Ok(Expression {
            spec: format!("rank:{text}").into(),
            traits: parser.traits(),
            program: parser.program.into(),
            unit_bytes: 1.0,
            curve: None,
        })
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The offset of the next byte.
    at: usize,
    program: Vec<Op>,
    stack: Vec<Shape>,
    index: Option<RouteIndex>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        let mut parser = Parser { text, at: 0, program: Vec::new(), stack: Vec::new(), index: None };
        parser.skip_blanks();
        parser
    }

    fn traits(&self) -> Traits {
        let (kind, motion) = self.stack[0];
        let has = |facts: &[Fact]| self.program.iter().any(|op| matches!(op, Op::Fact(fact) if facts.contains(fact)));
        let knows_size = has(&[Fact::Size, Fact::Left]);
        Traits {
            is_size: kind == Kind::Bytes && (knows_size || has(&[Fact::Route])),
            needs_path: has(&[Fact::Rtt, Fact::Window, Fact::Throughput]),
            knows_size,
            takes_turns: motion.can_rise,
            index: self.index,
        }
    }

    fn wrong(&self, at: usize, said: impl Into<String>) -> RankError {
        RankError { text: self.text.into(), column: self.text[..at].chars().count() + 1, said: said.into() }
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    /// Takes the next character if it is one of these.
    fn take(&mut self, those: &[char]) -> Option<char> {
        let next = self.text[self.at..].chars().next().filter(|next| those.contains(next))?;
        self.at += next.len_utf8();
        self.skip_blanks();
        Some(next)
    }

    fn expect(&mut self, wanted: char, why: &str) -> Result<(), RankError> {
        self.take(&[wanted]).map(drop).ok_or_else(|| self.wrong(self.at, format!("write `{wanted}` {why}")))
    }

    /// Takes the letters, digits and points that come next.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let is_part = |next: char| next.is_ascii_alphanumeric() || next == '.' || next == '_';
        let word = &rest[..rest.find(|next| !is_part(next)).unwrap_or(rest.len())];
        self.at += word.len();
        self.skip_blanks();
        word
    }

    fn emit(&mut self, at: usize, op: Op, shape: Shape) -> Result<(), RankError> {
        if self.program.len() == OPS_MAX {
            return Err(self.wrong(at, format!("write {OPS_MAX} values and operators at most")));
        }
        self.stack.truncate(self.stack.len() - op.operands());
        if self.stack.len() == DEPTH_MAX {
            return Err(
                self.wrong(at, format!("write fewer brackets: {DEPTH_MAX} values at most wait for an operator"))
            );
        }
        self.program.push(op);
        self.stack.push(shape);
        Ok(())
    }

    /// Emits an operator, whose operands are on the stack.
    fn apply(&mut self, at: usize, op: Op) -> Result<(), RankError> {
        let operands = &self.stack[self.stack.len() - op.operands()..];
        self.emit(at, op, shape_of(op, operands))
    }

    fn sum(&mut self, depth: usize) -> Result<(), RankError> {
        self.product(depth)?;
        loop {
            let at = self.at;
            let Some(sign) = self.take(&['+', '-']) else { return Ok(()) };
            self.product(depth)?;
            self.apply(at, if sign == '+' { Op::Add } else { Op::Subtract })?;
        }
    }

    fn product(&mut self, depth: usize) -> Result<(), RankError> {
        self.value(depth)?;
        loop {
            let at = self.at;
            let Some(sign) = self.take(&['*', '/']) else { return Ok(()) };
            self.value(depth)?;
            self.apply(at, if sign == '*' { Op::Multiply } else { Op::Divide })?;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), RankError> {
        let at = self.at;
        if depth > DEPTH_MAX {
            return Err(self.wrong(at, format!("write {DEPTH_MAX} brackets within brackets at most")));
        }
        if self.take(&['(']).is_some() {
            self.sum(depth + 1)?;
            return self.expect(')', "at the end of the bracket");
        }
        let word = self.word();
        match word.chars().next() {
            None => Err(self.wrong(at, VALUES)),
            Some(first) if first.is_ascii_digit() || first == '.' => {
                let (number, kind) = number(word).ok_or_else(|| self.wrong(at, no_number(word)))?;
                self.emit(at, Op::Number(number), (kind, Motion::NONE))
            }
            Some(_) => self.named(at, word, depth),
        }
    }

    fn named(&mut self, at: usize, word: &str, depth: usize) -> Result<(), RankError> {
        if let Some((_, fact, kind, motion)) = FACTS.iter().find(|(name, ..)| *name == word) {
            return self.emit(at, Op::Fact(*fact), (*kind, *motion));
        }
        let is_call = self.text[self.at..].starts_with('(');
        if let (true, Some((_, index))) = (is_call, INDICES.iter().find(|(name, _)| *name == word)) {
            return self.route(at, *index);
        }
        if let (true, Some((_, op))) = (is_call, FUNCTIONS.iter().find(|(name, _)| *name == word)) {
            return self.call(at, word, *op, depth);
        }
        if let (false, Some((_, meaning))) = (is_call, LIBRARY.iter().find(|(name, _)| *name == word)) {
            return self.entry(at, meaning, depth);
        }
        Err(self.wrong(at, unknown(word)))
    }

    /// Parses the expression of a library entry, which contains only facts and functions.
    fn entry(&mut self, at: usize, meaning: &'static str, depth: usize) -> Result<(), RankError> {
        let mut within = Parser::new(meaning);
        (within.program, within.stack) = (std::mem::take(&mut self.program), std::mem::take(&mut self.stack));
        within.index = self.index;
        let parsed = within.sum(depth);
        (self.program, self.stack, self.index) = (within.program, within.stack, within.index);
        parsed.map_err(|error| self.wrong(at, error.said))
    }

    fn call(&mut self, at: usize, word: &str, op: Op, depth: usize) -> Result<(), RankError> {
        self.expect('(', "and the values of the function")?;
        for operand in 0..op.operands() {
            if operand > 0 {
                self.expect(',', &format!("and a second value: {word} takes two"))?;
            }
            self.sum(depth + 1)?;
        }
        self.expect(')', &format!("at the end of the values of {word}"))?;
        self.apply(at, op)
    }

    /// Parses `(route, sent)`, the arguments of an index.
    fn route(&mut self, at: usize, index: RouteIndex) -> Result<(), RankError> {
        let name = INDICES.iter().find(|(_, of)| *of == index).map_or("", |(name, _)| name);
        self.expect('(', "and what it is a function of")?;
        for (wanted, end) in [("route", ','), ("sent", ')')] {
            let at = self.at;
            let is_it = self.word() == wanted && self.take(&[end]).is_some();
            if !is_it {
                return Err(self.wrong(at, format!("write {name}(route, sent)")));
            }
        }
        if self.index.is_some_and(|other| other != index) {
            return Err(self.wrong(at, "write one of gittins and mserpt, not both"));
        }
        self.index = Some(index);
        self.emit(at, Op::Fact(Fact::Route), (Kind::Bytes, Motion::FALLS.and(Motion::RISES)))
    }
}

fn shape_of(op: Op, operands: &[Shape]) -> Shape {
    let ((kind, motion), second) = (operands[0], operands.get(1).copied());
    let Some((of, by)) = second else {
        return (if op == Op::Floor { kind } else { Kind::Other }, motion);
    };
    let kind = match (op, kind, of) {
        (Op::Step, ..) => Kind::Number,
        (Op::Noisy, kind, _) => kind,
        (Op::Multiply, Kind::Number, kind) | (Op::Multiply | Op::Divide, kind, Kind::Number) => kind,
        (Op::Divide, Kind::Bytes, Kind::Bytes) => Kind::Number,
        (Op::Multiply | Op::Divide, ..) => Kind::Other,
        (_, kind, of) if kind == of => kind,
        _ => Kind::Other,
    };
    let motion = match op {
        Op::Subtract | Op::Divide | Op::Step => motion.and(by.turned()),
        Op::Noisy => motion.and(by).and(by.turned()),
        _ => motion.and(by),
    };
    (kind, motion)
}

/// Parses a number, or a quantity in bytes, seconds or bytes per second.
fn number(word: &str) -> Option<(f64, Kind)> {
    if let Ok(number) = word.parse::<f64>() {
        return Some((number, Kind::Number)).filter(|_| number.is_finite());
    }
    if let Ok(bytes) = units::parse_size(word) {
        return Some((bytes as f64, Kind::Bytes));
    }
    if let Ok(time) = units::parse_duration(word) {
        return Some((time.as_secs_f64(), Kind::Other));
    }
    let rate: units::Rate = word.parse().ok()?;
    Some((rate.bits_per_s() as f64 / 8.0, Kind::Other))
}

fn no_number(word: &str) -> String {
    format!("`{word}` is not a number: write one such as 1.5, 64KB, 50ms or 10mbit")
}

fn unknown(word: &str) -> String {
    let is_function = FUNCTIONS.iter().any(|(name, _)| *name == word);
    match word {
        "age" => "`age` grows while a response waits, and the order is kept meanwhile: write arrived".into(),
        "route" => "`route` is of gittins(route, sent) and mserpt(route, sent)".into(),
        _ if is_function => format!("write {word} and its values in brackets"),
        _ => {
            let functions: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            format!("unknown name `{word}`: {VALUES}, or a function: {}, gittins, mserpt", functions.join(", "))
        }
    }
}
