//! What arrives: traces, sizes, arrival times, scaling to a load rho. Seeded, pure.
