// SPDX-License-Identifier: GPL-2.0-only OR MIT
// For src/classify/tests/ranks.rs: calls rank.h directly (in a test run of the classifier itself a packet has no TCP
// socket).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "rank.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct question {
	__u64 begin;
	__u64 end;
	__u64 offset;
	__u64 shown;
	// The answer.
	__u64 value;
	__u32 policy;
	__u32 srtt_us;
	__u32 snd_cwnd;
	__u32 mss_cache;
};

SEC("syscall")
int weir_rank(struct question *question)
{
	struct flow flow = { .begin = question->begin, .end = question->end };
	struct bpf_tcp_sock tcp = {
		.srtt_us = question->srtt_us,
		.snd_cwnd = question->snd_cwnd,
		.mss_cache = question->mss_cache,
	};

	question->value = value_of(question->policy, &flow, &tcp, question->offset, question->shown);
	return 0;
}
