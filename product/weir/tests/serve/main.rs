//! The program as an operator runs it and a peer meets it: every test starts the real binary on a free loopback port and
//! talks to it over raw sockets, strictly, so that nothing between the two can put right what is wrong.
//!
//! One binary for all of them, so that those that have to wait for a time-out wait at the same time as others work.
//! No test asserts how long anything takes; what is asserted is what came, and in which order.

mod access_log;
mod bad_input;
mod bands;
mod bodies;
mod changing_files;
mod classes;
mod clients;
mod cold;
mod common;
mod conditions;
mod connections;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod https;
mod limits;
mod methods;
mod notify;
mod order;
mod passed;
mod paths;
mod privileges;
mod refusals;
mod scarcity;
mod start;
mod status;
mod stop;
mod timeouts;
mod user;
