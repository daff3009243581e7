//! Experiments on a real kernel in virtual time.
//!
//! The kernel is Linux as an ordinary program (User-Mode Linux) in its time-travel mode `inf-cpu`: computing takes no
//! time, and when everything waits, the clock jumps to the next timer. Nothing is therefore ever late, a busy host
//! changes no figure, and queues that this host's kernel lacks are available. Each run has its own machine, which does
//! what `weirlab run` does for that one run. The same seed gives the same figures whatever ran before, and concurrent
//! machines do not affect each other. The kernel's own random numbers (hash seeds, ports, sequence numbers) also depend
//! on the seed, and every run begins at the same instant ([`machine`]), because they decide which packets a FIFO drops.
//!
//! Limits: the costs of computing are zero; a program that spins until time has passed never ends; there is one
//! processor, and no BPF JIT, so no qdisc in BPF.

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
