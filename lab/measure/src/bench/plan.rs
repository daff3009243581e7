//! The plan of the measurements: the rows of the tables, and the servers in each.

use serde::Serialize;

use super::server::Kind;

/// A file that all servers serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub name: &'static str,
    pub label: &'static str,
    pub size_bytes: u64,
}

pub const KB: Sample = Sample { name: "1k.html", label: "1 KB", size_bytes: 1 << 10 };
pub const KB_100: Sample = Sample { name: "100k.html", label: "100 KB", size_bytes: 100 << 10 };
pub const MB_10: Sample = Sample { name: "10m.html", label: "10 MB", size_bytes: 10 << 20 };
pub const SAMPLES: [Sample; 3] = [KB, KB_100, MB_10];

const CONNECTIONS: [u32; 2] = [64, 1000];

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub file: Sample,
    /// True for many requests on a connection, false for a new connection for each.
    pub is_keep_alive: bool,
    pub connections: u32,
    pub over: Over,
}

/// The protocol and the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// One request at a time on each connection, the next immediately after the answer.
    Http1,
    /// The same load on a server that passes the requests on.
    PassedOn,
    /// HTTP/2 with this many streams at a time.
    Http2 { streams: u32 },
    /// HTTP/3 at `per_s` requests per second, however fast they are answered, up to `streams` at a time.
    Http3 { streams: u32, per_s: u32 },
}

impl Row {
    pub fn name(&self) -> String {
        let Row { file, connections, .. } = self;
        match self.over {
            Over::Http2 { streams } => format!("{} h2 {connections} x {streams}", file.label),
            Over::Http3 { streams, .. } => format!("{} h3 {connections} x {streams}", file.label),
            Over::PassedOn => format!("{} passed on {connections}", file.label),
            Over::Http1 if self.is_keep_alive => format!("{} keep-alive {connections}", file.label),
            Over::Http1 => format!("{} new connection {connections}", file.label),
        }
    }

    /// The program that generates the load.
    pub fn generator(&self) -> &'static str {
        match self.over {
            Over::Http1 | Over::PassedOn => "wrk",
            Over::Http2 { .. } => "h2load",
            Over::Http3 { .. } => "weirlab",
        }
    }

    fn over_http1(file: Sample, is_keep_alive: bool, connections: u32) -> Row {
        Row { file, is_keep_alive, connections, over: Over::Http1 }
    }

    pub fn is_over_http3(&self) -> bool {
        matches!(self.over, Over::Http3 { .. })
    }
}

/// The rows under TLS: HTTP/1.1, a handshake for each request, and HTTP/2 with few connections of many streams.
pub fn secure_rows(with_tls: bool, with_h2: bool) -> Vec<Row> {
    let [connections, _] = CONNECTIONS;
    let mut rows = Vec::new();
    if with_tls {
        rows.extend(SAMPLES.map(|file| Row::over_http1(file, true, connections)));
        rows.push(Row::over_http1(KB, false, connections));
    }
    if with_h2 {
        let over_h2 =
            |file, connections, streams| Row { file, is_keep_alive: true, connections, over: Over::Http2 { streams } };
        rows.extend([over_h2(KB, 8, 100), over_h2(KB, connections, 1), over_h2(MB_10, 4, 4)]);
    }
    rows
}

/// The rows of servers that pass requests on.
pub fn passed_on_rows() -> Vec<Row> {
    let [connections, _] = CONNECTIONS;
    [KB, KB_100].map(|file| Row { over: Over::PassedOn, ..Row::over_http1(file, true, connections) }).into()
}

/// The rows of HTTP/3, at rates that leave every server idle time, so that CPU per request is compared.
pub fn http3_rows() -> Vec<Row> {
    let over_h3 =
        |file, streams, per_s| Row { file, is_keep_alive: true, connections: 1, over: Over::Http3 { streams, per_s } };
    vec![over_h3(KB, 100, 1500), over_h3(KB_100, 10, 300), over_h3(MB_10, 1, 5)]
}

/// Returns Weir and the peers that support HTTP/3, with Weir last.
pub fn with_http3(peers: &[Kind]) -> Vec<Kind> {
    let mut kinds = beside(peers);
    kinds.retain(|kind| kind.has_http3());
    kinds.sort_by_key(|kind| kind.is_weir());
    kinds
}

/// Returns all rows whose name `wants` accepts, each with its servers, the base of the ratios first.
pub fn contests(peers: &[Kind], wants: impl Fn(&str) -> bool) -> Vec<(Row, Vec<Kind>)> {
    let mut contests = Vec::new();
    for file in SAMPLES {
        for is_keep_alive in [true, false] {
            for connections in CONNECTIONS {
                let has_peers = is_keep_alive && (file == KB || connections == CONNECTIONS[0]);
                let kinds = beside(if has_peers { peers } else { &[] });
                contests.push((Row::over_http1(file, is_keep_alive, connections), kinds));
            }
        }
    }
    contests.retain(|(row, _)| wants(&row.name()));
    contests
}

/// Returns nginx, Weir and these.
pub fn beside(peers: &[Kind]) -> Vec<Kind> {
    [&[Kind::Nginx, Kind::Weir], peers].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_mode_and_number_of_connections() {
        let contests = contests(&[Kind::H2o, Kind::Lighttpd], |_| true);
        assert_eq!(contests.len(), 12);
        assert!(contests.iter().all(|(_, kinds)| kinds[..2] == [Kind::Nginx, Kind::Weir]));
        let with_peers: Vec<_> =
            contests.iter().filter(|(_, kinds)| kinds.len() == 4).map(|(row, _)| row.name()).collect();
        let wanted = ["1 KB keep-alive 64", "1 KB keep-alive 1000", "100 KB keep-alive 64", "10 MB keep-alive 64"];
        assert_eq!(with_peers, wanted);
    }

    #[test]
    fn rows_under_tls_are_of_the_protocols_asked_for() {
        let names = |tls, h2| secure_rows(tls, h2).iter().map(Row::name).collect::<Vec<_>>();
        assert_eq!(names(false, true), ["1 KB h2 8 x 100", "1 KB h2 64 x 1", "10 MB h2 4 x 4"]);
        assert_eq!(names(true, false).len(), 4);
        assert_eq!(names(true, true).len(), 7);
        let over_h3 = http3_rows().iter().map(Row::name).collect::<Vec<_>>();
        assert_eq!(over_h3, ["1 KB h3 1 x 100", "100 KB h3 1 x 10", "10 MB h3 1 x 1"]);
    }

    #[test]
    fn rows_of_http3_have_the_servers_that_speak_it() {
        assert_eq!(with_http3(&[Kind::H2o, Kind::Caddy]), [Kind::Caddy, Kind::Weir]);
    }

    #[test]
    fn a_row_is_chosen_by_its_name() {
        let chosen = contests(&[], |name| name == "10 MB new connection 64");
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].1, [Kind::Nginx, Kind::Weir]);
    }
}
