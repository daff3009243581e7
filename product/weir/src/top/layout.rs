//! Lays out text and tables for a screen of a given width. The text comes from elsewhere, including from clients, so
//! control characters are removed.

use crate::status::aligned;

/// Maximum number of characters of a cell.
const CELL_CHARS_MAX: usize = 60;

/// The colour of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Head,
    /// The responses are ordered.
    Good,
    /// A warning that responses are not ordered.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenRow {
    pub text: String,
    pub style: Style,
}

pub enum Block {
    Gap,
    /// Text, wrapped if the screen is narrow.
    Text(String, Style),
    Table(Table),
}

/// A table; the first row is the header.
pub struct Table {
    pub rows: Vec<Vec<String>>,
    /// The columns to leave out on a narrow screen, in this order.
    pub spare: &'static [usize],
}

impl Block {
    fn lines(&self, columns: usize) -> Vec<ScreenRow> {
        match self {
            Block::Gap => vec![ScreenRow { text: String::new(), style: Style::Plain }],
            Block::Text(text, style) => {
                wrapped(&plain(text), columns).into_iter().map(|text| ScreenRow { text, style: *style }).collect()
            }
            Block::Table(table) => table.lines(columns),
        }
    }
}

impl Table {
    fn lines(&self, columns: usize) -> Vec<ScreenRow> {
        let cell = |text: &String| cut(&plain(text), CELL_CHARS_MAX);
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let is_empty = |column: &usize| rows[1..].iter().all(|row| row[*column].is_empty());
        let mut kept: Vec<usize> = (0..rows[0].len()).filter(|column| rows.len() == 1 || !is_empty(column)).collect();
        let of = |kept: &[usize]| -> Vec<String> {
            let row = |row: &Vec<String>| kept.iter().map(|column| row[*column].clone()).collect::<Vec<_>>();
            aligned(&rows.iter().map(row).collect::<Vec<_>>())
        };
        for spare in self.spare {
            if of(&kept).iter().all(|line| line.chars().count() <= columns) {
                break;
            }
            kept.retain(|column| column != spare);
        }
        let style = |nth| if nth == 0 { Style::Head } else { Style::Plain };
        of(&kept).into_iter().enumerate().map(|(nth, text)| ScreenRow { text, style: style(nth) }).collect()
    }
}

/// All lines, for a screen of this width.
pub fn lines(blocks: &[Block], columns: usize) -> Vec<ScreenRow> {
    blocks.iter().flat_map(|block| block.lines(columns)).collect()
}

/// Returns the lines that fit on the screen. The last line explains how to leave, and how many lines are hidden.
pub fn fitted(lines: Vec<ScreenRow>, columns: usize, rows: usize) -> Vec<ScreenRow> {
    let shown = lines.len().min(rows.saturating_sub(1));
    let left = lines.len() - shown;
    let end = if left == 0 { "ctrl-c ends this".into() } else { format!("{left} more lines; ctrl-c ends this") };
    let end = ScreenRow { text: end, style: Style::Plain };
    let cut = |line: ScreenRow| ScreenRow { text: cut(&line.text, columns), ..line };
    lines.into_iter().take(shown).chain([end]).map(cut).collect()
}

/// A line with the control sequences of a terminal.
pub fn painted(line: &ScreenRow, has_colours: bool) -> String {
    let code = match line.style {
        Style::Plain => return line.text.clone(),
        Style::Head => "1",
        Style::Good => "32",
        Style::Warning => "33",
    };
    if has_colours { format!("\x1b[{code}m{}\x1b[0m", line.text) } else { line.text.clone() }
}

/// Removes characters that move the cursor or change the direction of text.
fn plain(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect()
}

fn cut(text: &str, chars: usize) -> String {
    match text.chars().count() > chars {
        true => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_string(),
    }
}

/// Wraps text between words; words that are too long are not broken.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[ScreenRow]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    fn table(rows: &[&[&str]], spare: &'static [usize]) -> Block {
        let row = |row: &&[&str]| row.iter().map(|cell| cell.to_string()).collect();
        Block::Table(Table { rows: rows.iter().map(row).collect(), spare })
    }

    #[test]
    fn a_screen_that_is_too_small_says_so() {
        let all: Vec<ScreenRow> =
            (0..5).map(|at| ScreenRow { text: format!("line {at} of five"), style: Style::Plain }).collect();
        let small = fitted(all.clone(), 9, 4);
        assert_eq!(texts(&small), ["line 0 o…", "line 1 o…", "line 2 o…", "2 more l…"]);
        assert_eq!(texts(&fitted(all, 80, 24)).last(), Some(&"ctrl-c ends this"));
    }

    #[test]
    fn a_narrow_screen_wraps_text_and_does_without_spare_columns() {
        let text = [Block::Text("uplink not found yet: the line was never full".into(), Style::Warning)];
        assert_eq!(texts(&lines(&text, 20)), ["uplink not found", "yet: the line was", "never full"]);
        assert_eq!(texts(&lines(&text, usize::MAX)).len(), 1);
        let table = [table(&[&["left", "of", "client"], &["1 MB", "2 MB", "198.18.0.7"]], &[1, 2])];
        assert_eq!(texts(&lines(&table, 80)), ["left  of    client", "1 MB  2 MB  198.18.0.7"]);
        assert_eq!(texts(&lines(&table, 16)), ["left  client", "1 MB  198.18.0.7"]);
        assert_eq!(texts(&lines(&table, 6)), ["left", "1 MB"]);
    }

    #[test]
    fn a_column_without_a_cell_is_left_out() {
        let table = [table(&[&["site", "class"], &["a", ""], &["b", ""]], &[])];
        assert_eq!(texts(&lines(&table, 80)), ["site", "a", "b"]);
    }

    #[test]
    fn no_control_character_reaches_the_terminal() {
        let hostile = "\x1b]0;title\x07\r\n\u{9b}2J\u{202e}x";
        let blocks = [Block::Text(hostile.into(), Style::Head), table(&[&["site"], &[hostile]], &[])];
        for line in lines(&blocks, 80) {
            assert!(!line.text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{:?}", line.text);
        }
        let long = "x".repeat(10_000);
        assert_eq!(lines(&[table(&[&["site"], &[&long]], &[])], usize::MAX)[1].text.chars().count(), CELL_CHARS_MAX);
    }

    #[test]
    fn colours_are_only_where_they_are_wanted() {
        let head = ScreenRow { text: "site".into(), style: Style::Head };
        assert_eq!((painted(&head, true), painted(&head, false)), ("\x1b[1msite\x1b[0m".into(), "site".into()));
    }
}
