//! The program as an operator runs it and a peer sees it. Every test starts the real binary on a free loopback port and
//! uses raw sockets, strictly, so that nothing between the two can correct a mistake.
//!
//! All tests are in one binary, so that one machine in virtual time can run all that wait for a timeout. No test
//! asserts a duration; tests assert what arrived, and in which order.

mod access;
mod access_log;
mod acme;
mod admin;
mod bad_input;
mod bands;
mod bodies;
mod changing_files;
mod classes;
mod clients;
mod cold;
mod common;
mod compression;
mod conditions;
mod connections;
mod fastcgi;
mod forward_auth;
mod handovers;
mod http2;
mod http3;
mod https;
mod limits;
mod local_networks;
mod logins;
mod malformed;
mod max_body;
mod memory;
mod methods;
mod names;
mod notify;
mod order;
mod passed;
mod paths;
mod privileges;
mod proxy;
mod proxy_fields;
mod proxy_hostile;
mod proxy_http2;
mod proxy_log;
mod proxy_numbers;
mod proxy_places;
mod proxy_protocol;
mod proxy_streams;
mod proxy_tls;
mod proxy_upstreams;
mod proxy_websockets;
mod reach;
mod refusals;
mod reloads;
mod request_headers;
mod responsiveness;
mod rewrites;
mod roots;
mod scarcity;
mod shared;
mod spellings;
mod start;
mod status;
mod stop;
mod timeouts;
mod top;
mod trusted;
mod upgrades;
mod upstream_dictionaries;
mod user;

/// Tests whose verdict depends on time, or that wait: they run in virtual time, if there is a kernel for that.
const VIRTUAL_TESTS: &[&str] = &[
    "bands::a_promoted_flow_does_not_overtake_itself",
    "bands::the_better_of_two_floods_has_the_link",
    "classes::a_large_response_of_the_first_class_goes_before_a_small_one",
    "order::a_small_range_of_a_large_file_is_small",
    "order::order_holds_across_workers",
    "order::the_small_response_overtakes_the_large_one",
    "responsiveness::uploads_that_do_not_go_on_are_ended",
    "status::a_missed_objective_is_told_in_the_error_log",
    "timeouts::a_reader_that_takes_nothing_is_let_go",
    "timeouts::a_stopped_process_cuts_nobody_off",
    "timeouts::half_a_head_behind_a_request_is_timed_as_a_head",
    "timeouts::slow_clients_are_let_go",
    "timeouts::steady_clients_are_not",
];
