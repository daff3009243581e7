//! Endpoint and sessions against quinn-proto's client, in memory and in virtual time.

mod flow;
mod rig;
