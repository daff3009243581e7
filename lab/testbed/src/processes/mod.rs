//! Classes of processes: the kernel level of 004 for an Apache of one process per request, without a change to Apache or Linux.
//!
//! Almeida, Dabu, Manikutty & Cao (1998) had Apache call the kernel with the priority of each request, and the kernel run the Sleep and
//! Wakeup policies of section 3.1 on processes. Here a program beside Apache does it. It learns the class from `mod_log_forensic`, which
//! writes a line with the process and the request line before the request is handled and another when its last byte is sent: to a pipe
//! that we read. Other ways know less: the scoreboard of `mod_status` is polled and cuts the request line off; an access log tells of the
//! end alone; the TCP peer of a process says nothing of the document. The price is two lines of about 100 bytes a request, and that the
//! process runs on until we have read the first: what is served within that time escapes, and is counted.
//!
//! Three parts: [`Decider`] decides and touches nothing, `forensic` reads lines, `hands` does what was decided: SIGSTOP as priority −1, the idle
//! class as 0, a weight or a nice value above. However this program ends, no process stays stopped: another one, `guard`, sees to that.
//! It reaches the processes of Apache itself, not those of CGI programs.

mod apache;
mod clients;
mod decide;
mod forensic;
mod guard;
mod hands;
mod measure;
mod watch;

pub use decide::{Decider, Priority};
pub use guard::Guard;
pub use hands::Means;
pub use measure::{Condition, Measured, Measurement, Page, conditions};
pub use watch::{Hold, Plan, ProcessClass, Tally, Watch};
