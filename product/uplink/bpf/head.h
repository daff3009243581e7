// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Reads the length of a response from its head (RFC 9112), eight bytes and a line at a time: with keep-alive every
// packet may contain a head, and reading its 250 bytes one at a time took 600 ns instead of 75. A head may be split
// between packets anywhere, and what has left cannot be read again, so the beginning of a line that continues in the
// next packet is stored. The result is an end in the stream, or that none can be known.
#ifndef WEIR_HEAD_H
#define WEIR_HEAD_H

#include "classify.h"

// Maximum bytes read of a head, including interim heads before it; nginx sends some 250 bytes, Apache 350.
#define HEAD_BYTES_MAX 4096
// Bytes read from the packet at once.
#define CHUNK_BYTES 256
// An interim head ends a chunk, and has at least a status line.
#define CHUNKS_MAX (HEAD_BYTES_MAX / STATUS_BYTES)
// A response longer than 1 PiB is considered implausible.
#define LENGTH_MAX (1ull << 50)
// Maximum number of characters between a Content-Length's colon and the end of its line.
#define VALUE_BYTES_MAX 64

// Text as numbers, with the first byte lowest. Bit 5 turns a letter into lower case; the few other bytes that it turns
// into a character of a name occur in no name that a server sends.
#define TO_LOWER 0x2020202020202020ull
#define NAME_START 0x2d746e65746e6f63ull /* "content-" */
#define NAME_END 0x3a6874676e656c2dull	 /* "-length:" */
#define NAME_END_AT 7
#define NAME_BYTES 15
#define HEAD_END 0x0a0d0a0dull /* the end of the last line, and an empty one */
#define HEAD_END_BYTES 4
// Pairs of bytes with one byte between them, in a word.
#define PAIRS (WORD_BYTES - 2)
#define VERSION 0x2e312f50545448ull /* "HTTP/1." */
#define VERSION_BYTES 7
// The offset of the three digits in a status line, and the length that includes them.
#define DIGITS_AT 9
#define STATUS_BYTES 12

// For the verifier: offsets in the text (the stored beginning of a line, a chunk and a newline) are below this power of
// two.
#define TEXT_MASK 511

// Per CPU: a program does not interrupt itself.
struct text {
	// A line begins up to two words before the end.
	__u8 bytes[TEXT_MASK + 1 + 3 * WORD_BYTES];
	// The start of the line that is being read, and the end of the text. Volatile, so that the verifier does not track
	// their values.
	volatile __u32 line;
	volatile __u32 end;
	// The end of the packet: beyond the text if that does not hold all of it.
	__u32 packet_end;
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
	// The offset of the packet's next byte to read, and of the packet's end.
	__u32 at;
	__u32 end;
};

// Eight bytes from any offset, in memory order; with CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS the verifier accepts that.
static __always_inline __u64 *word_of(struct text *text, __u32 at)
{
	return (__u64 *)(text->bytes + (at & TEXT_MASK));
}

// Converts to a number with the first byte lowest.
static __always_inline __u64 number_of(__u64 word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(word);
#else
	return word;
#endif
}

static __always_inline __u64 number_at(struct text *text, __u32 at)
{
	return number_of(*word_of(text, at));
}

static __always_inline bool is_digit(__u8 c)
{
	return c >= '0' && c <= '9';
}

// Returns the highest bit of each byte that is a newline: the addition carries into it unless the byte is one.
static __always_inline __u64 newlines_in(__u64 number)
{
	__u64 difference = number ^ 0x0a0a0a0a0a0a0a0aull, low = 0x7f7f7f7f7f7f7f7full;

	return ~(((difference & low) + low) | difference | low);
}

// Returns the index of the byte that has the lowest set bit; only the highest bits of bytes may be set.
static __always_inline __u32 first_of(__u64 bits)
{
	return ((bits & -bits) >> 7) * 0x0001020304050607ull >> 56;
}

// Ends the head; `end` is where the body begins.
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

// Returns true if these bytes are the beginning of a status line.
static __always_inline bool is_version(struct text *text, __u32 line, __u32 bytes)
{
	__u32 unused = 8 * (WORD_BYTES - (bytes < VERSION_BYTES ? bytes : VERSION_BYTES));

	return bytes == 0 || (number_at(text, line) ^ VERSION) << unused == 0;
}

// Reads the status from a line that begins as a status line. The rest of the line is read as a field, which it does not
// resemble.
static __always_inline void read_status(struct flow *flow, struct text *text, __u32 line)
{
	__u64 digits = number_at(text, line + WORD_BYTES) >> 8 * (DIGITS_AT - WORD_BYTES);
	__u8 hundreds = digits, tens = digits >> 8, ones = digits >> 16;

	if (is_digit(hundreds) && is_digit(tens) && is_digit(ones)) {
		flow->status = (hundreds - '0') * 100 + (tens - '0') * 10 + (ones - '0');
		flow->phase = PHASE_FIELDS;
	} else {
		flow->phase = PHASE_UNKNOWN;
	}
}

// Reads the value of a Content-Length; a second one must be equal to the first.
static __always_inline void read_length(struct flow *flow, struct text *text, __u32 at)
{
	bool has_digit = false, is_after = false;
	__u64 length = 0;

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
			return;
		} else {
			break;
		}
	}
	flow->phase = PHASE_UNKNOWN;
}

// Returns true if the first empty line after the newline at `at` ends just before `body`. Searches for two newlines
// with a byte between them in overlapping words, since a word holds six such pairs.
static __always_inline bool is_first_end(struct text *text, __u32 at, __u32 body)
{
	for (__u32 i = 0; i < CHUNK_BYTES + PAIRS; i += PAIRS) {
		__u64 newlines = newlines_in(number_at(text, at + i)), pairs = newlines & newlines >> 16;

		if (at + i >= body)
			return false;
		if (pairs)
			return at + i + first_of(pairs) + 3 == body;
	}
	return false;
}

// A small response usually ends with its packet, so its length shows where its head must end; if the head does end
// there, after the newline at `at`, the lines between need not be read. In a packet of several responses another
// response's head may end there.
static __always_inline void find_end(struct flow *flow, struct text *text, __u32 at)
{
	__u32 body = text->packet_end - flow->length;

	if (flow->length > text->packet_end || body > text->end || body < at + HEAD_END_BYTES - 1)
		return;
	if ((__u32)number_at(text, body - HEAD_END_BYTES) == HEAD_END && is_first_end(text, at, body))
		finish(flow, flow->scanned + (body - KEPT_BYTES));
}

// Reads the line whose newline is at `at`. Not static, so that the verifier checks it once and not with every state of
// its caller.
__noinline int read_line(struct flow *flow, struct text *text, __u32 at)
{
	__u32 line, bytes;

	if (!flow || !text)
		return 0;
	line = text->line;
	bytes = at - line;
	if (bytes == 0 || (bytes == 1 && text->bytes[line & TEXT_MASK] == '\r')) {
		finish(flow, flow->scanned + (at + 1 - KEPT_BYTES));
	} else if ((number_at(text, line) | TO_LOWER) == NAME_START) {
		read_length(flow, text, line + NAME_BYTES);
		if (flow->phase == PHASE_FIELDS)
			find_end(flow, text, at);
	}
	return 0;
}

// Reads the lines of the text. Returns where it stopped. Newlines are searched a word at a time, wherever lines begin:
// searching for the end of each line from its start would depend on the end of the previous line.
static __always_inline __u32 read_lines(struct flow *flow, struct text *text)
{
	for (__u32 i = KEPT_BYTES; i < KEPT_BYTES + CHUNK_BYTES + WORD_BYTES; i += WORD_BYTES) {
		__u64 newlines = newlines_in(number_at(text, i));

		for (int j = 0; j < WORD_BYTES && newlines; j++) {
			__u32 line = text->line, at = i + first_of(newlines);

			if (at >= text->end)
				return text->end;
			if (at - line < 2 || (number_at(text, line + NAME_END_AT) | TO_LOWER) == NAME_END) {
				read_line(flow, text, at);
				if (flow->phase != PHASE_FIELDS) {
					text->line = at + 1;
					return at + 1;
				}
			}
			text->line = at + 1;
			newlines &= newlines - 1;
		}
	}
	return text->end;
}

// Stores the beginning of the line in which the text ends; no relevant line is longer than that.
static __always_inline void keep_line(struct flow *flow, struct text *text, __u32 end)
{
	__u32 line = text->line, bytes = end - line;

	if (bytes > KEPT_BYTES) {
		if ((number_at(text, line) | TO_LOWER) == NAME_START &&
		    (number_at(text, line + NAME_END_AT) | TO_LOWER) == NAME_END)
			flow->phase = PHASE_UNKNOWN;
		bytes = KEPT_BYTES;
	}
	flow->kept = bytes;
	if (bytes)
		for (int i = 0; i < KEPT_WORDS; i++)
			flow->line[i] = *word_of(text, line + i * WORD_BYTES);
}

// Reads the text. Returns where it stopped.
static __always_inline __u32 read_text(struct flow *flow, struct text *text)
{
	__u32 line = text->line, end = text->end, stop = end;

	if (flow->phase == PHASE_STATUS) {
		if (!is_version(text, line, end - line))
			flow->phase = PHASE_UNKNOWN;
		else if (end - line >= STATUS_BYTES)
			read_status(flow, text, line);
	}
	if (flow->phase == PHASE_FIELDS)
		stop = read_lines(flow, text);
	if (flow->phase < PHASE_KNOWN)
		keep_line(flow, text, stop);
	return stop;
}

// Reads a chunk. Returns 1 if nothing is left to read.
static long read_chunk(__u32 i, struct reading *reading)
{
	struct flow *flow = reading->flow;
	struct text *text = reading->text;
	__u32 bytes = reading->end - reading->at, line = KEPT_BYTES - flow->kept;

	if (reading->at >= reading->end || flow->scanned - flow->begin >= HEAD_BYTES_MAX)
		return 1;
	if (flow->kept)
		for (int word = 0; word < KEPT_WORDS; word++)
			*word_of(text, line + word * WORD_BYTES) = flow->line[word];
	if (bytes > CHUNK_BYTES)
		bytes = CHUNK_BYTES;
	// The same number, from 1 on: verifiers before Linux 6.8 do not conclude from a comparison that it is not 0, and
	// the compiler must not know that it is.
	asm volatile("" : "+r"(bytes));
	bytes = ((bytes - 1) & (CHUNK_BYTES - 1)) + 1;
	if (bpf_skb_load_bytes(reading->skb, reading->at, text->bytes + KEPT_BYTES, bytes)) {
		flow->phase = PHASE_UNKNOWN;
		return 1;
	}
	text->bytes[KEPT_BYTES + bytes] = '\n';
	text->line = line;
	text->end = KEPT_BYTES + bytes;
	text->packet_end = KEPT_BYTES + reading->end - reading->at;
	bytes = read_text(flow, text) - KEPT_BYTES;
	flow->scanned += bytes;
	reading->at += bytes;
	return flow->phase >= PHASE_KNOWN;
}

#ifdef INTERPRETED
// The same for a kernel that interprets programs, where bpf_loop cannot call back. Returns where it stopped, and above
// 32 bits whether nothing is left to read. Not static, so that the verifier checks it once and not at each turn of the
// loop.
__noinline __u64 read_part(struct __sk_buff *skb, struct flow *flow, __u32 at, __u32 end)
{
	struct reading reading = { .skb = skb, .flow = flow, .at = at, .end = end };
	__u64 is_over = 1;
	__u32 zero = 0;

	if (!flow)
		return is_over << 32;
	reading.text = bpf_map_lookup_elem(&weir_text, &zero);
	if (reading.text)
		is_over = read_chunk(0, &reading);
	return is_over << 32 | reading.at;
}
#endif

// Continues where the last packet ended, at `at` of a packet that ends at `end`. Not static, for the same reason.
__noinline int read_head(struct __sk_buff *skb, struct flow *flow, __u32 at, __u32 end)
{
	struct reading reading = { .skb = skb, .flow = flow, .at = at, .end = end };
	__u32 zero = 0;

	if (!flow)
		return 0;
	reading.text = bpf_map_lookup_elem(&weir_text, &zero);
	if (!reading.text)
		return 0;
#ifdef INTERPRETED
	for (__u32 i = 0; i < CHUNKS_MAX; i++) {
		__u64 part = read_part(skb, flow, reading.at, end);

		reading.at = part;
		if (part >> 32)
			break;
	}
#else
	bpf_loop(CHUNKS_MAX, read_chunk, &reading, 0);
#endif
	if (flow->phase < PHASE_KNOWN && (reading.at < end || flow->scanned - flow->begin >= HEAD_BYTES_MAX))
		flow->phase = PHASE_UNKNOWN;
	return 0;
}

#endif
