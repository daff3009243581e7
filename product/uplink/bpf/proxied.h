// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The client that a proxy names at the beginning of a connection: the header of HAProxy's PROXY protocol, versions 1 and 2
// (proxy-protocol.txt). Only a header that is whole in the first packet of data counts. The SYN-ACK shows which packet
// that is, so nothing is stored for a SYN, and what a client sends later through the proxy is never read.
#ifndef WEIR_PROXIED_H
#define WEIR_PROXIED_H

#include "head.h"
#include "path.h"

// Maximum number of stored connections, 128 bytes each; beyond it, one that sent nothing for long counts by its address.
// The table has one place if no header is read.
#define PROXIED_MAX (1 << 16)
// The maximum length of a header of version 1; one of version 2 has the source within these bytes.
#define HEADER_BYTES_MAX 107
// A power of two minus one, for the verifier.
#define HEADER_MASK 127
// "PROXY TC", and "CP4 " or "CP6 " from its last byte on, with the first byte lowest; the source begins behind them.
#define V1_START 0x43542059584f5250ull
#define V1_KIND_AT 7
#define V1_TCP4 0x20345043u
#define V1_TCP6 0x20365043u
#define V1_SOURCE_AT 11
#define V4_GROUPS 4
#define V6_GROUPS 8
// The signature's 12 bytes, the version with the command PROXY, the families, and where the source begins.
#define V2_START 0x0d0a0d0a000d0a51ull
#define V2_START_END 0x5549540au
#define V2_PROXY 0x21
#define V2_TCP4 0x11
#define V2_TCP6 0x21
#define V2_SOURCE_AT 16
#define V2_TCP4_BYTES 12
#define V2_TCP6_BYTES 36

// Per CPU. Volatile, so that the verifier does not track what has been read so far: each turn of the loop looks alike to it.
struct header {
	__u8 bytes[HEADER_MASK + 1 + WORD_BYTES];
	volatile __u64 words[2];
	// The words and the number of groups before `::`, if there is one.
	volatile __u64 before[2];
	volatile __u32 groups_before;
	volatile __u32 has_gap;
	volatile __u32 groups;
	volatile __u32 number;
	volatile __u32 has_digits;
	volatile __u32 is_over;
	volatile __u32 version;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct header);
} weir_header SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PROXIED_MAX);
	__type(key, struct tuple);
	__type(value, struct client_key);
} weir_proxied SEC(".maps");

// Returns the value of a digit; a large number if it is none.
static __always_inline __u32 digit_of(__u8 c, bool is_v6)
{
	__u8 letter = (c | 0x20) - 'a';

	return is_digit(c) ? c - '0' : is_v6 && letter < 6 ? letter + 10 : ~0u;
}

// Reads one character of the source. Returns false if it cannot be there.
static __always_inline bool read_character(struct header *header, __u8 c, __u8 last)
{
	bool is_v6 = header->version == 6, ends = c == (is_v6 ? ':' : '.') || c == ' ';
	__u32 digit = digit_of(c, is_v6), bits = is_v6 ? 16 : 8;

	if (digit != ~0u) {
		header->number = header->number * (is_v6 ? 16 : 10) + digit;
		header->has_digits = 1;
		// A colon before the first group is half of `::`.
		return header->number < 1u << bits && (last != ':' || header->groups || header->has_gap);
	}
	if (ends && header->has_digits) {
		header->words[0] = header->words[0] << bits | header->words[1] >> (64 - bits);
		header->words[1] = header->words[1] << bits | header->number;
		header->number = header->has_digits = 0;
		header->groups++;
	} else if (c == ':' && last == ':' && is_v6 && !header->has_gap) {
		header->before[0] = header->words[0];
		header->before[1] = header->words[1];
		header->words[0] = header->words[1] = 0;
		header->groups_before = header->groups;
		header->has_gap = 1;
	} else if (c == ':' ? header->groups || last != ' ' : !header->has_gap || last != ':' || header->groups != header->groups_before) {
		return false;
	}
	header->is_over = c == ' ';
	return true;
}

// Reads the source of a line of version 1, of which so many bytes are there. Returns 1 if the line is whole. Not static, so
// that the verifier checks it once.
__noinline int read_line_of_v1(struct header *header, __u32 bytes)
{
	if (!header)
		return 0;
	for (__u32 i = V1_SOURCE_AT; i < HEADER_BYTES_MAX && i < bytes; i++) {
		__u8 c = header->bytes[i], last = header->bytes[i - 1];

		if (c == '\n')
			return header->is_over && last == '\r';
		if (!header->is_over && !read_character(header, c, last))
			return 0;
	}
	return 0;
}

// Reads a header of version 1. Returns false if it names no client.
static __always_inline bool read_v1(struct header *header, __u32 bytes)
{
	__u32 kind = number_of(*(__u64 *)(header->bytes + V1_KIND_AT));

	header->words[0] = header->words[1] = header->before[0] = header->before[1] = 0;
	header->groups_before = header->has_gap = header->groups = header->number = header->has_digits = header->is_over = 0;
	header->version = kind == V1_TCP6 ? 6 : 4;
	if ((kind != V1_TCP4 && kind != V1_TCP6) || !read_line_of_v1(header, bytes))
		return false;
	if (header->version == 4) {
		header->words[0] = bpf_htonl(header->words[1]);
		return header->groups == V4_GROUPS;
	}
	for (__u32 i = 0; i < V6_GROUPS; i++) {
		if (i < header->groups_before)
			continue;
		header->before[0] = header->before[0] << 16 | header->before[1] >> 48;
		header->before[1] = header->before[1] << 16;
	}
	header->words[0] = bpf_cpu_to_be64(header->words[0] | header->before[0]);
	header->words[1] = bpf_cpu_to_be64(header->words[1] | header->before[1]);
	return header->has_gap ? header->groups < V6_GROUPS : header->groups == V6_GROUPS;
}

// Reads a header of version 2, of a packet with this number of bytes of payload.
static __always_inline bool read_v2(struct header *header, __u32 payload_bytes)
{
	__u32 bytes = header->bytes[14] << 8 | header->bytes[15];
	__u8 family = header->bytes[13];

	header->version = family == V2_TCP4 ? 4 : 6;
	header->words[0] = *(__u64 *)(header->bytes + V2_SOURCE_AT);
	header->words[1] = *(__u64 *)(header->bytes + V2_SOURCE_AT + WORD_BYTES);
	if (family == V2_TCP4)
		header->words[0] = *(__u32 *)(header->bytes + V2_SOURCE_AT);
	return header->bytes[12] == V2_PROXY && V2_SOURCE_AT + bytes <= payload_bytes &&
	       ((family == V2_TCP4 && bytes >= V2_TCP4_BYTES) || (family == V2_TCP6 && bytes >= V2_TCP6_BYTES));
}

// Loads the beginning of the payload, and reads the header there. Returns NULL if it names no client.
static __always_inline struct header *read_header(struct __sk_buff *skb, struct packet *packet)
{
	__u32 zero = 0, bytes = packet->payload_bytes < HEADER_BYTES_MAX ? packet->payload_bytes : HEADER_BYTES_MAX;
	struct header *header = bpf_map_lookup_elem(&weir_header, &zero);

	if (!header || bytes < V2_SOURCE_AT)
		return NULL;
	// As in `read_chunk`.
	asm volatile("" : "+r"(bytes));
	bytes = ((bytes - 1) & HEADER_MASK) + 1;
	if (bpf_skb_load_bytes(skb, packet->payload_at, header->bytes, bytes))
		return NULL;
	if (number_of(*(__u64 *)header->bytes) == V1_START)
		return read_v1(header, bytes) ? header : NULL;
	if (bpf_be64_to_cpu(*(__u64 *)header->bytes) != V2_START || bpf_ntohl(*(__u32 *)(header->bytes + 8)) != V2_START_END)
		return NULL;
	return read_v2(header, packet->payload_bytes) ? header : NULL;
}

// Reads the header in the first packet of data of a connection, and stores the client that it names. Not static, for the
// same reason.
__noinline int learn_client(struct __sk_buff *skb, struct packet *packet, struct tuple *flow)
{
	struct client_key client = {};
	struct handshake *handshake;
	struct header *header;
	struct tuple tuple;
	__u32 hash;

	if (!packet || !flow)
		return 0;
	// A copy, as in `classify_step`.
	tuple = *flow;
	hash = hash_of(&tuple);
	handshake = handshake_at(hash);
	if (!handshake || handshake->hash != hash || !handshake->awaits_data || handshake->data_seq != packet->seq)
		return 0;
	handshake->awaits_data = 0;
	header = read_header(skb, packet);
	if (!header)
		return 0;
	set_client(&client, header->version, header->words[0], header->words[1]);
	bpf_map_update_elem(&weir_proxied, &tuple, &client, BPF_ANY);
	return 0;
}

// Sets the client of a packet to the one that the proxy has named, if it has.
__noinline int set_proxied_client(struct __sk_buff *skb, struct packet *packet)
{
	struct client_key *client;
	struct tuple tuple;

	if (!packet || !read_tuple(skb, packet, &tuple))
		return 0;
	client = bpf_map_lookup_elem(&weir_proxied, &tuple);
	if (client)
		packet->client = *client;
	return 0;
}

#endif
