//! The program against this machine's kernel, in network namespaces of its own.

mod network;
mod uplink;
