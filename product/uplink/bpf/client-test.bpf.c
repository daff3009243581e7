// SPDX-License-Identifier: GPL-2.0-only OR MIT
// For src/classify/tests/clients.rs: charges an account of client.h directly, at times that the test sets.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "client.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CLIENTS 64

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLIENTS);
	__type(key, __u32);
	__type(value, struct client);
} weir_clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct share);
} weir_share SEC(".maps");

struct question {
	__u64 client;
	__u64 bytes;
	__u64 allowance;
	__u64 bytes_per_s;
	__u64 now;
	// The answer.
	__u64 ahead;
};

SEC("syscall")
int weir_charge(struct question *question)
{
	__u32 zero = 0, number = question->client;
	struct client *client = bpf_map_lookup_elem(&weir_clients, &number);
	struct share *share = bpf_map_lookup_elem(&weir_share, &zero);

	if (!client || !share)
		return 1;
	question->ahead = charge(share, client, question->bytes, question->allowance, question->bytes_per_s, question->now);
	return 0;
}
