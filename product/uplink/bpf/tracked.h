// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Flows without a TCP socket here, by their addresses and ports as they leave: forwarded from containers and other
// hosts, and QUIC, whose connections share a socket.
//
// They are ranked by the bytes of the response sent so far. What the client sends is seen where it arrives over the same
// interface; then a response begins as one of a socket. If only packets to the client are seen, the start of a response
// is inferred from them: the bytes that they acknowledge show that the client has sent something, and a gap that
// nothing is outstanding.
#ifndef WEIR_TRACKED_H
#define WEIR_TRACKED_H

#include <stdbool.h>

#include "classify.h"

// Maximum number of stored flows; beyond it, one that sent nothing for long is forgotten. The map takes 128 bytes for
// each, 8 MB, from the start: two lines of a cache, with the kernel's 48 and the key.
#define TRACKED_MAX (1 << 16)
// Minimum gap before a response that the client has asked for, if the client's packets are not seen. A download of many flows in turn pauses for less, even
// if its client sends WINDOW_UPDATE meanwhile.
#define ASKED_GAP_NS 200000000ull
// Minimum gap before a response if nothing shows that the client has asked.
#define IDLE_GAP_NS 1000000000ull

// The addresses, ports and protocol of a packet as it leaves.
struct tuple {
	// Source and destination, two words each; an IPv4 address is the first four bytes.
	__u64 addresses[4];
	// In network byte order.
	__u16 source_port;
	__u16 destination_port;
	__u32 protocol;
};

struct tracked {
	// Bytes of the response sent before `next_seq`.
	__u64 sent;
	__u64 last_ns;
	// TCP only: the sequence number after the last byte sent, what the last packet acknowledged, and what the client did.
	__u32 next_seq;
	__u32 ack;
	__u32 acked;
	// The priority of its last packet.
	__u32 priority;
	__u8 band;
	__u8 seen;
	// Set if packets of the client are seen, and if data of it came since the response began.
	__u8 sees_client;
	__u8 was_asked;
	// The lower half of `path.number`, or 0.
	__u32 path;
};

_Static_assert(sizeof(struct tuple) + sizeof(struct tracked) == 80, "a flow in the map takes more than two lines of a cache");

// A packet of data.
struct step {
	__u64 now;
	// False if `now` is the time of the last tick.
	bool is_exact;
	__u32 seq;
	__u32 ack;
	__u32 bytes;
	bool has_seq;
	// True if its payload is the beginning of an HTTP/1 response.
	bool is_head;
};

enum stepped { STEP_AGAIN = 0, STEP_ON = 1, STEP_BEGIN = 2 };

// Notes a packet of the client.
static __always_inline void note_client_packet(struct tracked *tracked, __u32 ack, __u32 bytes)
{
	// Another processor may have the line: it is written only where something changes.
	if (unlikely(!tracked->sees_client))
		tracked->sees_client = 1;
	if ((__s32)(ack - tracked->acked) > 0 && (__s32)(ack - tracked->next_seq) <= 0)
		tracked->acked = ack;
	if (bytes && !tracked->was_asked)
		tracked->was_asked = 1;
}

// Returns true if the client has sent something since the flow's last packet.
static __always_inline bool has_asked(struct tracked *tracked, struct step *step)
{
	return step->has_seq && (__s32)(step->ack - tracked->ack) > 0;
}

// Returns true if packets of the flow may be outstanding: then none may overtake them.
static __always_inline bool is_outstanding(struct tracked *tracked)
{
	return tracked->sees_client && tracked->acked != tracked->next_seq;
}

// Returns true if a response begins with this packet, which is no repetition.
static __always_inline bool is_answer(struct tracked *tracked, struct step *step, __u64 gap)
{
	if (tracked->sees_client)
		return tracked->was_asked && !is_outstanding(tracked);
	return has_asked(tracked, step) && (gap >= ASKED_GAP_NS || step->is_head);
}

// Returns true if the flow has said its last (FIN) and this packet repeats data of its last response: the first packet of
// another connection with the same ports is a SYN.
static __always_inline bool repeats_ended(struct tracked *tracked, struct step *step)
{
	__u32 before_end = tracked->next_seq - (step->seq + step->bytes);

	return tracked->seen == CLOSED && step->has_seq && before_end < tracked->sent;
}

// Returns whether this packet begins a response, continues one, or repeats what was sent. A repetition is recognised by
// its numbers unless the flow was idle: ports are reused, with other numbers.
static __always_inline enum stepped stepped(struct tracked *tracked, struct step *step)
{
	__u64 gap = step->now > tracked->last_ns ? step->now - tracked->last_ns : 0;

	if (repeats_ended(tracked, step))
		return STEP_AGAIN;
	if (tracked->seen != SEEN || (gap >= IDLE_GAP_NS && !is_outstanding(tracked)))
		return STEP_BEGIN;
	if (step->has_seq && (__s32)(step->seq + step->bytes - tracked->next_seq) <= 0)
		return STEP_AGAIN;
	return is_answer(tracked, step, gap) ? STEP_BEGIN : STEP_ON;
}

// Counts the packet. After packets that were not seen, what the client acknowledged before means nothing. Returns the bytes of its response sent before it.
static __always_inline __u64 advance(struct tracked *tracked, struct step *step, enum stepped how)
{
	__u64 before = how == STEP_BEGIN ? 0 : tracked->sent;

	tracked->last_ns = step->now;
	if (how == STEP_AGAIN)
		return before;
	if (tracked->seen != SEEN || step->seq != tracked->next_seq)
		tracked->sees_client = 0;
	if (!tracked->sees_client)
		tracked->acked = step->seq;
	if (how == STEP_BEGIN)
		tracked->was_asked = 0;
	tracked->seen = SEEN;
	tracked->sent = before + step->bytes;
	tracked->next_seq = step->seq + step->bytes;
	tracked->ack = step->ack;
	return before;
}

#endif
