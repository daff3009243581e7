mod life;
mod loopback;
mod mistakes;
mod rig;
mod server;
