// SPDX-License-Identifier: GPL-2.0-only OR MIT
// How urgent a packet is: the ranks of `sched` (core/sched/src/policy), worked out in the kernel, with what `sched` assumes of an
// unknown path. Both are tested on the same rows, core/sched/src/policy/ranks.csv; rank-test.bpf.c runs what is here.
#ifndef WEIR_RANK_H
#define WEIR_RANK_H

#include "classify.h"

// So that no product overflows: 134 s and 16 GiB.
#define RTT_MAX_US (1ull << 27)
#define REMAINING_MAX (1ull << 34)

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

#endif
