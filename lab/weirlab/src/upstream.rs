//! `weirlab upstream`: an application server of the laboratory, which sends the length of its responses or not.
//!
//! A proxy only knows about a response what its upstream sends. The same files, sent in three ways, show the value of
//! that: with Content-Length, in chunks, or until the connection closes (RFC 9112 section 6.3).

mod request;
mod work;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cli::Failure;
use http::Status;
use request::{Refused, Request, Requests};
use work::{Places, Work, Works};

/// The maximum number of concurrent connections, each with a thread; others wait to be accepted.
const CONNECTIONS_MAX: usize = 2048;
/// The stack size of a thread, whose buffers are elsewhere.
const STACK_BYTES: usize = 128 << 10;
/// The bytes of a file that are read in one call and sent as one chunk.
const CHUNK_BYTES: usize = 16 << 10;
/// The size of the output buffer: the head and the first chunk are sent together.
const OUT_BYTES: usize = CHUNK_BYTES + 1024;
/// The maximum time without a request. Proxies close idle connections sooner, so that none is closed as it is reused
/// (nginx 60 s).
const IDLE_FOR: Duration = Duration::from_secs(75);

/// The head. Behind a proxy it is as long as a file server's own, so that their times can be compared.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nAccept-Ranges: none\r\n\
    Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n";

/// Serve files as an application behind a proxy: HTTP/1.1, GET and HEAD, keep-alive.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the files
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// How a client learns where a body ends: length (Content-Length), chunked, or close (the connection ends)
    #[arg(long, value_name = "FRAMING", value_enum, default_value = "length", hide_possible_values = true)]
    framing: Framing,
    /// Requests answered at once, each until the last byte of its response is written; others wait
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX as u16, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX as i64))]
    workers: u16,
    /// Time that a request takes before it is answered, for example 200ms, 200ms@10 (for 10 of a thousand),
    /// /slow/=200ms (for those paths) or 20ms~1~0.5 (log-normal: medians of routes with sigma 1, times within
    /// one with sigma 0.5); repeatable [default: none]
    #[arg(long = "work", value_name = "WORK", verbatim_doc_comment)]
    works: Vec<Work>,
}

/// The state that all connections share.
struct Application {
    folder: PathBuf,
    framing: Framing,
    workers: Places,
    works: Works,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Framing {
    Length,
    Chunked,
    Close,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let folder = args.folder.canonicalize().ok().filter(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| Failure::Usage(format!("{}: no folder", args.folder.display())))?;
    let listen = |error| Failure::Failed(format!("cannot listen on {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).map_err(listen)?;
    println!("http://{}/", listener.local_addr()?);
    let places: &'static Places = Box::leak(Box::new(Places::new(CONNECTIONS_MAX)));
    let workers = Places::new(args.workers.into());
    let application = Application { folder, framing: args.framing, workers, works: Works::new(args.works) };
    let application = Arc::new(application);
    loop {
        let place = places.take();
        // The client has already left, or there is no descriptor; the next connection may succeed.
        let Ok((stream, _)) = listener.accept() else { continue };
        let application = Arc::clone(&application);
        let serve = move || {
            let _place = place;
            // The client sees an error as the end of its connection.
            let _ = serve(&stream, &application);
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(serve)?;
    }
}

/// Answers the requests of a connection, until one is the last.
fn serve(stream: &TcpStream, application: &Application) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_FOR))?;
    let (mut requests, mut out) = (Requests::new(stream), BufWriter::with_capacity(OUT_BYTES, stream));
    loop {
        let request = match requests.next() {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(Refused::Status(status)) => return refuse(&mut out, status, true),
            Err(Refused::Io(error)) => return Err(error),
        };
        let _worker = application.workers.take();
        thread::sleep(application.works.next(&request.path));
        // HTTP/1.0 has no chunks (RFC 9112 section 7).
        let framing = application.framing;
        let framing = if request.is_1_0 && framing == Framing::Chunked { Framing::Close } else { framing };
        let is_last = request.is_last || framing == Framing::Close;
        match open(&application.folder, &request.path) {
            Some((file, size)) => send(&mut out, &request, (file, size), framing, is_last)?,
            None => refuse(&mut out, Status::NOT_FOUND, is_last)?,
        }
        out.flush()?;
        if is_last {
            return Ok(());
        }
    }
}

/// Opens the file of a path, and returns its size; nothing outside the folder. If the file does not exist, the first
/// folder is dropped, because it may only name the route.
fn open(folder: &Path, path: &str) -> Option<(File, u64)> {
    let below = Path::new(path.strip_prefix('/')?);
    if !below.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let behind = || below.strip_prefix(below.components().next()?).ok();
    let file = File::open(folder.join(below)).or_else(|error| File::open(folder.join(behind().ok_or(error)?))).ok()?;
    let about = file.metadata().ok().filter(|about| about.is_file())?;
    Some((file, about.len()))
}

fn send(
    out: &mut impl Write,
    request: &Request,
    (mut file, size): (File, u64),
    framing: Framing,
    is_last: bool,
) -> io::Result<()> {
    out.write_all(HEAD)?;
    write!(out, "ETag: \"{size:016x}\"\r\n")?;
    match framing {
        Framing::Length => write!(out, "Content-Length: {size}\r\n")?,
        Framing::Chunked => out.write_all(b"Transfer-Encoding: chunked\r\n")?,
        Framing::Close => {}
    }
    end_head(out, is_last)?;
    if request.is_head {
        return Ok(());
    }
    if framing != Framing::Chunked {
        let sent = io::copy(&mut file.take(size), out)?;
        // The file has shrunk: the connection ends early, so that its client notices.
        return if sent == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        write!(out, "{count:x}\r\n")?;
        out.write_all(&chunk[..count])?;
        out.write_all(b"\r\n")?;
        if count == 0 {
            return Ok(());
        }
    }
}

fn refuse(out: &mut impl Write, status: Status, is_last: bool) -> io::Result<()> {
    write!(out, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n")?;
    end_head(out, is_last)?;
    out.flush()
}

fn end_head(out: &mut impl Write, is_last: bool) -> io::Result<()> {
    out.write_all(if is_last { b"Connection: close\r\n\r\n" } else { b"\r\n" })
}
