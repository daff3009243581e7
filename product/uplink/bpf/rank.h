// SPDX-License-Identifier: GPL-2.0-only OR MIT
// How urgent a packet is: the ranks of `sched` (core/sched/src/policy), worked out in the kernel, with what `sched` assumes of an
// unknown path. Both are tested on the same rows, core/sched/src/policy/ranks.csv; rank-test.bpf.c runs what is here.
#ifndef WEIR_RANK_H
#define WEIR_RANK_H

#include "classify.h"

// So that no product overflows: 134 s and 16 GiB.
#define RTT_MAX_US (1ull << 27)
#define REMAINING_MAX (1ull << 34)
// From here on the ranks of clients that had more than their share of the link: so many steps to an allowance, of so many values.
#define RANK_BEHIND (3u << 30)
#define AHEAD_STEPS 16
#define VALUES_BEHIND (1u << 24)

// What the policy orders by: bytes, or for srrt microseconds. A response of unknown size, and one that is longer than it was
// said to be, is ranked by what was sent of it, or is shown to follow (up to `shown`).
static __always_inline __u64 value_of(__u32 policy, struct flow *flow, struct bpf_tcp_sock *tcp, __u64 offset, __u64 shown)
{
	__u64 bytes = offset - flow->begin, rtt, window;

	if (policy != LAS && flow->end > offset)
		bytes = policy == PSJF ? flow->end - flow->begin : flow->end - offset;
	else if (policy != LAS && shown > offset)
		bytes = shown - flow->begin;
	if (policy != SRRT)
		return bytes;
	rtt = tcp->srtt_us >> 3 ?: RTT_ASSUMED_US;
	window = (__u64)tcp->snd_cwnd * tcp->mss_cache ?: CWND_ASSUMED_BYTES;
	rtt = rtt < RTT_MAX_US ? rtt : RTT_MAX_US;
	bytes = bytes < REMAINING_MAX ? bytes : REMAINING_MAX;
	return rtt + rtt * bytes / window;
}

// That value as a rank of the discipline `ranked`: behind control packets, before clients that had more than their share.
static __always_inline __u32 rank_of(__u64 value)
{
	value = value > RANK_CONTROL ? value : RANK_CONTROL + 1;
	return value < RANK_BEHIND ? value : RANK_BEHIND - 1;
}

// The rank of a response of this value whose client is ahead by so many bytes, more than the allowance: behind all others, the
// least ahead first in steps, and by value within a step. A client is ahead by twice the allowance and a packet at most; four
// times that has a place.
static __always_inline __u32 rank_behind(__u64 ahead, __u64 allowance, __u64 value)
{
	ahead /= allowance / AHEAD_STEPS + 1;
	ahead = ahead < 4 * AHEAD_STEPS ? ahead : 4 * AHEAD_STEPS - 1;
	return RANK_BEHIND + ahead * VALUES_BEHIND + (value < VALUES_BEHIND ? value : VALUES_BEHIND - 1);
}

#endif
