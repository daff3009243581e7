// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Reads how long a response is from its head (RFC 9112), a line at a time: that is five times as fast as a byte at a time, and
// with keep-alive every packet may hold a head. A head may be split over packets anywhere, and what has left cannot be read
// again, so of the line that a packet ends in the beginning is kept. The answer is an end in the stream, or that there is none
// to be known.
#ifndef WEIR_HEAD_H
#define WEIR_HEAD_H

#include "classify.h"

#define WORD_BYTES 8
// Of a head (interim ones before it included) no more than this is read; nginx sends some 250 bytes, Apache 350.
#define HEAD_BYTES_MAX 4096
// Read from the packet at once.
#define CHUNK_BYTES 256
// Words and lines looked at in a chunk: without lines shorter than a word the whole of it.
#define STEPS_MAX 64
#define CHUNKS_MAX (HEAD_BYTES_MAX / STEPS_MAX)
// A response longer than 1 PiB is not believed.
#define LENGTH_MAX (1ull << 50)
// What may stand between a Content-Length's colon and the end of its line.
#define VALUE_BYTES_MAX 64

// Text as numbers, its first byte lowest. Bit 5 makes a letter a small one; the few other bytes that it changes into one of a
// name's are in no name that a server sends.
#define TO_LOWER 0x2020202020202020ull
#define NAME_START 0x2d746e65746e6f63ull /* "content-" */
#define NAME_END 0x003a6874676e656cull	 /* "length:" */
#define NAME_BYTES 15
#define VERSION 0x002e312f50545448ull /* "HTTP/1." */
#define SEVEN_BYTES 0x00ffffffffffffffull
// Where a status line has its three digits, and is over at the earliest.
#define STATUS_AT 9
#define STATUS_LINE_BYTES 12

// What of the text is in the scratch space: at most the kept beginning of a line, and a chunk.
#define TEXT_MASK 511

// A program is not interrupted by itself on one CPU.
struct text {
	// A line begins up to two words before the end.
	__u8 bytes[TEXT_MASK + 1 + 3 * WORD_BYTES];
	// Where the line that is being read begins. In memory, so that the verifier does not tell its values apart.
	volatile __u32 line;
	// Where the reading begins; written and read back for the same reason.
	volatile __u32 at;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct text);
} weir_text SEC(".maps");

struct reading {
	struct __sk_buff *skb;
	struct flow *flow;
	struct text *text;
	// Where the packet's next byte to be read is, and where the packet ends.
	__u32 at;
	__u32 end;
};

// Eight bytes from anywhere, as they lie there; with CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS the verifier lets that pass.
static __always_inline __u64 *word_of(struct text *text, __u32 at)
{
	return (__u64 *)(text->bytes + (at & TEXT_MASK));
}

// The same as a number with the first byte lowest.
static __always_inline __u64 number_at(struct text *text, __u32 at)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(*word_of(text, at));
#else
	return *word_of(text, at);
#endif
}

static __always_inline bool is_digit(__u8 c)
{
	return c >= '0' && c <= '9';
}

// The highest bit of each byte that ends a line, up to the first of them exactly: a byte of the difference is zero where the
// subtraction borrows first.
static __always_inline __u64 newlines_in(__u64 number)
{
	__u64 difference = number ^ 0x0a0a0a0a0a0a0a0aull;

	return (difference - 0x0101010101010101ull) & ~difference & 0x8080808080808080ull;
}

// Which byte has the lowest bit that is set, of the highest bits of bytes.
static __always_inline __u32 first_of(__u64 bits)
{
	return ((bits & -bits) >> 7) * 0x0001020304050607ull >> 56;
}

// The head is over, and `end` is where its body begins.
static __always_inline void finish(struct flow *flow, __u64 end)
{
	if (flow->status >= 100 && flow->status < 200 && flow->status != 101) {
		// An interim response; the final one follows.
		flow->phase = PHASE_STATUS;
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

// Takes a status line of so many bytes, or its first so many.
static __always_inline void read_status(struct flow *flow, struct text *text, __u32 line, __u32 bytes)
{
	__u64 digits = number_at(text, line + WORD_BYTES) >> 8 * (STATUS_AT - WORD_BYTES);
	__u8 hundreds = digits, tens = digits >> 8, ones = digits >> 16;

	if ((number_at(text, line) & SEVEN_BYTES) != VERSION || bytes < STATUS_LINE_BYTES || !is_digit(hundreds) ||
	    !is_digit(tens) || !is_digit(ones)) {
		flow->phase = PHASE_UNKNOWN;
		return;
	}
	flow->status = (hundreds - '0') * 100 + (tens - '0') * 10 + (ones - '0');
	flow->phase = PHASE_FIELDS;
}

static __always_inline bool is_length(struct text *text, __u32 line)
{
	return (number_at(text, line) | TO_LOWER) == NAME_START &&
	       ((number_at(text, line + WORD_BYTES) | TO_LOWER) & SEVEN_BYTES) == NAME_END;
}

// Takes the value of a Content-Length; a second one has to say what the first said. Not static, so that the verifier looks at
// it by itself and not with every state of its caller.
__noinline int read_length(struct flow *flow, struct text *text, __u32 at)
{
	bool has_digit = false, is_after = false;
	__u64 length = 0;

	if (!flow || !text)
		return 0;
	for (int i = 0; i < VALUE_BYTES_MAX; i++) {
		__u8 c = text->bytes[(at + i) & TEXT_MASK];

		if (is_digit(c) && !is_after && length < LENGTH_MAX / 10) {
			length = length * 10 + (c - '0');
			has_digit = true;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			is_after = has_digit;
		} else if (c == '\n' && has_digit && (!flow->has_length || flow->length == length)) {
			flow->has_length = 1;
			flow->length = length;
			return 0;
		} else {
			break;
		}
	}
	flow->phase = PHASE_UNKNOWN;
	return 0;
}

// Takes a line of so many bytes, whose newline is the stream's byte before `next`.
static __always_inline void read_line(struct flow *flow, struct text *text, __u32 line, __u32 bytes, __u64 next)
{
	if (flow->is_skipping)
		flow->is_skipping = 0;
	else if (flow->phase == PHASE_STATUS)
		read_status(flow, text, line, bytes);
	else if (bytes == 0 || (bytes == 1 && text->bytes[line & TEXT_MASK] == '\r'))
		finish(flow, next);
	else if (is_length(text, line))
		read_length(flow, text, line + NAME_BYTES);
}

// Keeps the beginning of the line that the text ends in, or finds that the rest of it is of no interest.
static __always_inline void keep_line(struct flow *flow, struct text *text, __u32 line, __u32 end)
{
	__u32 bytes = end - line;

	flow->kept = 0;
	if (flow->is_skipping || bytes == 0)
		return;
	if (bytes > KEPT_BYTES) {
		if (flow->phase == PHASE_STATUS)
			read_status(flow, text, line, bytes);
		else if (is_length(text, line))
			flow->phase = PHASE_UNKNOWN;
		flow->is_skipping = 1;
		return;
	}
	// What is no HTTP is not waited for.
	if (flow->phase == PHASE_STATUS) {
		__u64 mask = bytes < 7 ? (1ull << (8 * bytes)) - 1 : SEVEN_BYTES;

		if ((number_at(text, line) ^ VERSION) & mask)
			flow->phase = PHASE_UNKNOWN;
	}
	flow->kept = bytes;
	for (int i = 0; i < KEPT_WORDS; i++)
		flow->line[i] = *word_of(text, end - KEPT_BYTES + i * WORD_BYTES);
}

// Reads the lines of the text up to `end`; returns where it stopped.
static __always_inline __u32 read_lines(struct flow *flow, struct text *text, __u32 end)
{
	__u32 at;

	text->at = KEPT_BYTES;
	at = text->at;
	for (int i = 0; i < STEPS_MAX && at < end; i++) {
		__u64 newlines = newlines_in(number_at(text, at));

		if (!newlines) {
			at = (at + WORD_BYTES) & TEXT_MASK;
			continue;
		}
		at = (at + first_of(newlines)) & TEXT_MASK;
		if (at >= end)
			break;
		read_line(flow, text, text->line, at - text->line, flow->scanned + (at + 1 - KEPT_BYTES));
		at = (at + 1) & TEXT_MASK;
		text->line = at;
		if (flow->phase >= PHASE_KNOWN)
			break;
	}
	return at < end ? at : end;
}

// Reads a chunk; 1 when nothing is left to be read.
static long read_chunk(__u32 i, struct reading *reading)
{
	struct flow *flow = reading->flow;
	struct text *text = reading->text;
	__u32 bytes = reading->end - reading->at, end;

	if (reading->at >= reading->end || flow->scanned - flow->begin >= HEAD_BYTES_MAX)
		return 1;
	if (bytes > CHUNK_BYTES)
		bytes = CHUNK_BYTES;
	if (bytes == 0 || bpf_skb_load_bytes(reading->skb, reading->at, text->bytes + KEPT_BYTES, bytes)) {
		flow->phase = PHASE_UNKNOWN;
		return 1;
	}
	text->line = KEPT_BYTES - flow->kept;
	if (flow->kept)
		for (int word = 0; word < KEPT_WORDS; word++)
			*word_of(text, word * WORD_BYTES) = flow->line[word];
	end = read_lines(flow, text, KEPT_BYTES + bytes);
	if (flow->phase < PHASE_KNOWN)
		keep_line(flow, text, text->line, end);
	flow->scanned += end - KEPT_BYTES;
	reading->at += end - KEPT_BYTES;
	return flow->phase >= PHASE_KNOWN;
}

// Reads on where the last packet ended, at `at` of a packet that goes on to `end`. Not static, as above.
__noinline int read_head(struct __sk_buff *skb, struct flow *flow, __u32 at, __u32 end)
{
	struct reading reading = { .skb = skb, .flow = flow, .at = at, .end = end };
	__u32 zero = 0;

	if (!flow)
		return 0;
	reading.text = bpf_map_lookup_elem(&weir_text, &zero);
	if (!reading.text)
		return 0;
	bpf_loop(CHUNKS_MAX, read_chunk, &reading, 0);
	if (flow->phase < PHASE_KNOWN && flow->scanned - flow->begin >= HEAD_BYTES_MAX)
		flow->phase = PHASE_UNKNOWN;
	return 0;
}

#endif
