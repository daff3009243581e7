//! The program against this machine's kernel, in network namespaces of its own.

mod attach;
#[path = "../serve/common/cable.rs"]
mod cable;
mod floods;
mod leftovers;
mod network;
mod shares;
mod uplink;
#[path = "../../../../lab/testbed/tests/common/virtual_time.rs"]
mod virtual_time;
