// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// A queueing discipline that sends, of all flows with packets waiting, the one whose next packet has the lowest rank.
//
// Bands order packets: one that is promoted overtakes its own connection's packets in the worse band, and TCP takes
// those for lost. Here flows are ordered. Each keeps its packets first in, first out; only the packet in front of each
// competes, by its rank, which is skb->priority: whatever number the tc program stamped, lower first. So no flow is
// ever reordered and a rank that falls with every packet (bytes remaining) acts at once.
//
//   rank 0 to 15 other traffic, which nobody classified: the priorities that the kernel itself gives. In a few queues of
//                its own that take turns, before all else while it has less than its share of the bytes, then behind
//                everything: a bulk transfer of it stops no response, and ssh is reached
//   rank 16      control (SYN-ACK, RST, ACKs, FIN without data): before any data, in one FIFO of its own; where its
//                flow has packets waiting here, behind those
//   equal ranks  share the bytes evenly
//   pacing       a BPF qdisc may stand only at the root, so nothing above it limits the rate: a watchdog timer does,
//                against the time at which the link will have sent what was handed down
//   bounds       flows, packets per flow, packets and bytes in all; when full, the last packet of the flow with the
//                worst rank goes, of the longest among those with the worst rank
//   guard        a small share of the bytes goes to the flow that has waited longest, so that none starves
//
// Needs Linux 6.16 (BPF qdiscs, bpf_list_front, bpf_rbtree_right). All callbacks but init run under the qdisc's own
// lock; the spin locks are the verifier's condition for touching lists and trees, and nobody ever waits for one.
#include "constants.h"
#include "weir_kernel.h"

#define FLOW_CONTROL 1ULL /* keys no socket address and no hash can be */
#define FLOW_EXCESS 2ULL
#define FLOW_BY_HASH (1ULL << 32)
#define FLOW_OTHER_FIRST 64ULL
#define OTHER_QUEUES 16
/* The kernel's own priorities end with TC_PRIO_MAX, 15; the classifier stamps from here on (bpf/classify.h). */
#define RANK_OTHER 0
/* As the bands' OTHER_SHARE_PERMILLE (src/tree/mod.rs). */
#define OTHER_PERMILLE 200
/* What other traffic may have saved up of its share. */
#define OTHER_CREDIT_MAX (4 * FRAME_BYTES)
/* So that one queue of other traffic does not take what all of them may hold, which is as much as one flow may. */
#define OTHER_QUEUE_PART 4

/* A red-black tree of n nodes is at most 2 log2(n + 1) deep: enough for half a million flows. */
#define TREE_DEPTH_MAX 40
/* Packets shed for one that arrives; more bytes than that leave room only over several arrivals. */
#define SHED_MAX 4
#define GUARD_LOOKS_MAX 8
#define GUARD_CREDIT_MAX (64 << 10)
/* What bpf_loop allows. */
#define PACKETS_MAX (1 << 23)
/* What one frame of Ethernet carries: a segmented packet counts the overhead once for each begun. */
#define FRAME_BYTES 1514
#define NS_PER_S 1000000000ULL

/* Written by whoever installs or adjusts; src/ranked/layout.rs has the same layout. */
struct settings {
	char kind[16]; /* whose these are */
	__u64 bytes_per_s;
	__u64 bytes_max;
	__u32 late_max_ns;    /* how late a timer may be before its delay costs throughput */
	__u32 overhead_bytes; /* per frame, beside what the kernel counts */
	__u32 flows_max;
	__u32 packets_max;
	__u32 flow_packets_max;
	__u32 guard_permille;
};

/* In layout.rs too. Only written under the qdisc's lock, so plain additions do. */
struct counters {
	char kind[16];
	__u64 packets;
	__u64 bytes;
	__u64 dropped_full; /* all queues together were full: shed from the worst */
	__u64 dropped_flow; /* the packet's own flow was full */
	__u64 dropped_memory;
	__u64 excess_packets; /* went to the shared FIFO, flows_max being reached */
	__u64 guard_bytes;
	__u64 backlog_bytes;
	__u32 backlog_packets;
	__u32 flows;
	__u32 flows_peak;
	__u32 waits; /* how often the timer was set */
};

struct settings settings SEC(".data.settings");
struct counters counters SEC(".data.counters");

struct packet {
	struct bpf_list_node node;
	struct sk_buff __kptr *skb;
	__u32 rank;
	__u32 bytes;
};

/* A flow with packets waiting. It is made with its first packet and gone with its last. */
struct flow {
	struct bpf_spin_lock lock;
	__u32 packets;
	struct bpf_list_head queue __contains(packet, node);
	__u32 rank; /* of the packet in front */
	__u32 is_other;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct flow);
	__uint(max_entries, 16384 + 18); /* flows_max, control, excess and other traffic: set before loading */
} flows SEC(".maps");

/* A flow's place in both orders: by rank, and by how long it has waited. */
struct turn {
	struct bpf_rb_node rank_node;
	struct bpf_rb_node wait_node;
	struct bpf_refcount refcount;
	__u32 rank;
	__u64 key;
	__u64 tag;     /* bytes sent, counted from the tag served last when it came: orders equal ranks, the least first */
	__u64 served;  /* the number of its last service, or of its arrival */
	__u64 waiting; /* `served` when it was put into by_wait; corrected when it comes to the front there */
};

#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))
private(turns) struct bpf_spin_lock turns_lock;
private(turns) struct bpf_rb_root by_rank __contains(turn, rank_node);
private(turns) struct bpf_rb_root by_wait __contains(turn, wait_node);

/* What only these programs look at. */
struct state {
	__u64 owner;        /* the qdisc that initialised this object; there is one object per device */
	__u64 link_free_ns; /* when the link will have sent all that was handed down */
	__u64 service;      /* numbers arrivals of flows and services, upwards */
	__s64 guard_credit; /* in thousandths of a byte; a large packet leaves a debt */
	__s64 other_credit; /* the same, of other traffic's share */
	__u64 tag;          /* the highest of a flow served: it never moves backwards */
	__u64 other_tag;    /* the same for other traffic, which has its share at its own pace */
	__u64 longest_key;  /* about the longest flow: the last that was at least as long as the longest before */
	__u32 longest_packets;
	__u32 other_packets; /* waiting, of other traffic */
	bool is_busy; /* packets have waited ever since the last one was sent */
};
struct state state SEC(".data.state");

static bool less_rank(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	struct turn *x = container_of(a, struct turn, rank_node);
	struct turn *y = container_of(b, struct turn, rank_node);

	return x->rank < y->rank || (x->rank == y->rank && x->tag < y->tag);
}

static bool less_wait(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	struct turn *x = container_of(a, struct turn, wait_node);
	struct turn *y = container_of(b, struct turn, wait_node);

	return x->waiting < y->waiting;
}

/*
 * A virtual time only advances (VirtualTime of the crate `sched`): a flow that comes begins at the latest tag. Were it that of
 * the flow served last, one served seldom would take it back, and who comes then would have the link until it has caught up.
 */
static __always_inline void advance_to(__u64 *virtual_time, __u64 tag)
{
	if (tag > *virtual_time)
		*virtual_time = tag;
}

/* The connection where there is one, else the flow's hash: a datagram socket may talk to thousands. */
static __always_inline __u64 flow_key(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk) {
		__u8 tcp_state = sk->__sk_common.skc_state;

		if (tcp_state != TCP_CLOSE && tcp_state != TCP_LISTEN && tcp_state != TCP_TIME_WAIT &&
		    tcp_state != TCP_NEW_SYN_RECV)
			return (__u64)sk;
	}
	return FLOW_BY_HASH | bpf_skb_get_hash(skb);
}

/* Gives a flow that begins to wait its place in both orders; takes the turn over. */
static __always_inline void queue_turn(struct turn *turn, __u64 key, __u32 rank)
{
	struct turn *other = bpf_refcount_acquire(turn);

	turn->rank = rank;
	turn->key = key;
	turn->tag = rank == RANK_OTHER ? state.other_tag : state.tag;
	turn->served = turn->waiting = ++state.service;
	bpf_spin_lock(&turns_lock);
	bpf_rbtree_add(&by_rank, &turn->rank_node, less_rank);
	bpf_rbtree_add(&by_wait, &other->wait_node, less_wait);
	bpf_spin_unlock(&turns_lock);
}

/* Ends a flow whose last packet has gone; its turn is out of by_rank already and taken over. */
static __always_inline void end_flow(struct turn *turn)
{
	struct bpf_rb_node *node;
	__u64 key = turn->key;

	bpf_spin_lock(&turns_lock);
	node = bpf_rbtree_remove(&by_wait, &turn->wait_node);
	bpf_spin_unlock(&turns_lock);
	if (node)
		bpf_obj_drop(container_of(node, struct turn, wait_node));
	bpf_obj_drop(turn);
	bpf_map_delete_elem(&flows, &key);
	counters.flows--;
}

static __always_inline void account_removed(struct Qdisc *sch, __u64 key, struct flow *flow, __u32 bytes)
{
	flow->packets--;
	if (flow->is_other)
		state.other_packets--;
	if (state.longest_key == key)
		state.longest_packets = flow->packets;
	counters.backlog_packets--;
	counters.backlog_bytes -= bytes;
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
}

/* The flow that would be sent last: its key and rank, and, where asked, its turn taken out of by_rank. */
static __always_inline struct turn *worst(__u64 *key, __u32 *rank, bool take)
{
	struct bpf_rb_node *node, *last = NULL, *taken = NULL;

	bpf_spin_lock(&turns_lock);
	node = bpf_rbtree_root(&by_rank);
	for (int i = 0; i < TREE_DEPTH_MAX && node; i++) {
		last = node;
		node = bpf_rbtree_right(&by_rank, node);
	}
	if (last) {
		struct turn *turn = container_of(last, struct turn, rank_node);

		*key = turn->key;
		*rank = turn->rank;
		if (take)
			taken = bpf_rbtree_remove(&by_rank, last);
	}
	bpf_spin_unlock(&turns_lock);
	return taken ? container_of(taken, struct turn, rank_node) : NULL;
}

/* Drops the last packet of the flow with the worst rank and says which flow's it was; 0 if there was none. */
static __always_inline __u64 shed(struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	struct bpf_list_node *node;
	struct sk_buff *skb = NULL;
	struct packet *packet;
	struct flow *flow;
	__u64 key = 0;
	__u32 rank = 0;

	worst(&key, &rank, false);
	/* Among equally bad flows the longest pays: else one that has just come would never get in. */
	flow = bpf_map_lookup_elem(&flows, &state.longest_key);
	if (flow && flow->packets > 1 && flow->rank == rank)
		key = state.longest_key;
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow)
		return 0;
	bpf_spin_lock(&flow->lock);
	node = bpf_list_pop_back(&flow->queue);
	bpf_spin_unlock(&flow->lock);
	if (!node)
		return 0;
	packet = container_of(node, struct packet, node);
	skb = bpf_kptr_xchg(&packet->skb, skb);
	account_removed(sch, key, flow, packet->bytes);
	bpf_obj_drop(packet);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	sch->qstats.drops++;
	counters.dropped_full++;
	if (!flow->packets) {
		__u64 same = 0;
		struct turn *turn = worst(&same, &rank, true);

		if (turn)
			end_flow(turn);
	}
	return key;
}

static __always_inline bool is_full(void)
{
	return counters.backlog_packets > settings.packets_max || counters.backlog_bytes > settings.bytes_max;
}

/* The waiting flow a packet belongs to, made if need be; `key` becomes the key under which it is found. */
static __always_inline struct flow *flow_of(__u64 *key, __u32 rank, __u32 hash)
{
	struct flow empty = {};
	struct flow *flow = bpf_map_lookup_elem(&flows, key);

	if (flow)
		return flow;
	if (rank == RANK_CONTROL) {
		*key = FLOW_CONTROL;
	} else if (rank == RANK_OTHER) {
		*key = FLOW_OTHER_FIRST + hash % OTHER_QUEUES;
	} else if (counters.flows >= settings.flows_max) {
		*key = FLOW_EXCESS;
		counters.excess_packets++;
	} else {
		goto create;
	}
	flow = bpf_map_lookup_elem(&flows, key);
	if (flow)
		return flow;
create:
	if (bpf_map_update_elem(&flows, key, &empty, BPF_NOEXIST))
		return NULL;
	return bpf_map_lookup_elem(&flows, key);
}

SEC("struct_ops/weir_enqueue")
int BPF_PROG(weir_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	__u32 rank = skb->priority < RANK_CONTROL ? RANK_OTHER : skb->priority, bytes = qdisc_pkt_len(skb);
	__u64 key = flow_key(skb);
	struct flow *flow = flow_of(&key, rank, bpf_skb_get_hash(skb));
	struct packet *packet;

	if (!flow) {
		counters.dropped_memory++;
		goto drop;
	}
	if (flow->packets >= settings.flow_packets_max ||
	    (rank == RANK_OTHER && (state.other_packets >= settings.flow_packets_max ||
			       flow->packets > settings.flow_packets_max / OTHER_QUEUE_PART))) {
		counters.dropped_flow++;
		goto drop_flow;
	}
	packet = bpf_obj_new(struct packet);
	if (!packet) {
		counters.dropped_memory++;
		goto drop_flow;
	}
	if (!flow->packets) {
		struct turn *turn = bpf_obj_new(struct turn);

		if (!turn) {
			bpf_obj_drop(packet);
			counters.dropped_memory++;
			goto drop_flow;
		}
		flow->rank = rank;
		flow->is_other = rank == RANK_OTHER;
		queue_turn(turn, key, rank);
		counters.flows++;
		if (counters.flows > counters.flows_peak)
			counters.flows_peak = counters.flows;
	}
	packet->rank = rank;
	packet->bytes = bytes;
	skb = bpf_kptr_xchg(&packet->skb, skb);
	if (skb) /* never: the packet is new */
		bpf_qdisc_skb_drop(skb, to_free);
	bpf_spin_lock(&flow->lock);
	bpf_list_push_back(&flow->queue, &packet->node);
	bpf_spin_unlock(&flow->lock);

	flow->packets++;
	if (flow->is_other)
		state.other_packets++;
	if (flow->packets >= state.longest_packets) {
		state.longest_packets = flow->packets;
		state.longest_key = key;
	}
	counters.backlog_packets++;
	counters.backlog_bytes += bytes;
	sch->q.qlen++;
	sch->qstats.backlog += bytes;

	for (int i = 0; i < SHED_MAX && is_full(); i++) {
		/* The last packet of its own flow is the one that has just come. */
		if (shed(sch, to_free) == key)
			return NET_XMIT_DROP;
	}
	return NET_XMIT_SUCCESS;

drop_flow:
	if (!flow->packets)
		bpf_map_delete_elem(&flows, &key);
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

/* Flows that were served since they came to by_wait go to the places they have now, until the first is right. */
static __always_inline void correct_by_wait(void)
{
	for (int i = 0; i < GUARD_LOOKS_MAX; i++) {
		struct bpf_rb_node *node;
		struct turn *turn;

		bpf_spin_lock(&turns_lock);
		node = bpf_rbtree_first(&by_wait);
		if (node) {
			turn = container_of(node, struct turn, wait_node);
			node = turn->served != turn->waiting ? bpf_rbtree_remove(&by_wait, node) : NULL;
		}
		bpf_spin_unlock(&turns_lock);
		if (!node)
			return;
		turn = container_of(node, struct turn, wait_node);
		turn->waiting = turn->served;
		bpf_spin_lock(&turns_lock);
		bpf_rbtree_add(&by_wait, &turn->wait_node, less_wait);
		bpf_spin_unlock(&turns_lock);
	}
}

/* The best flow that is not of other traffic; NULL where there is none. To be called under the lock. */
static __always_inline struct bpf_rb_node *best_but_other(void)
{
	struct bpf_rb_node *node = bpf_rbtree_root(&by_rank), *best = NULL;

	for (int i = 0; i < TREE_DEPTH_MAX && node; i++) {
		if (container_of(node, struct turn, rank_node)->rank == RANK_OTHER) {
			node = bpf_rbtree_right(&by_rank, node);
		} else {
			best = node;
			node = bpf_rbtree_left(&by_rank, node);
		}
	}
	return best;
}

/* Takes the turn of the flow to serve now out of by_rank: the best, or the one that has waited longest. */
static __always_inline struct turn *take_turn(bool guard)
{
	struct bpf_rb_node *node;

	bpf_spin_lock(&turns_lock);
	node = bpf_rbtree_first(&by_rank);
	if (node && state.other_credit <= 0 && container_of(node, struct turn, rank_node)->rank == RANK_OTHER) {
		struct bpf_rb_node *best = best_but_other();

		if (best)
			node = best;
	}
	if (node && guard) {
		struct turn *best = container_of(node, struct turn, rank_node);

		if (best->rank > RANK_CONTROL) {
			struct bpf_rb_node *oldest = bpf_rbtree_first(&by_wait);

			if (oldest) {
				barrier_var(oldest); /* else clang adds before it tests for NULL */
				node = &container_of(oldest, struct turn, wait_node)->rank_node;
			}
		}
	}
	if (node)
		node = bpf_rbtree_remove(&by_rank, node);
	bpf_spin_unlock(&turns_lock);
	return node ? container_of(node, struct turn, rank_node) : NULL;
}

/* The first packet of the flow whose turn it is; the turn goes back into the order, or ends with the flow. */
static __always_inline struct sk_buff *serve(struct Qdisc *sch, struct turn *turn)
{
	struct bpf_list_node *node, *next;
	struct sk_buff *skb = NULL;
	__u32 next_rank = 0, bytes = 0;
	__u64 key = turn->key;
	struct packet *packet;
	struct flow *flow = bpf_map_lookup_elem(&flows, &key);

	if (!flow) { /* never: a turn is made with its flow */
		end_flow(turn);
		return NULL;
	}
	bpf_spin_lock(&flow->lock);
	node = bpf_list_pop_front(&flow->queue);
	next = bpf_list_front(&flow->queue);
	if (next)
		next_rank = container_of(next, struct packet, node)->rank;
	bpf_spin_unlock(&flow->lock);
	if (node) {
		packet = container_of(node, struct packet, node);
		skb = bpf_kptr_xchg(&packet->skb, skb);
		bytes = packet->bytes;
		account_removed(sch, key, flow, bytes);
		bpf_obj_drop(packet);
	}
	if (turn->rank == RANK_OTHER)
		advance_to(&state.other_tag, turn->tag);
	else
		advance_to(&state.tag, turn->tag);
	if (!flow->packets) {
		end_flow(turn);
		return skb;
	}
	flow->rank = next_rank;
	turn->rank = next_rank;
	turn->tag += bytes;
	turn->served = ++state.service;
	bpf_spin_lock(&turns_lock);
	bpf_rbtree_add(&by_rank, &turn->rank_node, less_rank);
	bpf_spin_unlock(&turns_lock);
	return skb;
}

/*
 * Moves the instant at which the link is free by what the packet takes on it. While packets wait, the link is as busy as
 * it can be, and what a late timer missed is sent after it: no more than the link would have sent by now. After an idle
 * time nothing is made up for.
 */
static __always_inline void occupy_link(__u64 now, __u32 bytes)
{
	__u64 wire_bytes = bytes + (__u64)settings.overhead_bytes * (1 + (bytes - 1) / FRAME_BYTES);
	__u64 earliest = state.is_busy ? now - settings.late_max_ns : now;
	__u64 rate = settings.bytes_per_s;

	if (state.link_free_ns < earliest)
		state.link_free_ns = earliest;
	if (rate)
		state.link_free_ns += (wire_bytes * NS_PER_S + rate / 2) / rate;
}

/* Gives other traffic its share of these bytes, and takes from it what it had; what it borrows when all else is idle is free. */
static __always_inline void share_with_other(__u32 bytes, bool was_other)
{
	state.other_credit += (__s64)bytes * OTHER_PERMILLE;
	if (was_other)
		state.other_credit -= bytes * 1000LL;
	if (state.other_credit > OTHER_CREDIT_MAX * 1000LL)
		state.other_credit = OTHER_CREDIT_MAX * 1000LL;
	if (state.other_credit < -FRAME_BYTES * 1000LL)
		state.other_credit = -FRAME_BYTES * 1000LL;
}

SEC("struct_ops/weir_dequeue")
struct sk_buff *BPF_PROG(weir_dequeue, struct Qdisc *sch)
{
	__u64 now = bpf_ktime_get_ns();
	struct sk_buff *skb;
	struct turn *turn;
	bool guard, was_other;
	__u32 bytes;

	if (!counters.backlog_packets)
		return NULL;
	if (now < state.link_free_ns) {
		counters.waits++;
		bpf_qdisc_watchdog_schedule(sch, state.link_free_ns, 0);
		return NULL;
	}
	guard = state.guard_credit >= FRAME_BYTES * 1000LL;
	if (guard)
		correct_by_wait();
	turn = take_turn(guard);
	if (!turn)
		return NULL;
	was_other = turn->rank == RANK_OTHER;
	skb = serve(sch, turn);
	if (!skb)
		return NULL;
	bytes = qdisc_pkt_len(skb);
	share_with_other(bytes, was_other);
	occupy_link(now, bytes);
	state.is_busy = counters.backlog_packets > 0;
	if (guard) {
		state.guard_credit -= bytes * 1000LL;
		counters.guard_bytes += bytes;
	} else if (state.guard_credit < GUARD_CREDIT_MAX * 1000LL) {
		state.guard_credit += (__s64)bytes * settings.guard_permille;
	}
	counters.packets++;
	counters.bytes += bytes;
	bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/weir_init")
int BPF_PROG(weir_init, struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	if (state.owner)
		return -EBUSY;
	state.owner = (__u64)sch;
	return 0;
}

struct drop_context {
	struct Qdisc *sch;
};

static long drop_next(__u64 nth, struct drop_context *context)
{
	struct turn *turn = take_turn(false);
	struct sk_buff *skb;

	if (!turn)
		return 1;
	skb = serve(context->sch, turn);
	if (skb)
		bpf_kfree_skb(skb);
	return 0;
}

/* Frees every waiting packet, one by one: with a deleted flow its queue is not freed at once (Linux 7.2). */
static __always_inline void drop_all(struct Qdisc *sch)
{
	struct drop_context context = { .sch = sch };

	if (state.owner != (__u64)sch)
		return;
	bpf_loop(PACKETS_MAX, drop_next, &context, 0);
	state.longest_packets = 0;
	state.link_free_ns = 0;
	state.is_busy = false;
}

SEC("struct_ops/weir_reset")
void BPF_PROG(weir_reset, struct Qdisc *sch)
{
	drop_all(sch);
}

SEC("struct_ops/weir_destroy")
void BPF_PROG(weir_destroy, struct Qdisc *sch)
{
	drop_all(sch);
	if (state.owner == (__u64)sch)
		state.owner = 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops weir_ranked = {
	.id = "weir_ranked", /* every loaded object has its own: set before loading */
	.enqueue = (void *)weir_enqueue,
	.dequeue = (void *)weir_dequeue,
	.init = (void *)weir_init,
	.reset = (void *)weir_reset,
	.destroy = (void *)weir_destroy,
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";
