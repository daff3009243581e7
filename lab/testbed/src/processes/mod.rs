//! Classes of processes: the kernel level of 004 for an Apache with one process per request, without a change to Apache
//! or Linux.
//!
//! Almeida, Dabu, Manikutty & Cao (1998) had Apache call the kernel with the priority of each request, and the kernel
//! apply the Sleep and Wakeup policies of section 3.1 to processes. Here a separate program does it. It learns the
//! class from `mod_log_forensic`, which writes a line with the process and the request line before the request is
//! handled, and another after its last byte, to a pipe that this program reads. Other sources know less: the scoreboard
//! of `mod_status` must be polled and truncates the request line, an access log reports only the end, and the TCP peer
//! of a process does not reveal the document. The price is two lines of about 100 bytes per request, and that the
//! process runs until the first line is read: a request served within that time escapes, and is counted.
//!
//! There are three parts: [`Decider`] decides and touches nothing, `forensic` reads lines, and `hands` applies the
//! decisions: SIGSTOP as priority −1, the idle class as 0, a weight or a nice value above. However this program ends,
//! no process stays stopped, because another process, `guard`, resumes them. It reaches the processes of Apache itself,
//! not those of CGI programs.

mod decide;
mod forensic;
mod guard;
mod hands;
mod watch;

pub use decide::{Decider, Priority};
pub use guard::Guard;
pub use hands::Means;
pub use watch::{Hold, Plan, ProcessClass, Tally, Watch};
