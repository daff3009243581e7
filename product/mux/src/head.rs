//! Heads between the two forms: fields of HTTP/2 into the text of HTTP/1.1, and back.

/// Collects the fields of a request as the head that HTTP/1.1 would have sent.
///
/// The engine has checked names, values and the order of pseudo-fields (RFC 9113 section 8.3); limits and meaning are the parser's that reads
/// the text. Past the limit no more is kept: the parser finds the text too long.
/// Its memory is used again for the next request, but for the text, which is given away.
#[derive(Debug)]
pub struct HeadText {
    method: Vec<u8>,
    path: Vec<u8>,
    authority: Vec<u8>,
    has_line: bool,
    text: Vec<u8>,
    bytes_max: usize,
}

/// What most heads of browsers need.
const TEXT_BYTES: usize = 512;

impl HeadText {
    pub fn new(bytes_max: usize) -> HeadText {
        let [method, path, authority, text] = [const { Vec::new() }; 4];
        HeadText { method, path, authority, has_line: false, text, bytes_max }
    }

    /// Another request.
    pub fn begin(&mut self) {
        for part in [&mut self.method, &mut self.path, &mut self.authority] {
            part.clear();
        }
        self.has_line = false;
        self.text = Vec::with_capacity(TEXT_BYTES);
    }

    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let kept = &value[..value.len().min(self.bytes_max + 1)];
        match name {
            b":method" => self.method.extend_from_slice(kept),
            b":path" => self.path.extend_from_slice(kept),
            b":authority" => self.authority.extend_from_slice(kept),
            _ if name.first() == Some(&b':') => {}
            // The authority says the same (RFC 9113 section 8.3.1); where it says something else both are kept, which no request may have.
            b"host" if !self.authority.is_empty() && self.authority.eq_ignore_ascii_case(value) => {}
            _ => {
                self.begin_fields();
                self.line(name, value);
            }
        }
    }

    /// The text, with its empty line.
    pub fn finish(&mut self) -> Vec<u8> {
        self.begin_fields();
        if self.text.len() <= self.bytes_max {
            self.text.extend_from_slice(b"\r\n");
        }
        std::mem::take(&mut self.text)
    }

    fn begin_fields(&mut self) {
        if std::mem::replace(&mut self.has_line, true) {
            return;
        }
        let [method, path, authority] = [&mut self.method, &mut self.path, &mut self.authority].map(std::mem::take);
        // A request without one is CONNECT, whose target is the authority (RFC 9113 section 8.5).
        let target = if path.is_empty() { &authority } else { &path };
        for part in [&method[..], b" ", target, b" HTTP/1.1\r\n"] {
            self.add(part);
        }
        if !authority.is_empty() {
            self.line(b"host", &authority);
        }
        // For the next.
        (self.method, self.path, self.authority) = (method, path, authority);
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        if self.text.len() <= self.bytes_max {
            for part in [name, b": ", value, b"\r\n"] {
                self.add(part);
            }
        }
    }

    /// No part can end a line early: what would is no request to the parser.
    fn add(&mut self, part: &[u8]) {
        let begin = self.text.len();
        self.text.extend_from_slice(part);
        let plain = part.len() - if part.ends_with(b"\r\n") { 2 } else { 0 };
        for byte in self.text[begin..begin + plain].iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')) {
            *byte = 0;
        }
    }
}

/// Status, and names with values in their order, of a response's head as HTTP/1.1 has it. What frames the message there is left out.
pub fn fields(head: &[u8]) -> (&[u8], impl Iterator<Item = (&[u8], &[u8])>) {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().and_then(|line| line.get(9..12)).unwrap_or(b"500");
    let fields = lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        (!name.eq_ignore_ascii_case(b"connection")).then_some((name, value))
    });
    (status, fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fields: &[(&str, &str)]) -> String {
        let mut head = HeadText::new(100);
        head.begin();
        fields.iter().for_each(|(name, value)| head.push(name.as_bytes(), value.as_bytes()));
        String::from_utf8(head.finish()).unwrap()
    }

    #[test]
    fn a_request_becomes_a_head() {
        let pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y")];
        assert_eq!(text(&pseudo), "GET /x?y HTTP/1.1\r\nhost: a.example\r\n\r\n");
        let with = |more: (&'static str, &'static str)| text(&[&pseudo[..], &[more]].concat());
        assert_eq!(with(("host", "A.example")), "GET /x?y HTTP/1.1\r\nhost: a.example\r\n\r\n");
        assert_eq!(with(("host", "b")), "GET /x?y HTTP/1.1\r\nhost: a.example\r\nhost: b\r\n\r\n");
        assert_eq!(with(("a", "1\r\nb: 2")), "GET /x?y HTTP/1.1\r\nhost: a.example\r\na: 1\0\0b: 2\r\n\r\n");
        assert_eq!(text(&[(":method", "CONNECT"), (":authority", "a:1")]), "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n");
        assert_eq!(text(&[(":method", "GET"), (":path", "/"), ("host", "h")]), "GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    }

    #[test]
    fn no_more_is_kept_than_a_little_past_the_limit() {
        let long = "x".repeat(90);
        let head = text(&[(":method", "GET"), (":path", "/"), ("a", &long), ("b", &long), ("c", &long)]);
        assert!(head.len() > 100 && head.len() < 300 && !head.contains("c: "), "{head}");
        let path = "/".repeat(1000);
        assert!((100..300).contains(&text(&[(":method", "GET"), (":path", &path)]).len()));
    }

    #[test]
    fn a_head_becomes_fields() {
        let head = b"HTTP/1.1 206 Partial Content\r\nServer: weir\r\nX: a: b\r\nConnection: close\r\n\r\n";
        let (status, fields) = fields(head);
        let fields: Vec<(&[u8], &[u8])> = fields.collect();
        assert_eq!((status, fields), (&b"206"[..], vec![(&b"Server"[..], &b"weir"[..]), (b"X", b"a: b")]));
    }
}
