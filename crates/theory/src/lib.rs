//! Oracles that share nothing with the scheduler: clairvoyant SRPT bound, ideal processor sharing.
