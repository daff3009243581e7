// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Reads how long a response is from its head (RFC 9112): a machine that takes a byte at a time and can stop after any, since
// a head may be split over packets anywhere. Its answer is an end in the stream, or that there is none to be known.
#ifndef WEIR_HEAD_H
#define WEIR_HEAD_H

#include "classify.h"

// Of a head (interim ones before it included) no more than this is read; nginx sends some 250 bytes, Apache 350.
#define HEAD_BYTES_MAX 4096
#define CHUNK_BYTES 256
#define CHUNKS_MAX (HEAD_BYTES_MAX / CHUNK_BYTES)
// A response longer than 1 PiB is not believed.
#define LENGTH_MAX (1ull << 50)

#define NAME_BYTES 15
// Values of `at` in PHASE_FIELDS beside how much of the name matched.
#define AT_OTHER 255
#define AT_RETURN 254
// Values of `at` in PHASE_LENGTH.
#define AT_NO_DIGIT 0
#define AT_DIGIT 1
#define AT_AFTER 2

static const char field_name[NAME_BYTES + 1] = "content-length:";
static const char version_start[8] = "HTTP/1.";

#define WORD_BYTES 8

struct chunk {
	union {
		__u8 bytes[CHUNK_BYTES];
		__u64 words[CHUNK_BYTES / WORD_BYTES];
	};
};

// The scratch space of the chunk being read; a program is not interrupted by itself on one CPU.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct chunk);
} weir_chunk SEC(".maps");

struct reading {
	struct __sk_buff *skb;
	struct flow *flow;
	struct chunk *chunk;
	// Where the packet ends and its next byte to be read is.
	__u32 end;
	__u32 at;
	// Bytes that the chunk holds, and those of them that are read.
	__u32 bytes;
	__u32 taken;
};

static __always_inline bool is_digit(__u8 c)
{
	return c >= '0' && c <= '9';
}

static __always_inline void read_status(struct flow *flow, __u8 c)
{
	__u8 at = flow->at;

	if (at < 7 && c != (__u8)version_start[at & 7]) {
		flow->phase = PHASE_UNKNOWN;
	} else if (at >= 9 && at < 12) {
		if (!is_digit(c))
			flow->phase = PHASE_UNKNOWN;
		flow->status = flow->status * 10 + (c - '0');
	} else if (c == '\n') {
		// A line that is over before its status told nothing.
		flow->phase = at < 12 ? PHASE_UNKNOWN : PHASE_FIELDS;
		flow->at = 0;
		return;
	}
	if (at < 12)
		flow->at = at + 1;
}

// The head is over, and `end` is where its body begins.
static __always_inline void finish(struct flow *flow, __u64 end)
{
	if (flow->status >= 100 && flow->status < 200 && flow->status != 101) {
		// An interim response; the final one follows.
		flow->phase = PHASE_STATUS;
		flow->at = 0;
		flow->status = 0;
		flow->has_length = 0;
	} else if (flow->status == 204 || flow->status == 304) {
		flow->phase = PHASE_KNOWN;
		flow->end = end;
	} else if (flow->has_length && flow->status != 101) {
		flow->phase = PHASE_KNOWN;
		flow->end = end + flow->length;
	} else {
		flow->phase = PHASE_UNKNOWN;
	}
}

static __always_inline void read_name(struct flow *flow, __u8 c, __u64 next)
{
	__u8 at = flow->at;

	if (c == '\n') {
		if (at == 0 || at == AT_RETURN)
			finish(flow, next);
		else
			flow->at = 0;
	} else if (at < NAME_BYTES) {
		__u8 lower = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;

		if (lower == (__u8)field_name[at & 15])
			flow->at = at + 1;
		else
			flow->at = at == 0 && c == '\r' ? AT_RETURN : AT_OTHER;
		if (flow->at == NAME_BYTES) {
			// A second Content-Length has to say what the first said; its digits are added up anew.
			flow->phase = PHASE_LENGTH;
			flow->at = AT_NO_DIGIT;
			flow->previous = flow->length;
			flow->length = 0;
		}
	} else {
		flow->at = AT_OTHER;
	}
}

static __always_inline void read_length(struct flow *flow, __u8 c)
{
	if (is_digit(c) && flow->at != AT_AFTER && flow->length < LENGTH_MAX / 10) {
		flow->length = flow->length * 10 + (c - '0');
		flow->at = AT_DIGIT;
	} else if (c == ' ' || c == '\t' || c == '\r') {
		flow->at = flow->at == AT_DIGIT ? AT_AFTER : flow->at;
	} else if (c == '\n' && flow->at != AT_NO_DIGIT && (!flow->has_length || flow->previous == flow->length)) {
		flow->has_length = 1;
		flow->phase = PHASE_FIELDS;
		flow->at = 0;
	} else {
		flow->phase = PHASE_UNKNOWN;
	}
}

static __always_inline void read_byte(struct flow *flow, __u8 c, __u64 next)
{
	if (flow->phase == PHASE_FIELDS)
		read_name(flow, c, next);
	else if (flow->phase == PHASE_STATUS)
		read_status(flow, c);
	else
		read_length(flow, c);
}

// Is the rest of the line of no interest?
static __always_inline bool is_skipping(struct flow *flow)
{
	return (flow->phase == PHASE_FIELDS && flow->at == AT_OTHER) || (flow->phase == PHASE_STATUS && flow->at == 12);
}

// Does one of the word's bytes end a line? A byte of the difference is zero exactly where the subtraction borrows first.
static __always_inline bool has_newline(__u64 word)
{
	__u64 difference = word ^ 0x0a0a0a0a0a0a0a0aull;

	return (difference - 0x0101010101010101ull) & ~difference & 0x8080808080808080ull;
}

// Takes the chunk's word `i`, eight bytes at once where they are of no interest, which most are; 1 when the head is over or
// cannot be read, and when the chunk is.
static long read_word(__u32 i, struct reading *reading)
{
	struct flow *flow = reading->flow;
	__u32 at = i * WORD_BYTES;

	if (i >= CHUNK_BYTES / WORD_BYTES)
		return 1;
	if (is_skipping(flow) && at + WORD_BYTES <= reading->bytes && !has_newline(reading->chunk->words[i])) {
		reading->taken = at + WORD_BYTES;
		return 0;
	}
	for (int j = 0; j < WORD_BYTES; j++) {
		__u8 c = reading->chunk->bytes[(at + j) & (CHUNK_BYTES - 1)];

		if (at + j >= reading->bytes)
			return 1;
		reading->taken = at + j + 1;
		if (c != '\n' && is_skipping(flow))
			continue;
		read_byte(flow, c, flow->scanned + at + j + 1);
		if (flow->phase >= PHASE_KNOWN)
			return 1;
	}
	return 0;
}

// Reads a chunk; 1 when nothing is left to be read.
static long read_chunk(__u32 i, struct reading *reading)
{
	struct flow *flow = reading->flow;
	__u32 bytes = reading->end - reading->at;

	if (reading->at >= reading->end || flow->scanned - flow->begin >= HEAD_BYTES_MAX)
		return 1;
	if (bytes > CHUNK_BYTES)
		bytes = CHUNK_BYTES;
	if (bytes == 0 || bpf_skb_load_bytes(reading->skb, reading->at, reading->chunk, bytes)) {
		flow->phase = PHASE_UNKNOWN;
		return 1;
	}
	reading->bytes = bytes;
	bpf_loop((bytes + WORD_BYTES - 1) / WORD_BYTES, read_word, reading, 0);
	flow->scanned += reading->taken;
	reading->at += reading->taken;
	return flow->phase >= PHASE_KNOWN;
}

// Reads on where the last packet ended, at `at` of a packet that goes on to `end`. Not static,
// so that the verifier looks at it by itself and not with every state of its caller.
__noinline int read_head(struct __sk_buff *skb, struct flow *flow, __u32 at, __u32 end)
{
	struct reading reading = { .skb = skb, .flow = flow, .at = at, .end = end };
	__u32 zero = 0;

	if (!flow)
		return 0;
	reading.chunk = bpf_map_lookup_elem(&weir_chunk, &zero);
	if (!reading.chunk)
		return 0;
	bpf_loop(CHUNKS_MAX, read_chunk, &reading, 0);
	if (flow->phase < PHASE_KNOWN && flow->scanned - flow->begin >= HEAD_BYTES_MAX)
		flow->phase = PHASE_UNKNOWN;
	return 0;
}

#endif
