//! Tests endpoint and sessions against quinn-proto's client, in memory and in virtual time.

mod bodies;
mod cuts;
mod flow;
mod grants;
mod life;
mod mistakes;
mod rig;
