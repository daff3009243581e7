// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Fairness between clients: the account of core/sched/src/policy/client_share.rs, kept where packets are queued.
// src/classify/tests/clients.rs compares the two; client-test.bpf.c runs the account in this file.
//
// The differences come from a queue that is not visible. A client counts as waiting if data for it was queued in this
// turn or the last. The link is idle when it has had the time, at the rate of the tree, to carry everything that was
// queued.
#ifndef WEIR_CLIENT_H
#define WEIR_CLIENT_H

#include <stdbool.h>

#include "classify.h"

// Maximum number of stored accounts, some 100 bytes each; beyond it, a client that had nothing for long is forgotten.
#define CLIENTS_MAX (1 << 16)
// The duration of a turn, in which clients are counted.
#define TURN_NS 100000000ull
// A client that had the link to itself for this long is alone. A starved client sends nothing for seconds, and must not
// be considered gone before the other is ahead.
#define ALONE_NS 10000000000ull
// Maximum backlog: a shaper that drops packets has not carried everything that was counted.
#define BACKLOG_NS 1000000000ull
#define NS_PER_S 1000000000ull
#define US_PER_S 1000000ull
// More waiting clients than these are a crowd, for which the clock is slower by this factor, and by as many times as a
// crowd is larger than this if that is more.
#define CROWD 10
#define CROWD_SLOWS 3
// Prevents overflow of products: beyond it, the link has been idle for a minute.
#define IDLE_US_MAX (60 * US_PER_S)

// The version of IP of a client that has a mark instead of an address.
#define MARKED 0

// The leading bits of a client's address, of which an IPv4 address is the first four bytes; or its mark.
struct client_key {
	__u64 words[2];
	// The version of IP, or MARKED, and above its eight bits the class of responses.
	__u64 version;
};

struct client {
	// Bytes it has had, starting from the clock when it was last not ahead.
	__u64 tag;
	// The last turn in which something was queued for it.
	__u64 turn;
};

// The state of all clients of a link.
struct share {
	struct bpf_spin_lock lock;
	// Number of clients of this turn and of the previous one.
	__u32 clients;
	__u32 clients_before;
	__u32 unused;
	// The client charged last, as a number, and when it changed; 0 until there is a second client.
	__u64 last;
	__u64 changed_ns;
	__u64 turn;
	__u64 turn_ns;
	// Bytes that a client that always waits has had at least, and the remainder that was too small to advance this.
	__u64 clock;
	__u64 carry;
	// Bytes that the link must still carry, as of `at_ns`.
	__u64 backlog_bytes;
	__u64 at_ns;
};

static __always_inline void count_client(struct share *share, struct client *client)
{
	__u64 now = share->at_ns;

	if (now - share->turn_ns >= TURN_NS) {
		share->clients_before = now - share->turn_ns < 2 * TURN_NS ? share->clients : 0;
		share->clients = 0;
		share->turn++;
		share->turn_ns = now;
	}
	if (client->turn != share->turn) {
		client->turn = share->turn;
		share->clients++;
	}
}

// Returns the bytes that the link could have carried since the last call in addition to those it had.
static __always_inline __u64 idle_bytes(struct share *share, __u64 bytes_per_s, __u64 now)
{
	// The later of two processors may come first.
	__u64 us = now > share->at_ns ? (now - share->at_ns) / 1000 : 0, room, most = bytes_per_s * (BACKLOG_NS / NS_PER_S);

	share->at_ns += us * 1000;
	us = us < IDLE_US_MAX ? us : IDLE_US_MAX;
	room = us * bytes_per_s / US_PER_S;
	if (share->backlog_bytes > most)
		share->backlog_bytes = most;
	if (room < share->backlog_bytes) {
		share->backlog_bytes -= room;
		return 0;
	}
	room -= share->backlog_bytes;
	share->backlog_bytes = 0;
	return room;
}

// Returns true if a client is alone: it is then behind no other, and the policy alone orders its responses. Call it
// under the lock.
static __always_inline bool is_alone(struct share *share, struct client_key *key, __u64 now)
{
	__u64 number = key->words[0] * 31 + key->words[1] + key->version;

	if (share->last && share->last != number)
		share->changed_ns = now;
	share->last = number;
	return !share->changed_ns || now > share->changed_ns + ALONE_NS;
}

// Returns into how many parts the clock divides what was queued while this many clients wait.
static __always_inline __u64 parts_of(__u64 waiting)
{
	__u64 slows = waiting > CROWD_SLOWS * CROWD ? waiting : CROWD_SLOWS * CROWD;

	return (waiting > CROWD ? waiting * slows / CROWD : waiting) + 1;
}

// Charges the client with bytes queued for it. Returns by how many bytes it is ahead then. Call it under the lock.
static __always_inline __u64 charge(struct share *share, struct client *client, __u64 bytes, __u64 allowance, __u64 bytes_per_s,
				    __u64 now)
{
	__u64 parts;

	share->clock += idle_bytes(share, bytes_per_s, now);
	count_client(share, client);
	share->backlog_bytes += bytes;
	client->tag = (client->tag > share->clock ? client->tag : share->clock) + bytes;
	parts = parts_of(share->clients > share->clients_before ? share->clients : share->clients_before);
	bytes += share->carry;
	share->clock += bytes / parts;
	share->carry = bytes % parts;
	// If a client so far ahead still sends, no other client is waiting: the clock keeps up.
	if (client->tag > share->clock + 2 * allowance)
		share->clock = client->tag - 2 * allowance;
	return client->tag > share->clock ? client->tag - share->clock : 0;
}

#endif
