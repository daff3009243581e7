//! Experiments on a real kernel in virtual time.
//!
//! The kernel is Linux as an ordinary program (User-Mode Linux) in its time-travel mode `inf-cpu`: computing takes no time, and when
//! everything waits the clock jumps to the next timer. So nothing is ever late, a busy host changes no figure, and the queues
//! that this host's kernel lacks are there. Each run has a machine of its own, which does what `weirlab run` does for that one run: the
//! same seed gives the same figures whatever ran before, and machines go on side by side without knowing of each other. The kernel's own
//! random numbers (hash seeds, ports, sequence numbers) come of the seed too, and every run begins at the same instant ([`machine`]):
//! they decide which packets a FIFO drops.
//!
//! What it cannot do: costs of computing read zero; a program that spins until time has passed never ends; there is one processor
//! and no BPF JIT, hence no qdisc in BPF.

mod bounds;
mod command;
mod conduct;
mod console;
mod kernel;
mod machine;

pub use command::{Said, run_command};
pub use conduct::Machines;
pub(crate) use conduct::conduct;
pub(crate) use kernel::version;
pub use kernel::{find_kernel, find_random, is_virtual};
