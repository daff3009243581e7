//! HTTP/1.1 on byte slices: strict parsing, conditional requests, ranges, heads. No I/O.
