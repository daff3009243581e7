// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The layout shared by the classifier and the program that attaches it: src/classify/settings.rs and counters.rs read
// these structures by the offsets in src/constants.rs. A change here requires a change there, and of LAYOUT.
#ifndef WEIR_CLASSIFY_H
#define WEIR_CLASSIFY_H

#include <linux/types.h>

// Written by build.rs.
#include "constants.h"

#define BAND_CONTROL 0
#define WORD_BYTES 8
#define UPLOADS 4
#define BY_MARK 256
#define BY_PROXY 512

enum policy { LAS = 0, PSJF = 1, SRPT = 2, SRRT = 3 };

// Conditions of a rule.
enum condition { ON_PORT = 1, ON_NETWORK = 2, ON_DSCP = 4, ON_MARK = 8, ON_CGROUP = 16 };

// What a packet of a class meets; a condition that is not there counts as met.
struct rule {
	// The network's first address, as in a header; an IPv4 address is the first four bytes.
	__u64 network[2];
	// 0 if the group is not there.
	__u64 cgroup;
	__u32 mark;
	__u16 port;
	__u8 conditions;
	__u8 class;
	__u8 version;
	__u8 bits;
	__u8 dscp;
	// Number of groups above the cgroup.
	__u8 level;
	__u32 unused;
};

_Static_assert(sizeof(struct rule) == RULE_BYTES, "rule");

// Fixed when the program is loaded: the verifier sees constants and removes the code of policies that are not used. It
// leaves their loads, so what each packet reads is together, with the usual ports in the same page of memory.
struct settings {
	__u32 layout;
	__u32 policy;
	// What attaching made and detaching must remove: 1 the clsact, 2 the tree. And 4: uploads are ordered too; 256: a
	// packet's mark identifies its client; 512: the PROXY header of its connection does.
	__u32 flags;
	__u32 cuts_count;
	// How many bytes a client may be ahead of its share of the link; 0 if clients do not share it.
	__u64 allowance_bytes;
	__u64 link_bytes_per_s;
	// Number of leading bits of an address that identify a client.
	__u32 v4_bits;
	__u32 v6_bits;
	// The first band of clients that are further ahead, and the number of such bands.
	__u32 behind_band;
	__u32 behind_bands;
	// Increasing, in bytes (srrt: microseconds); a value equal to a cut goes to the band below it. CUT_NONE behind the last.
	__u64 cuts[CUT_PLACES];
	// skb->priority of each band; 0 is control.
	__u32 priorities[BANDS_MAX];
	// 0 if all responses are alike. The first class is that of packets that no rule is for.
	__u32 classes_count;
	__u32 rules_count;
	// All conditions that a rule has.
	__u32 conditions;
	__u32 unused;
	// What a class has of the link by its weight, in thousandths.
	__u32 class_permille[CLASSES_MAX];
	struct rule rules[RULES_MAX];
	// Bit p % 64 of word p / 64 is set if source port p is wanted.
	__u64 ports[PORT_WORDS];
	// Not read here.
	char classes_text[CLASSES_TEXT_BYTES];
};

_Static_assert(CUTS_MAX <= CUT_PLACES && !(CUT_PLACES & (CUT_PLACES + 1)), "settings.cuts");
_Static_assert(__builtin_offsetof(struct settings, cuts) == CUTS_AT, "settings.cuts");
_Static_assert(__builtin_offsetof(struct settings, priorities) == PRIORITIES_AT, "settings.priorities");
_Static_assert(__builtin_offsetof(struct settings, ports) == PORTS_AT, "settings.ports");
_Static_assert(__builtin_offsetof(struct settings, allowance_bytes) == SHARE_AT, "settings.allowance_bytes");
_Static_assert(__builtin_offsetof(struct settings, classes_count) == CLASSES_AT, "settings.classes_count");
_Static_assert(__builtin_offsetof(struct settings, rules) == RULES_AT, "settings.rules");
_Static_assert(__builtin_offsetof(struct settings, classes_text) == CLASSES_TEXT_AT, "settings.classes_text");
_Static_assert(sizeof(struct settings) == SETTINGS_BYTES, "settings");

// All that a packet of a flow is counted by, in one place.
struct band_counters {
	__u64 packets;
	__u64 bytes;
	// Packets of data ordered by their flow, and those of them that arrived over an interface.
	__u64 by_flow;
	__u64 forwarded;
};

struct counters {
	struct band_counters bands[BANDS_MAX];
	__u64 responses;
	__u64 sizes_read;
	__u64 sizes_unknown;
	__u64 promotions;
	__u64 held_back;
	__u64 no_storage;
	// Packets of clients ahead of their share by more than the allowance.
	__u64 behind;
};

_Static_assert(__builtin_offsetof(struct counters, responses) == COUNTERS_RESPONSES_AT * 8, "counters.responses");
_Static_assert(sizeof(struct counters) == (COUNTERS_RESPONSES_AT + 7) * 8, "counters");

// The progress of reading a response's head.
enum phase { PHASE_STATUS = 0, PHASE_FIELDS = 1, PHASE_KNOWN = 2, PHASE_UNKNOWN = 3 };

// A connection may end with a response of unknown size, which is counted once.
enum seen { UNSEEN = 0, SEEN = 1, CLOSED = 2 };

// Whether the socket of a connection is in the interface's own network namespace.
enum home { HOME_UNKNOWN = 0, HOME_HERE = 1, HOME_ELSEWHERE = 2 };

// Bytes stored of a line that is split between packets: enough for `Content-Length:` with its value.
#define KEPT_WORDS 5
#define KEPT_BYTES (KEPT_WORDS * 8)

// A connection, from its first byte of data on. Offsets are in its byte stream, counted from accept.
struct flow {
	// Fields that every packet needs; the kernel stores them in one cache line, after 8 bytes of its own.
	__u64 begin;
	// 0 while the end is unknown.
	__u64 end;
	// The end of what was sent so far: data below it is a retransmission.
	__u64 highest;
	// Bytes that the peer had sent when this response began.
	__u64 received;
	// The priority of its last packet.
	__u32 priority;
	__u8 phase;
	__u8 band;
	__u8 seen;
	// Number of bytes stored of the head's line that is being read.
	__u8 kept;
	__u8 has_length;
	__u8 home;
	__u16 status;
	// When its last packet left, in units of 2^20 ns.
	__u32 last;
	// The offset of the next TLS record, as far as record heads are followed.
	__u64 record;
	// The head is read up to here.
	__u64 scanned;
	// Content-Length, if it was read from the head already.
	__u64 length;
	__u64 line[KEPT_WORDS];
};

#endif
