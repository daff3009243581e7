//! Experiments in network namespaces: builds the link, starts the programs, cleans up.
