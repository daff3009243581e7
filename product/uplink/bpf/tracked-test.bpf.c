// SPDX-License-Identifier: GPL-2.0-only OR MIT
// For src/classify/tests/tracked.rs: follows one flow of tracked.h directly, at times that the test sets.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tracked.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tracked);
} weir_tracked SEC(".maps");

struct question {
	__u64 now;
	// The answer: `enum stepped`, and the bytes of the response before this packet.
	__u64 how;
	__u64 before;
	__u32 seq;
	__u32 ack;
	__u32 bytes;
	__u32 has_seq;
	__u32 is_head;
	// The connection ends with this packet.
	__u32 is_last;
};

struct answer {
	__u32 ack;
	__u32 bytes;
};

SEC("syscall")
int weir_heed(struct answer *answer)
{
	__u32 zero = 0;
	struct tracked *tracked = bpf_map_lookup_elem(&weir_tracked, &zero);

	if (!tracked)
		return 1;
	note_client_packet(tracked, answer->ack, answer->bytes);
	return 0;
}

SEC("syscall")
int weir_step(struct question *question)
{
	__u32 zero = 0;
	struct tracked *tracked = bpf_map_lookup_elem(&weir_tracked, &zero);
	struct step step = {
		.now = question->now,
		.seq = question->seq,
		.ack = question->ack,
		.bytes = question->bytes,
		.has_seq = question->has_seq,
		.is_head = question->is_head,
	};

	if (!tracked)
		return 1;
	question->how = stepped(tracked, &step);
	question->before = advance(tracked, &step, question->how);
	if (question->is_last)
		tracked->seen = CLOSED;
	return 0;
}
