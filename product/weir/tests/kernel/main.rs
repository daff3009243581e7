//! Tests of the program with this machine's kernel, in separate network namespaces.

mod apply;
mod attach;
#[path = "../serve/common/cable.rs"]
mod cable;
mod classes;
mod detach;
mod floods;
mod follow;
mod hostile;
mod leftovers;
mod marks;
mod network;
mod shares;
mod trial;
mod uplink;
mod uploads;
#[path = "../../../../lab/testbed/tests/common/virtual_time.rs"]
mod virtual_time;

/// Tests whose verdict depends on time: they run in virtual time, if there is a kernel for that.
const VIRTUAL_TESTS: &[&str] = &[
    "classes::the_link_is_divided_as_the_file_says",
    "floods::a_flood_does_not_hold_up_syn_acks",
    "floods::of_two_bands_with_one_priority_the_better_has_nearly_all",
    "floods::of_two_floods_the_better_band_has_the_link_but_for_the_others_share",
    "shares::a_flood_of_datagrams_stops_no_response",
    "shares::one_bulk_transfer_from_another_port_stops_no_response",
    "shares::other_traffic_has_its_share_and_no_more",
    "trial::a_gain_behind_a_slow_router_is_found",
    "trial::a_trial_of_a_rate_that_is_followed_leaves_it_and_is_kept",
    "trial::without_a_queue_no_gain_is_found",
];
