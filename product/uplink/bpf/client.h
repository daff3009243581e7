// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Fair between clients: the account of core/sched/src/policy/client_share.rs, kept where packets are queued. src/classify/tests/
// clients.rs holds the one against the other; client-test.bpf.c runs the account that is here.
//
// What differs is known of a queue that is not seen: a client counts among those that wait if data for it was queued in this turn
// or the last, and the link is idle when it has had the time, at the rate of the tree, to carry all that was queued.
#ifndef WEIR_CLIENT_H
#define WEIR_CLIENT_H

#include <stdbool.h>

#include "classify.h"

// Clients whose accounts are kept, some 100 bytes each: beyond, one that had nothing for long is forgotten.
#define CLIENTS_MAX (1 << 16)
// A turn, in which clients are counted.
#define TURN_NS 100000000ull
// A client that had the link to itself for so long is alone. One that is starved sends nothing for seconds, and must not be taken
// for gone before the other is ahead.
#define ALONE_NS 10000000000ull
// What is queued at most: a shaper that drops has not carried what was counted.
#define BACKLOG_NS 1000000000ull
#define NS_PER_S 1000000000ull
#define US_PER_S 1000000ull
// So that no product overflows: beyond, the link has been idle for a minute.
#define IDLE_US_MAX (60 * US_PER_S)

// The leading bits of its address; one of IPv4 is the first four bytes.
struct client_key {
	__u64 words[2];
	__u64 version;
};

struct client {
	// Bytes it has had, from where the clock was when it was last not ahead.
	__u64 tag;
	// The last turn in which something was queued for it.
	__u64 turn;
};

// Of all clients of a link.
struct share {
	struct bpf_spin_lock lock;
	// Clients of this turn and of the one before.
	__u32 clients;
	__u32 clients_before;
	__u32 unused;
	// The client charged last, as a number, and when it was another; 0 until there is a second.
	__u64 last;
	__u64 changed_ns;
	__u64 turn;
	__u64 turn_ns;
	// What a client that always waits has had at least, in bytes, and what was too little to move it.
	__u64 clock;
	__u64 carry;
	// What the link still has to carry, as of `at_ns`.
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

// The bytes that the link could have carried since, but for those it had.
static __always_inline __u64 idle_bytes(struct share *share, __u64 bytes_per_s, __u64 now)
{
	// Of two processors the later may come first.
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

// A client that is alone stands behind nobody: among its own responses the order is the policy's. To be called under the lock.
static __always_inline bool is_alone(struct share *share, struct client_key *key, __u64 now)
{
	__u64 number = key->words[0] * 31 + key->words[1] + key->version;

	if (share->last && share->last != number)
		share->changed_ns = now;
	share->last = number;
	return !share->changed_ns || now > share->changed_ns + ALONE_NS;
}

// So many bytes are queued for the client: by how many it is ahead then. To be called under the lock.
static __always_inline __u64 charge(struct share *share, struct client *client, __u64 bytes, __u64 allowance, __u64 bytes_per_s,
				    __u64 now)
{
	__u64 waiting;

	share->clock += idle_bytes(share, bytes_per_s, now);
	count_client(share, client);
	share->backlog_bytes += bytes;
	client->tag = (client->tag > share->clock ? client->tag : share->clock) + bytes;
	waiting = share->clients > share->clients_before ? share->clients : share->clients_before;
	bytes += share->carry;
	share->clock += bytes / (waiting + 1);
	share->carry = bytes % (waiting + 1);
	// What is sent although it is so far ahead finds nobody else waiting: the clock keeps up.
	if (client->tag > share->clock + 2 * allowance)
		share->clock = client->tag - 2 * allowance;
	return client->tag > share->clock ? client->tag - share->clock : 0;
}

#endif
