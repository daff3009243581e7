//! The clients with the most bytes sent recently, as lines for the operator.

use super::{Client, Clients};
use units::Nanos;

/// The maximum number of clients in the list.
const SHOWN_MAX: usize = 10;
/// The number of entries examined per lock; about 20 µs.
const LOOK_ENTRIES: usize = 4096;

/// A client and its current usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    pub client: Client,
    pub prefix: u128,
    pub connections: u32,
    /// The bytes sent, with a half-life of a minute.
    pub bytes: u64,
    pub refusals: u16,
}

/// An extra column: its heading, and a function that returns its cell for a client.
pub type Column<'a> = (&'a str, &'a dyn Fn(&Busy) -> String);

impl Clients {
    /// Returns the clients that were sent the most bytes, in descending order.
    pub fn busiest(&self, now: Nanos) -> Vec<Busy> {
        self.busiest_with(now, |_| 0)
    }

    /// Works like [`Clients::busiest`], but orders clients without recently sent bytes by their responses in progress.
    /// `responses` returns their number for the index of a client's account.
    pub fn busiest_with(&self, now: Nanos, responses: impl Fn(u32) -> u64) -> Vec<Busy> {
        let mut busiest = Vec::new();
        let mut from = 0;
        while self.look(from, now, &responses, &mut busiest) {
            busiest.sort_by_key(|one: &Busy| std::cmp::Reverse((one.bytes, responses(one.client.index))));
            busiest.truncate(SHOWN_MAX);
            from += LOOK_ENTRIES;
        }
        busiest
    }

    /// Adds the clients from index `from` on. Returns false after the last one.
    fn look(&self, from: usize, now: Nanos, responses: &impl Fn(u32) -> u64, found: &mut Vec<Busy>) -> bool {
        let mut state = self.state();
        let until = state.table.entries().len().min(from + LOOK_ENTRIES);
        for index in from as u32..until as u32 {
            let entry = state.table.entry(index);
            entry.advance(now, self.limits.get().requests_per_s_max);
            let busy = Busy {
                client: Client { index, generation: entry.generation },
                prefix: entry.prefix(),
                connections: entry.connections,
                bytes: entry.bytes as u64,
                refusals: entry.refusals,
            };
            if busy.bytes > 0 || busy.refusals > 0 || busy.connections > 0 && responses(index) > 0 {
                found.push(busy);
            }
        }
        from < until
    }

    /// Formats an address, or a prefix with its length.
    pub fn show(&self, busy: &Busy) -> String {
        self.limits.get().prefix.show(busy.prefix)
    }

    /// Returns a table of the busiest clients, with extra columns.
    pub fn lines(&self, now: Nanos, columns: &[Column]) -> Vec<String> {
        let busiest = self.busiest(now);
        if busiest.is_empty() {
            return vec!["clients: nothing sent lately".to_string()];
        }
        let mut rows = vec![["client", "connections", "bytes", "refusals"].map(str::to_string).to_vec()];
        rows[0].extend(columns.iter().map(|(heading, _)| heading.to_string()));
        for one in &busiest {
            let counts =
                [u64::from(one.connections), one.bytes, u64::from(one.refusals)].map(|count| count.to_string());
            let own = std::iter::once(self.show(one)).chain(counts);
            rows.push(own.chain(columns.iter().map(|(_, cell)| cell(one))).collect());
        }
        let title = "clients by bytes sent lately (a minute ago counts half)".to_string();
        std::iter::once(title).chain(aligned(&rows)).collect()
    }
}

/// Pads columns to their widest cell. The first column is left-aligned; numbers are right-aligned.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let cell = |(column, cell): (usize, &String)| match column {
        0 => format!("{cell:<0$}", widths[0]),
        _ => format!("  {cell:>0$}", widths[column]),
    };
    rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect()
}
