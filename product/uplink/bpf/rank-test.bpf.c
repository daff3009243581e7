// SPDX-License-Identifier: GPL-2.0-only OR MIT
// For src/classify/tests/ranks.rs: asks rank.h by hand (in a test run of the classifier itself a packet has no TCP socket), and
// sees what the classifier made of a packet.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "rank.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct question {
	__u64 begin;
	__u64 end;
	__u64 offset;
	__u64 shown;
	// The answers.
	__u64 value;
	__u64 rank;
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
	question->rank = rank_of(question->value);
	return 0;
}

// Ethernet, IPv4 and TCP with timestamps.
#define HEADERS_BYTES 66
#define PORT_AT 34
#define PORT 8000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} weir_last SEC(".maps");

// Keeps the priority of the last packet with data from the server's port.
SEC("tc")
int weir_see(struct __sk_buff *skb)
{
	__u32 zero = 0, *last = bpf_map_lookup_elem(&weir_last, &zero);
	__u16 port = 0;

	bpf_skb_load_bytes(skb, PORT_AT, &port, sizeof(port));
	if (last && skb->len > HEADERS_BYTES && port == bpf_htons(PORT))
		*last = skb->priority;
	return TC_ACT_UNSPEC;
}
