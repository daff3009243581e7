//! The terminal of `weir top`, and the wait for the next second, which ends early if the size changes or at ctrl-c.

use std::io::{IsTerminal, Read, Write, stdout};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use super::layout::{Block, fitted, lines, painted};

/// The control sequence that clears the rest of a line. The next constant clears the screen below the last line.
const CLEAR_LINE: &str = "\x1b[K\r\n";
const CLEAR_BELOW: &str = "\x1b[J";

pub struct Screen {
    has_colours: bool,
    is_ending: Arc<AtomicBool>,
    /// Receives a byte for each signal.
    woken: UnixStream,
    /// The size of the screen at the last drawing.
    drawn: Option<(usize, usize)>,
}

/// The reason why a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Woken {
    Time,
    Resized,
    End,
}

/// Returns true if standard output is a terminal that can move its cursor.
pub fn is_one() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb" && !term.is_empty())
}

/// The columns and rows of the terminal.
pub fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col).max(20), usize::from(size.ws_row).max(4)))
}

impl Screen {
    pub fn open() -> std::io::Result<Screen> {
        let (woken, wake) = UnixStream::pair()?;
        let is_ending = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_ending))?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGWINCH] {
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        woken.set_nonblocking(true)?;
        // https://no-color.org
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Screen { has_colours, is_ending, woken, drawn: None })
    }

    /// Draws the page over the previous one. Clears the screen first if its size has changed.
    pub fn draw(&mut self, blocks: &[Block]) -> std::io::Result<()> {
        let (columns, rows) = size();
        let begin =
            if self.drawn.replace((columns, rows)) == Some((columns, rows)) { "\x1b[H" } else { "\x1b[2J\x1b[H" };
        let shown = fitted(lines(blocks, columns), columns, rows);
        let shown: Vec<String> = shown.iter().map(|line| painted(line, self.has_colours)).collect();
        let mut out = stdout().lock();
        out.write_all(format!("{begin}{}{CLEAR_BELOW}", shown.join(CLEAR_LINE)).as_bytes())?;
        out.flush()
    }

    /// Waits until this instant at most.
    pub fn wait(&mut self, until: Instant) -> Woken {
        let mut resized = false;
        loop {
            if self.is_ending.load(Relaxed) {
                return Woken::End;
            }
            if resized {
                return Woken::Resized;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Time;
            }
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let came = poll(&mut [PollFd::new(&self.woken, PollFlags::IN)], Some(&timeout));
            if came.is_err() {
                // Treated as a signal; the pause bounds the rate of other failures.
                std::thread::sleep(Duration::from_millis(10));
            }
            resized = self.woken.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0);
        }
    }

    /// Leaves the page, so that further output begins on a new line.
    pub fn leave(&self) -> std::io::Result<()> {
        let mut out = stdout().lock();
        out.write_all(CLEAR_LINE.as_bytes())?;
        out.flush()
    }
}
