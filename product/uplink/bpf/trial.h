// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A response from its request to its last byte. src/classify/meter.rs reads these structures by their offsets.
#ifndef WEIR_TRIAL_H
#define WEIR_TRIAL_H

#include <stdbool.h>

#include "tracked.h"

// The room for responses that are over and not read yet: 16,384 of them with the kernel's head of 8 bytes.
#define ENDED_BYTES (1 << 19)
// A response that is over.
struct ended {
	// When the client's last data before it arrived; if there was none, when its first packet was queued.
	__u64 begun_ns;
	__u64 ended_ns;
	__u64 bytes;
};

// Written by the process, which alternates.
struct turn {
	__u32 is_ordered;
	// Of packets in a turn without the order.
	__u32 priority;
};

struct counts {
	// Responses without an end, and those for which there was no room.
	__u64 unfinished;
	__u64 lost;
	// Bytes that clients acknowledged.
	__u64 acked_bytes;
};

struct meter {
	struct tracked flow;
	// When the client last sent data, and when this response began.
	__u64 asked_ns;
	__u64 begun_ns;
	// When all that was sent was acknowledged.
	__u64 acked_ns;
	// What the client acknowledged, from the flow's first packet on.
	__u32 acked_seq;
	// Set once the server has closed the connection.
	__u8 is_closing;
};

// Returns when the client had acknowledged all of the response; 0 if it has not.
static __always_inline __u64 end_of(struct meter *meter)
{
	bool is_over = meter->flow.sees_client && !is_outstanding(&meter->flow);

	return is_over && meter->acked_ns >= meter->begun_ns ? meter->acked_ns : 0;
}

// Notes a packet of the client. Returns true if it acknowledges everything, at last.
static __always_inline bool note(struct meter *meter, struct counts *counts, __u32 ack, __u32 bytes, __u64 now)
{
	bool was_outstanding = meter->flow.acked != meter->flow.next_seq;

	note_client_packet(&meter->flow, ack, bytes);
	if ((__s32)(ack - meter->acked_seq) > 0 && (__s32)(ack - meter->flow.next_seq) <= 0) {
		__sync_fetch_and_add(&counts->acked_bytes, ack - meter->acked_seq);
		meter->acked_seq = ack;
	}
	if (bytes)
		meter->asked_ns = now;
	if (!was_outstanding || is_outstanding(&meter->flow))
		return false;
	meter->acked_ns = now;
	return true;
}

#endif
