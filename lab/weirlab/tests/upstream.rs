//! `weirlab upstream` as a program: the same files with a length, in chunks, and until the connection closes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::{Folder, text};

/// The maximum time for an answer, beyond which it counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(60);

struct Upstream {
    child: Child,
    address: String,
    _folder: Folder,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A body of several chunks, in which no two parts are alike.
fn body() -> Vec<u8> {
    (0..40_000_u32).flat_map(u32::to_le_bytes).collect()
}

impl Upstream {
    fn start(framing: &str) -> Upstream {
        // Several tests have the same framing.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = Folder::new(&number.to_string());
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.file("a/large.bin"), body()).unwrap();
        std::fs::write(folder.file("small.bin"), "small").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_weirlab"))
            .args(["upstream", &folder.path().display().to_string()])
            .args(["--listen", "127.0.0.1:0", "--framing", framing])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Upstream { child, address, _folder: folder }
    }

    /// All bytes received for this input, until the connection ends.
    fn answer(&self, requests: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HUNG_AFTER)).unwrap();
        stream.write_all(requests.as_bytes()).unwrap();
        let mut came = vec![];
        stream.read_to_end(&mut came).unwrap();
        came
    }
}

/// The beginning of the head for a file of this many bytes.
fn ok(bytes: u64) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nAccept-Ranges: none\r\n\
         Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"{bytes:016x}\"\r\n"
    )
}

#[test]
fn with_lengths() {
    let upstream = Upstream::start("length");
    let came = upstream.answer(
        "HEAD /a/large.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /small.bin?x HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /a/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let (small, large) = (ok(5), ok(160_000));
    let wanted = format!(
        "{large}Content-Length: 160000\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n\
         {small}Content-Length: 5\r\n\r\nsmall{large}Content-Length: 160000\r\nConnection: close\r\n\r\n"
    );
    assert!(came == [wanted.into_bytes(), body()].concat());
}

/// The test splits the chunks as a client does.
#[test]
fn in_chunks() {
    let upstream = Upstream::start("chunked");
    let came = upstream.answer(
        "HEAD /small.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /small.bin HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /a/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let [small, large] = [ok(5), ok(160_000)].map(|ok| format!("{ok}Transfer-Encoding: chunked\r\n"));
    let front = format!("{small}\r\n{small}\r\n5\r\nsmall\r\n0\r\n\r\n{large}Connection: close\r\n\r\n");
    let mut rest = came.strip_prefix(front.as_bytes()).expect("heads and the small body");
    let (mut large, mut chunks) = (vec![], 0);
    loop {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        let (chunk, behind) = rest[end + 2..].split_at(size);
        large.extend_from_slice(chunk);
        rest = behind.strip_prefix(b"\r\n").unwrap();
        chunks += 1;
        if size == 0 {
            break;
        }
    }
    assert!(large == body() && rest.is_empty() && chunks > 2);
    // HTTP/1.0 has no chunks.
    let came = upstream.answer("GET /small.bin HTTP/1.0\r\n\r\n");
    assert_eq!(text(&came), format!("{}Connection: close\r\n\r\nsmall", ok(5)));
}

#[test]
fn until_the_connection_closes() {
    let upstream = Upstream::start("close");
    let came = upstream.answer("GET /a/large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(came == [format!("{}Connection: close\r\n\r\n", ok(160_000)).into_bytes(), body()].concat());
}

#[test]
fn nothing_outside_of_its_folder_and_no_bodies() {
    let upstream = Upstream::start("length");
    let folder = Folder::new("outside");
    std::fs::write(folder.file("secret"), "secret").unwrap();
    let outside = folder.path().file_name().unwrap().to_str().unwrap();
    for (request, status) in [
        (format!("GET /../{outside}/secret HTTP/1.0\r\n\r\n"), "404"),
        (format!("GET /{}/secret HTTP/1.0\r\n\r\n", folder.path().display()), "404"),
        ("GET /a HTTP/1.0\r\n\r\n".into(), "404"),
        ("GET small.bin HTTP/1.0\r\n\r\n".into(), "400"),
        ("POST /small.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx".into(), "413"),
        ("DELETE /small.bin HTTP/1.1\r\nHost: a\r\n\r\n".into(), "405"),
        ("nonsense\r\n\r\n".into(), "400"),
    ] {
        let came = text(&upstream.answer(&request));
        assert!(came.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {came}");
    }
}

#[test]
fn a_mistake_is_one_line() {
    let run = |args: &[&str]| -> Output {
        Command::new(env!("CARGO_BIN_EXE_weirlab")).arg("upstream").args(args).output().unwrap()
    };
    for (args, says) in [
        (&["/nonexistent"][..], "weirlab: /nonexistent: no folder"),
        (&["/", "--framing", "none"], "weirlab: invalid value 'none' for '--framing <FRAMING>'"),
        (&["/", "--listen", "80"], "weirlab: invalid value '80' for '--listen <ADDR>'"),
        (&[], "weirlab: the following required arguments were not provided: <DIR>"),
    ] {
        let output = run(args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.starts_with(says) && said.lines().count() == 1, "{said}");
    }
}
