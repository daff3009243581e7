//! TCP over a bottleneck.
