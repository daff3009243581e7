// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Measures the time of each response, and lets all packets pass the bands by now and then: `weir attach --try`.
//
// Runs behind the classifier, which knows nothing of it. Both programs are held by links of the process that tries, so
// they are gone with it, and the order is back.
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "trial.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACKED_MAX);
	__type(key, struct tuple);
	__type(value, struct meter);
} weir_meters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ENDED_BYTES);
} weir_ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turn);
} weir_turn SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} weir_counts SEC(".maps");

// Reports the response, which is over.
static __always_inline void finish(struct meter *meter, struct counts *counts)
{
	struct ended ended = { .begun_ns = meter->begun_ns, .ended_ns = end_of(meter), .bytes = meter->flow.sent };

	if (meter->flow.seen != SEEN || !ended.bytes)
		return;
	meter->flow.seen = CLOSED;
	if (!ended.ended_ns)
		__sync_fetch_and_add(&counts->unfinished, 1);
	else if (bpf_ringbuf_output(&weir_ended, &ended, sizeof(ended), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&counts->lost, 1);
}

// Follows the response that this packet of data belongs to.
static __always_inline void follow(struct packet *packet, struct meter *meter, struct counts *counts, __u64 now)
{
	struct step step = {
		.now = now,
		.seq = packet->seq,
		.ack = packet->ack,
		.bytes = packet->payload_bytes,
		.has_seq = true,
	};
	enum stepped how = stepped(&meter->flow, &step);

	// A connection of its own, though perhaps with the ports of an earlier one.
	if (meter->flow.seen != SEEN) {
		meter->acked_seq = packet->seq;
		meter->is_closing = 0;
	}
	if (how == STEP_BEGIN) {
		finish(meter, counts);
		meter->begun_ns = meter->flow.was_asked ? meter->asked_ns : now;
	}
	advance(&meter->flow, &step, how);
}

SEC("tc")
int weir_trial_out(struct __sk_buff *skb)
{
	struct meter *meter, fresh = {};
	struct packet packet = {};
	struct counts *counts;
	struct tuple tuple;
	struct turn *turn;
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;

	turn = bpf_map_lookup_elem(&weir_turn, &zero);
	counts = bpf_map_lookup_elem(&weir_counts, &zero);
	if (!turn || !counts)
		return TC_ACT_UNSPEC;
	// Other traffic too: before the attach nothing was shaped here.
	if (!turn->is_ordered)
		skb->priority = turn->priority;
	if (!parse(skb, &packet) || packet.protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	if (!is_wanted(packet.port) || !read_tuple(skb, &packet, &tuple))
		return TC_ACT_UNSPEC;
	meter = bpf_map_lookup_elem(&weir_meters, &tuple);
	if (!meter && packet.payload_bytes) {
		bpf_map_update_elem(&weir_meters, &tuple, &fresh, BPF_NOEXIST);
		meter = bpf_map_lookup_elem(&weir_meters, &tuple);
	}
	if (!meter)
		return TC_ACT_UNSPEC;
	if (packet.payload_bytes)
		follow(&packet, meter, counts, now);
	if (packet.flags & FIN)
		meter->is_closing = 1;
	if (packet.flags & (SYN | RST) || (meter->is_closing && end_of(meter)))
		finish(meter, counts);
	return TC_ACT_UNSPEC;
}

// Notes what clients ask for and acknowledge.
SEC("tc")
int weir_trial_in(struct __sk_buff *skb)
{
	struct meter *meter, fresh = {};
	struct tuple flow;
	struct counts *counts;
	struct packet packet = {};
	__u32 zero = 0, ack;

	if (!parse(skb, &packet) || packet.protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	if (!is_wanted(bpf_ntohs(packet.peer_port)) || !read_reversed_tuple(skb, &packet, &flow))
		return TC_ACT_UNSPEC;
	meter = bpf_map_lookup_elem(&weir_meters, &flow);
	if (!meter && packet.payload_bytes) {
		bpf_map_update_elem(&weir_meters, &flow, &fresh, BPF_NOEXIST);
		meter = bpf_map_lookup_elem(&weir_meters, &flow);
	}
	counts = bpf_map_lookup_elem(&weir_counts, &zero);
	if (!meter || !counts || !(packet.flags & ACK))
		return TC_ACT_UNSPEC;
	// A FIN takes one number.
	ack = packet.ack - (meter->is_closing && packet.ack == meter->flow.next_seq + 1);
	if (note(meter, counts, ack, packet.payload_bytes, bpf_ktime_get_ns()) && meter->is_closing)
		finish(meter, counts);
	return TC_ACT_UNSPEC;
}
