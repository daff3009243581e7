// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What the sender of a forwarded TCP flow knows of its path, gathered from the packets that pass in both directions: the
// bytes that left and that were acknowledged, and round trips. `weir attach` without a rate finds the line's rate by it,
// as it does by TCP_INFO of this host's own connections.
//
// A round trip goes from a segment that passes here to its acknowledgement, one at a time, and never spans a
// retransmission (Karn and Partridge, 1987). All other times are of the clock of ticks, which costs a fifth. Each packet costs constant work. src/classify/forwarded.rs reads the table.
#ifndef WEIR_PATH_H
#define WEIR_PATH_H

#include "packet.h"
#include "tracked.h"

// Of more flows at once, some are not followed; a power of two. The table takes 2 MB. Short responses over a line of 100 Mbit/s are
// 3,000 flows a second, each with its place for a second after its last packet.
#define PATHS_MAX PATHS_COUNT
// The places looked at, at random, for one that is free. With half of the table in use one flow in 16 finds none, and
// looks again with its next packet.
#define PATH_TRIES 4
// A flow that was idle for this long has left its place, and begins anew; one of which something is outstanding, which may
// wait in the bands, after the longer time. The table is read more often.
#define PATH_IDLE_NS 1000000000ull
#define PATH_GONE_NS 8000000000ull
// A flow goes on after packets that passed elsewhere, if they are fewer bytes than this.
#define PATH_GAP_MAX (1 << 20)
// Distinguishes a flow's number from the kernel's number of a socket.
#define PATH_NUMBER (1ull << 63)
// 32-bit words of a TCP header with timestamps, and without options.
#define WORDS_WITH_TIMESTAMPS 8
#define WORDS_MIN 5
// The words of a SACK option with one block.
#define SACK_WORDS 3

// Packets that leave write the first line of a cache, those of the client the second.
struct path {
	// Of this flow alone; 0 while the place is being taken. Its lowest bits are the place.
	__u64 number;
	// When its last packet of data left.
	__u64 sent_ns;
	// Payload: all that left, and the part of it that had left before.
	__u64 sent_bytes;
	__u64 again_bytes;
	// When the segment of the open round trip left, or 0.
	__u64 opened_ns;
	// Sequence numbers: sent up to here, and the end of the segment of the open round trip.
	__u32 next_seq;
	__u32 opened_seq;
	__u16 segment_bytes;
	__u8 version;
	__u8 has_timestamps;
	// That of its last packet, which names its band.
	__u32 priority;
	__u32 unused[2];
	// Payload that was acknowledged, and when the last of it was.
	__u64 acked_bytes;
	__u64 acked_ns;
	// When the last round trip ended; its length, a rise halved, and that of the shortest.
	__u64 tripped_ns;
	__u32 rtt_us;
	__u32 least_us;
	// The sequence number that everything is acknowledged up to.
	__u32 acked_seq;
	// Payload that has arrived beyond a gap (SACK), all of it before this sequence number.
	__u32 sacked_bytes;
	__u32 sacked_until;
	// The part of `again_bytes`, its lower half, that has filled gaps or come too late to.
	__u32 filled_bytes;
	__u64 client[2];
};

// A SACK block (RFC 2018): the sequence numbers from `left` to before `right`.
struct block {
	__u32 left;
	__u32 right;
};

_Static_assert(sizeof(struct path) == PATH_BYTES, "path");
_Static_assert(__builtin_offsetof(struct path, acked_bytes) == 64, "path.acked_bytes");

// At least one.
static __always_inline __u32 micros_between(__u64 from, __u64 until)
{
	__u64 lasted = (until - from) / 1000;

	return lasted < 1 ? 1 : lasted < ~0u ? lasted : ~0u;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PATHS_MAX);
	__type(key, __u32);
	__type(value, struct path);
} weir_paths SEC(".maps");

// Handshakes of which a round trip is open or has ended, by a hash of their addresses and ports; a power of two. A SYN-ACK
// takes its place from another, so a flood costs no more. Control packets do not wait in the bands, data may.
#define HANDSHAKES_MAX (1 << 10)

struct handshake {
	// When the SYN-ACK left; 0 if it left more than once.
	__u64 opened_ns;
	// The hash, and the round trip once it has ended.
	__u32 hash;
	__u32 rtt_us;
	// For proxied.h: where the client's data begins, and 1 while none of it has come.
	__u32 data_seq;
	__u32 awaits_data;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HANDSHAKES_MAX);
	__type(key, __u32);
	__type(value, struct handshake);
} weir_handshakes SEC(".maps");

static __always_inline __u32 hash_of(struct tuple *tuple)
{
	__u64 hash = ((__u64)tuple->source_port << 16 | tuple->destination_port) + 1;

	for (int i = 0; i < 4; i++)
		hash = (hash ^ tuple->addresses[i]) * 0x9e3779b97f4a7c15ull;
	return hash >> 32;
}

static __always_inline struct handshake *handshake_at(__u32 hash)
{
	__u32 at = hash & (HANDSHAKES_MAX - 1);

	return bpf_map_lookup_elem(&weir_handshakes, &at);
}

// Notes a SYN-ACK that leaves, which acknowledges up to `ack`.
static __always_inline void open_handshake(struct tuple *tuple, __u32 ack, __u64 now)
{
	__u32 hash = hash_of(tuple);
	struct handshake *handshake = handshake_at(hash);

	if (!handshake)
		return;
	// Its acknowledgement may be that of either, also if it leaves a third time.
	handshake->opened_ns = handshake->hash == hash ? 0 : now;
	handshake->hash = hash;
	handshake->rtt_us = 0;
	handshake->data_seq = ack;
	handshake->awaits_data = 1;
}

// Notes the first packet of a client that acknowledges one.
static __always_inline void end_handshake(struct tuple *tuple, __u64 now)
{
	__u32 hash = hash_of(tuple);
	struct handshake *handshake = handshake_at(hash);

	if (handshake && handshake->hash == hash && handshake->opened_ns && !handshake->rtt_us)
		handshake->rtt_us = micros_between(handshake->opened_ns, now);
}

// Returns the path of this flow; NULL if another has its place by now.
static __always_inline struct path *path_of(struct tracked *flow)
{
	__u32 at = flow->path & (PATHS_MAX - 1);
	struct path *path = flow->path ? bpf_map_lookup_elem(&weir_paths, &at) : NULL;

	return path && (__u32)path->number == flow->path ? path : NULL;
}

static __always_inline bool is_in_use(struct path *path, __u64 now)
{
	__u64 last = path->sent_ns;

	if (!last)
		return false;
	// Of a flow that sends, the second line is not needed.
	if (likely((__s64)(now - last) < (__s64)PATH_IDLE_NS))
		return true;
	if ((__s64)(path->acked_ns - last) > 0)
		last = path->acked_ns;
	return (__s64)(now - last) < (__s64)(path->acked_seq == path->next_seq ? PATH_IDLE_NS : PATH_GONE_NS);
}

// Gives the path the round trip of its handshake, if that was seen.
static __always_inline void take_handshake(struct path *path, struct tuple *tuple)
{
	__u32 hash = hash_of(tuple);
	struct handshake *handshake = handshake_at(hash);

	if (!handshake || handshake->hash != hash || !handshake->rtt_us)
		return;
	path->rtt_us = path->least_us = handshake->rtt_us;
	path->tripped_ns = handshake->opened_ns + handshake->rtt_us * 1000ull;
	handshake->hash = handshake->rtt_us = handshake->opened_ns = 0;
}

// Begins the path of a flow whose next packet is this. Returns NULL if no place is free.
static __always_inline struct path *begin_path(struct tracked *flow, struct packet *packet, struct tuple *tuple,
					       struct step *step)
{
	struct path *path;

	flow->path = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PATH_TRIES; i++) {
		__u32 at = bpf_get_prandom_u32() & (PATHS_MAX - 1);

		path = bpf_map_lookup_elem(&weir_paths, &at);
		if (!path || is_in_use(path, step->now))
			continue;
		__builtin_memset(path, 0, sizeof(*path));
		path->acked_seq = path->next_seq = path->sacked_until = step->seq;
		path->client[0] = tuple->addresses[2];
		path->client[1] = tuple->addresses[3];
		path->version = packet->version;
		path->has_timestamps = packet->tcp_words >= WORDS_WITH_TIMESTAMPS;
		path->sent_ns = step->now;
		take_handshake(path, tuple);
		path->number = PATH_NUMBER | (step->now & ~(__u64)(PATHS_MAX - 1)) | at;
		flow->path = path->number;
		return path;
	}
	return NULL;
}

// Returns the path that this packet of data continues, that of its flow, or begins.
static __always_inline struct path *path_for(struct path *path, struct tracked *flow, struct packet *packet, struct tuple *tuple,
					     struct step *step, enum stepped how)
{
	// A short response is sent again after the last word of its flow.
	if (likely(path && is_in_use(path, step->now) &&
		   (how == STEP_AGAIN || (flow->seen == SEEN && step->seq - path->next_seq < PATH_GAP_MAX))))
		return path;
	// What is sent again is no beginning.
	return how == STEP_AGAIN ? NULL : begin_path(flow, packet, tuple, step);
}

// Notes a packet of data that leaves, of segments of this size.
static __always_inline void note_leaving(struct path *path, struct step *step, enum stepped how, __u32 segment_bytes)
{
	path->sent_ns = step->now;
	path->sent_bytes += step->bytes;
	if (unlikely(how == STEP_AGAIN)) {
		path->again_bytes += step->bytes;
		// Its acknowledgement may be that of either.
		path->opened_ns = 0;
		return;
	}
	if (segment_bytes > path->segment_bytes)
		path->segment_bytes = segment_bytes;
	// What passed elsewhere, or before this flow was seen, counts neither as sent nor as acknowledged.
	path->acked_seq += step->seq - path->next_seq;
	path->next_seq = step->seq + step->bytes;
	if (path->opened_ns)
		return;
	path->opened_seq = step->seq + (segment_bytes < step->bytes ? segment_bytes : step->bytes);
	path->opened_ns = step->is_exact ? step->now : bpf_ktime_get_ns();
}

// Ends the open round trip. What the client alone adds to one, such as a late acknowledgement, counts half.
static __always_inline void end_trip(struct path *path, __u64 now)
{
	__u32 rtt_us = micros_between(path->opened_ns, now);

	path->rtt_us = path->rtt_us && rtt_us > path->rtt_us ? path->rtt_us + (rtt_us - path->rtt_us) / 2 : rtt_us;
	if (path->least_us && rtt_us < path->least_us)
		path->least_us = rtt_us;
	path->tripped_ns = now;
	path->opened_ns = 0;
}

// Reads the first SACK block of the packet, that of the segment that has just come. Returns false if no block lies beyond a
// gap. Below what is acknowledged it is of a segment that came twice (RFC 2883).
static __always_inline bool read_block(struct __sk_buff *skb, struct packet *packet, struct path *path, struct block *block)
{
	__u32 words = path->has_timestamps ? WORDS_WITH_TIMESTAMPS : WORDS_MIN;

	if (packet->tcp_words < words + SACK_WORDS)
		return false;
	// Behind the head of the option and two bytes of padding.
	if (bpf_skb_load_bytes(skb, packet->payload_at - (packet->tcp_words - words - 1) * 4, block, sizeof(*block)))
		return false;
	block->left = bpf_ntohl(block->left);
	block->right = bpf_ntohl(block->right);
	return (__s32)(block->left - packet->ack) > 0;
}

// Counts what a block adds to what was known to have arrived. Blocks grow and join; what fills a gap between them is
// counted when it is acknowledged.
static __always_inline void note_block(struct path *path, struct block block)
{
	__u32 from = (__s32)(path->sacked_until - block.left) > 0 ? path->sacked_until : block.left;

	if ((__s32)(block.right - from) <= 0 || (__s32)(block.right - path->next_seq) > 0)
		return;
	path->sacked_bytes += block.right - from;
	path->sacked_until = block.right;
}

// Notes what the client acknowledges, and what has come beyond a gap, if there is one.
static __always_inline void note_acked(struct path *path, __u32 ack, bool has_gap, struct block beyond)
{
	__u32 advanced, filled, known;
	bool ends_trip;
	__u64 now;

	// A FIN takes one number.
	if (ack == path->next_seq + 1)
		ack = path->next_seq;
	if ((__s32)(ack - path->next_seq) > 0 || (__s32)(ack - path->acked_seq) < 0)
		return;
	ends_trip = path->opened_ns && (__s32)(ack - path->opened_seq) >= 0;
	now = ends_trip ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
	if (ack == path->acked_seq) {
		if (has_gap && ack != path->next_seq) {
			note_block(path, beyond);
			path->acked_ns = now;
		}
		return;
	}
	advanced = ack - path->acked_seq;
	path->acked_bytes += advanced;
	path->acked_seq = ack;
	path->acked_ns = now;
	if (has_gap) {
		// What was sent again filled a gap. The rest, up to the next gap, had arrived before.
		filled = (__u32)path->again_bytes - path->filled_bytes;
		if (filled > advanced)
			filled = advanced;
		known = advanced - filled;
		path->filled_bytes += filled;
		path->sacked_bytes -= known < path->sacked_bytes ? known : path->sacked_bytes;
		note_block(path, beyond);
	} else {
		path->sacked_bytes = 0;
		path->sacked_until = ack;
		path->filled_bytes = path->again_bytes;
	}
	if (ends_trip)
		end_trip(path, now);
}

#endif
