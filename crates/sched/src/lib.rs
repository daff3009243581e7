//! Who sends next: jobs, ranks, policies and the Drain state machine. No I/O, no clock.
