// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The urgency of a packet: the ranks of `sched` (core/sched/src/policy) calculated in the kernel, with the assumptions
// of `sched` about an unknown path. Both are tested with the same rows, core/sched/src/policy/ranks.csv;
// rank-test.bpf.c runs this file.
#ifndef WEIR_RANK_H
#define WEIR_RANK_H

#include "classify.h"

// Limits that prevent overflow of products: 134 s and 16 GiB.
#define RTT_MAX_US (1ull << 27)
#define REMAINING_MAX (1ull << 34)

// Returns the value that the policy orders by: bytes, or microseconds for srrt. A response of unknown size, or one
// longer than declared, is ranked by the bytes of it that were sent or are known to follow (up to `shown`).
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

#endif
