// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Examines every TCP and UDP packet that leaves an interface from one of the wanted ports and marks its urgency: puts it
// into a band (skb->priority is the class of a tree of ours).
//
// It supports servers that are unaware of it. A response begins when bytes have come in while nothing was outstanding,
// and its length is the Content-Length of its head. What cannot be read (TLS, HTTP/2, chunked) is ranked by what the
// server has written so far, and by the TLS record it has begun. All state of a connection is in its socket's storage
// and disappears with it: a SYN costs nothing. What has no TCP socket here is ranked by a table of flows (tracked.h).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "class.h"
#include "client.h"
#include "head.h"
#include "packet.h"
#include "path.h"
#include "proxied.h"
#include "rank.h"
#include "socket.h"
#include "tracked.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} weir_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} weir_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SIZE_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
} weir_sizes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CLIENTS_MAX);
	__type(key, struct client_key);
	__type(value, struct client);
} weir_clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CLASSES_MAX);
	__type(key, __u32);
	__type(value, struct share);
} weir_share SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACKED_MAX);
	__type(key, struct tuple);
	__type(value, struct tracked);
} weir_tracked SEC(".maps");

// What was put into the bands of responses, as they count it: with a head for each segment. Less what has left them and
// what waits there, it is what they have dropped.
__u64 put_bytes SEC(".data.weir_put");
// When a flow last overtook packets of its own (`may_overtake`).
__u64 overtook_ns SEC(".data.weir_rise");

// Maximum number of responses distinguished in one packet: 64 KiB hold this many of 2 KiB.
#define PIPELINED_MAX 32
// Converts nanoseconds to the units of `flow.last`.
#define TIME_SHIFT 20
// A TLS record: its content types (RFC 8446 has four), the version's first byte, and its maximum length (RFC 5246
// allows 2 KiB in addition to the text).
#define RECORD_HEAD_BYTES 5
#define RECORD_TYPE_MIN 20
#define RECORD_TYPE_MAX 23
#define RECORD_MAJOR 3
#define RECORD_BYTES_MAX (16384 + 2048)
// Maximum number of records that begin in one packet: 64 KiB hold this many full ones.
#define RECORDS_MAX 4
// Minimum time between two flows that overtake packets of their own: each has a burst of packets out of order.
#define OVERTAKE_NS 100000000ull

// Not static, for the same reason as `read_line`.
__noinline int count_size(__u64 bytes)
{
	__u32 octave = 0, bucket;
	__u64 *count, top = bytes;

	if (bytes == 0)
		return 0;
	for (__u32 shift = 32; shift; shift /= 2) {
		if (top >> shift) {
			top >>= shift;
			octave += shift;
		}
	}
	// The two bits below the highest one.
	bucket = octave * SIZE_STEPS + (octave >= 2 ? bytes >> (octave - 2) & 3 : bytes << (2 - octave) & 3);
	count = bpf_map_lookup_elem(&weir_sizes, &bucket);
	if (count)
		*count += 1;
	return 0;
}

// Counts a response of unknown size, which is over, by the bytes sent.
static __always_inline void count_sent(struct flow *flow)
{
	if (flow->seen == SEEN && !flow->end)
		count_size(flow->highest - flow->begin);
}

// Returns true if these bytes of a packet are the beginning of a response. At the end of a packet fewer bytes may be
// enough.
static __always_inline bool is_head(struct __sk_buff *skb, __u32 at, __u32 bytes)
{
	__u64 start = 0;

	// The verifier requires constant lengths.
	if (bytes >= VERSION_BYTES)
		return !bpf_skb_load_bytes(skb, at, &start, VERSION_BYTES) && number_of(start) == VERSION;
	for (__u32 i = 0; i < VERSION_BYTES - 1 && i < bytes; i++)
		if (bpf_skb_load_bytes(skb, at + i, (__u8 *)&start, 1) || (__u8)start != (__u8)(VERSION >> 8 * i))
			return false;
	return bytes > 0;
}

static __always_inline bool looks_like_head(struct __sk_buff *skb, struct packet *packet)
{
	return packet->payload_bytes >= VERSION_BYTES && is_head(skb, packet->payload_at, VERSION_BYTES);
}

// Returns true if nothing was sent for so long that an endless stream, of events or of WebSocket, is not ranked by what
// it sent before. A download that waits for its turn has something outstanding.
static __always_inline bool was_idle(struct flow *flow)
{
	return (__u32)(bpf_ktime_get_coarse_ns() >> TIME_SHIFT) - flow->last >= IDLE_GAP_NS >> TIME_SHIFT;
}

// Returns true if a response begins with this packet. That is so if the last one is over and a head follows
// (pipelining: the requests may have come together). It is also so if the peer has sent something since the last one
// began and nothing is outstanding (retransmissions look the same, but lie below `highest`); if the last response is
// declared to be unfinished, a head must follow as well. One without a known end begins anew after an idle time.
static __always_inline bool begins(struct __sk_buff *skb, struct flow *flow, struct bpf_tcp_sock *tcp, struct packet *packet,
				   __u64 offset)
{
	bool is_idle = packet->seq == tcp->snd_una, is_over = flow->end && flow->end <= offset;

	if (flow->seen == UNSEEN)
		return true;
	if (offset < flow->highest)
		return false;
	if (is_over && looks_like_head(skb, packet))
		return true;
	if (!is_idle)
		return false;
	if (tcp->bytes_received == flow->received)
		return !flow->end && was_idle(flow);
	return is_over || !flow->end || looks_like_head(skb, packet);
}

// Starts a response at this offset of the connection's bytes.
static __always_inline void begin_at(struct flow *flow, __u64 received, __u64 offset, struct counters *counters)
{
	count_sent(flow);
	flow->seen = SEEN;
	flow->begin = offset;
	flow->end = 0;
	flow->scanned = offset;
	flow->record = offset;
	flow->received = received;
	flow->length = 0;
	flow->has_length = 0;
	flow->kept = 0;
	flow->phase = settings.policy == LAS ? PHASE_UNKNOWN : PHASE_STATUS;
	counters->responses++;
}

static __always_inline void begin(struct __sk_buff *skb, struct flow *flow, struct bpf_tcp_sock *tcp, struct packet *packet,
				  __u64 offset, struct counters *counters)
{
	// Seen for the first time when it was not new: unless this is a head, its response counts as old as the connection.
	bool is_late = flow->seen == UNSEEN && offset > 0 && (packet->seq != tcp->snd_una || !looks_like_head(skb, packet));

	begin_at(flow, tcp->bytes_received, offset, counters);
	if (is_late) {
		flow->begin = 0;
		flow->phase = PHASE_UNKNOWN;
		counters->sizes_unknown++;
	}
}

// Continues reading the head, if it is not complete. The packet begins at this offset.
static __always_inline void read_on(struct __sk_buff *skb, struct flow *flow, __u32 payload_at, __u32 payload_end, __u64 offset,
				    struct counters *counters)
{
	if (flow->phase >= PHASE_KNOWN)
		return;
	read_head(skb, flow, flow->scanned - offset + payload_at, payload_end);
	if (flow->phase == PHASE_KNOWN) {
		counters->sizes_read++;
		count_size(flow->end - flow->begin);
	} else if (flow->phase == PHASE_UNKNOWN) {
		counters->sizes_unknown++;
	}
}

struct pipelined {
	struct __sk_buff *skb;
	struct flow *flow;
	struct counters *counters;
	__u64 received;
	__u64 offset;
	__u32 payload_at;
	__u32 payload_bytes;
};

// Follows the next response that begins inside the packet. Returns 1 if there is none.
static long follow_next(__u32 i, struct pipelined *packet)
{
	struct flow *flow = packet->flow;
	__u64 next = flow->end - packet->offset;

	if (flow->phase != PHASE_KNOWN || flow->end <= packet->offset || next >= packet->payload_bytes ||
	    !is_head(packet->skb, packet->payload_at + next, packet->payload_bytes - next))
		return 1;
	begin_at(flow, packet->received, flow->end, packet->counters);
	read_on(packet->skb, flow, packet->payload_at, packet->payload_at + packet->payload_bytes, packet->offset, packet->counters);
	return 0;
}

#ifdef INTERPRETED
// The same for one response, as with read_part. Returns 1 if there was none.
__noinline int follow_one(struct __sk_buff *skb, struct flow *flow, __u64 offset, __u32 payload_at, __u32 payload_bytes)
{
	struct pipelined packet = {
		.skb = skb,
		.flow = flow,
		.offset = offset,
		.payload_at = payload_at,
		.payload_bytes = payload_bytes,
	};
	__u32 zero = 0;

	if (!flow)
		return 1;
	packet.counters = bpf_map_lookup_elem(&weir_counters, &zero);
	packet.received = flow->received;
	return packet.counters ? follow_next(0, &packet) : 1;
}
#endif

// Follows the responses that begin after the end of the packet's first. The whole packet takes one place in the order,
// and what comes next is ranked by the last of them.
static __always_inline void follow_pipelined(struct __sk_buff *skb, struct flow *flow, struct bpf_tcp_sock *tcp,
					     struct packet *packet, __u64 offset, struct counters *counters)
{
	// The response nearly always continues after the packet, or ends with it.
	if (flow->phase != PHASE_KNOWN || flow->end <= offset || flow->end >= offset + packet->payload_bytes)
		return;
#ifdef INTERPRETED
	for (__u32 i = 0; i < PIPELINED_MAX; i++) {
		if (follow_one(skb, flow, offset, packet->payload_at, packet->payload_bytes))
			break;
		flow->received = tcp->bytes_received;
	}
#else
	struct pipelined pipelined = {
		.skb = skb,
		.flow = flow,
		.counters = counters,
		.received = tcp->bytes_received,
		.offset = offset,
		.payload_at = packet->payload_at,
		.payload_bytes = packet->payload_bytes,
	};

	bpf_loop(PIPELINED_MAX, follow_next, &pipelined, 0);
#endif
}

// Returns true if this packet cannot change the state. Most packets of a large response are like this, and they cost
// the least: the head is read, the peer has sent nothing since the response began, and the response is not over. If its
// end is unknown, something must be outstanding.
static __always_inline bool goes_on(struct flow *flow, struct bpf_tcp_sock *tcp, __u64 offset, bool is_idle)
{
	return flow->phase >= PHASE_KNOWN && flow->seen != UNSEEN && tcp->bytes_received == flow->received &&
	       (flow->end ? offset < flow->end : !is_idle);
}

// Updates the connection's state with this packet. Returns true if a response begins with it.
static __always_inline bool follow(struct __sk_buff *skb, struct flow *flow, struct bpf_tcp_sock *tcp,
				   struct packet *packet, __u64 offset, struct counters *counters)
{
	__u64 begun = flow->begin;
	bool is_new = flow->seen == UNSEEN;

	if (goes_on(flow, tcp, offset, packet->seq == tcp->snd_una))
		return false;
	if (begins(skb, flow, tcp, packet, offset))
		begin(skb, flow, tcp, packet, offset, counters);
	read_on(skb, flow, packet->payload_at, packet->payload_at + packet->payload_bytes, offset, counters);
	return is_new || flow->begin != begun;
}

// Returns the band of a value. Without branches: for the verifier each would double the ways on from here.
static __always_inline __u32 band_of(__u64 value)
{
	__u64 below = 0;

	if (unlikely(value > CUT_NONE))
		value = CUT_NONE;
	// The number of cuts below the value, by halves: the difference is negative for one that is below.
	for (__u32 half = (CUT_PLACES + 1) / 2; half; half /= 2) {
		__u64 at = below + half - 1;

		// The compiler must not know its limit, for the reason that `is_wanted` has.
		asm volatile("" : "+r"(at));
		below += ((settings.cuts[at & CUT_PLACES] - value) >> 63) * half;
	}
	asm volatile("" : "+r"(below));
	return BAND_DATA_FIRST + (below & CUT_PLACES);
}

// Marks the packet and counts it.
static __always_inline int stamp(struct __sk_buff *skb, struct counters *counters, __u8 band, __u32 priority)
{
	struct band_counters *counted = &counters->bands[band & (BANDS_MAX - 1)];

	if (band >= BAND_DATA_FIRST)
		__sync_fetch_and_add(&put_bytes, skb->wire_len);
	counted->packets += skb->gso_segs ?: 1;
	counted->bytes += skb->len;
	skb->priority = priority;
	// Other programs' filters run after ours.
	return TC_ACT_UNSPEC;
}

// Returns a better band only if that lets the packet overtake none of its own connection's packets: receivers consider
// what arrives out of order lost, and the sender retransmits it.
static __always_inline __u8 keep_order(struct __sk_buff *skb, struct flow *flow, bool is_idle, bool is_first, __u8 band,
				       struct counters *counters)
{
	if (band >= flow->band)
		return band;
	if (!is_idle && is_queued(skb)) {
		counters->held_back++;
		return flow->band;
	}
	if (!is_first)
		counters->promotions++;
	return band;
}

// Follows the heads of TLS records (RFC 8446, 5.1) through the packet: the last one shows where a record ends that may
// not have left yet. Bytes that are not a record end this until the next response.
static __always_inline void follow_records(struct __sk_buff *skb, struct flow *flow, struct packet *packet, __u64 offset)
{
	__u8 head[RECORD_HEAD_BYTES];
	__u32 bytes;

	for (int i = 0; i < RECORDS_MAX; i++) {
		__u64 at = flow->record - offset;

		if (flow->record < offset || at >= packet->payload_bytes)
			return;
		if (bpf_skb_load_bytes(skb, packet->payload_at + at, head, RECORD_HEAD_BYTES))
			return;
		bytes = head[3] << 8 | head[4];
		if (head[0] < RECORD_TYPE_MIN || head[0] > RECORD_TYPE_MAX || head[1] != RECORD_MAJOR || bytes > RECORD_BYTES_MAX)
			return;
		flow->record += RECORD_HEAD_BYTES + bytes;
	}
}

// Returns the minimum end of a response whose length is unknown: what the server has written of it, and the end of the
// TLS record that it has begun. Some interpreters of programs cannot read a socket and return zero (Linux in user
// mode).
static __always_inline __u64 shown_end(struct __sk_buff *skb, struct bpf_sock *sk, struct flow *flow, struct packet *packet,
				       __u64 offset)
{
	struct tcp_sock *full;
	__u64 written = 0;

	if (settings.policy == LAS || flow->end > offset)
		return 0;
	follow_records(skb, flow, packet, offset);
	full = bpf_skc_to_tcp_sock(sk);
	if (full && full->write_seq)
		written = offset + (__u32)(full->write_seq - packet->seq);
	return written > flow->record ? written : flow->record;
}

// Returns the band for clients ahead of their share that corresponds to this band: it keeps the order among their
// responses.
static __always_inline __u32 behind(__u32 band)
{
	return settings.behind_band + (band - BAND_DATA_FIRST) * settings.behind_bands / (settings.cuts_count + 1);
}

// Returns by how many bytes this packet puts its client ahead of its share of the link; 0 if the client is alone.
static __always_inline __u64 ahead_with(struct __sk_buff *skb, struct client_key *key)
{
	struct client fresh = {}, *client;
	struct share *share;
	__u64 now, ahead;
	__u32 class = key->version >> 8;

	if (!settings.allowance_bytes)
		return 0;
	share = bpf_map_lookup_elem(&weir_share, &class);
	client = bpf_map_lookup_elem(&weir_clients, key);
	if (!client) {
		bpf_map_update_elem(&weir_clients, key, &fresh, BPF_NOEXIST);
		client = bpf_map_lookup_elem(&weir_clients, key);
	}
	if (!share || !client)
		return 0;
	now = bpf_ktime_get_ns();
	bpf_spin_lock(&share->lock);
	ahead = charge(share, client, skb->len, settings.allowance_bytes, shared_bytes_per_s(class), now);
	if (is_alone(share, key, now))
		ahead = 0;
	bpf_spin_unlock(&share->lock);
	return ahead;
}

static __always_inline int classify_data(struct __sk_buff *skb, struct bpf_sock *sk, struct bpf_tcp_sock *tcp, struct flow *flow,
					 struct packet *packet, struct counters *counters)
{
	// Bytes since accept; less than 2 GiB are unacknowledged.
	__u64 offset = tcp->bytes_acked + (__s32)(packet->seq - tcp->snd_una), end = offset + packet->payload_bytes, value;
	__u64 ahead = ahead_with(skb, &packet->client);
	bool is_first, is_idle, is_behind = ahead > settings.allowance_bytes;
	__u8 band;

	if (is_behind)
		counters->behind++;
	// A retransmission follows the data it belongs to, and reveals nothing new.
	if (flow->seen != UNSEEN && end <= flow->highest)
		return stamp(skb, counters, flow->band, flow->priority);
	is_idle = packet->seq == tcp->snd_una && offset >= flow->highest;
	is_first = follow(skb, flow, tcp, packet, offset, counters);
	flow->highest = end;
	flow->last = bpf_ktime_get_coarse_ns() >> TIME_SHIFT;
	value = value_of(settings.policy, flow, tcp, offset, shown_end(skb, sk, flow, packet, offset));
	band = band_of(value);
	if (is_behind)
		band = behind(band);
	band = keep_order(skb, flow, is_idle, is_first, band, counters);
	flow->priority = priority_of(packet, band);
	flow->band = band;
	follow_pipelined(skb, flow, tcp, packet, offset, counters);
	return stamp(skb, counters, band, flow->priority);
}

// Classifies data of a connection for whose state memory is lacking.
static __always_inline int classify_unknown(struct __sk_buff *skb, struct bpf_tcp_sock *tcp, struct packet *packet,
					    struct counters *counters)
{
	struct flow flow = {};
	__u64 offset, value;
	__u8 band;

	counters->no_storage++;
	offset = tcp->bytes_acked + (__s32)(packet->seq - tcp->snd_una);
	value = value_of(settings.policy, &flow, tcp, offset, 0);
	band = band_of(value);
	return stamp(skb, counters, band, priority_of(packet, band));
}

// Counts data that is ordered by its flow.
static __always_inline void count_by_flow(struct __sk_buff *skb, struct counters *counters, __u8 band)
{
	struct band_counters *counted = &counters->bands[band & (BANDS_MAX - 1)];

	counted->by_flow++;
	counted->forwarded += skb->ingress_ifindex > 0;
}

static __always_inline int stamp_flow(struct __sk_buff *skb, struct counters *counters, __u8 band, __u32 priority)
{
	count_by_flow(skb, counters, band);
	return stamp(skb, counters, band, priority);
}

// Returns true if the flow may leave a band of clients ahead of their share though its packets may wait there, because
// its client is not ahead any more. Something of a download is always outstanding, so it would stay there to its end.
// TCP finds out by DSACK that what it sends again was not lost.
static __always_inline bool may_overtake(struct tracked *tracked, __u64 ahead, __u64 now)
{
	if (!settings.allowance_bytes || ahead > settings.allowance_bytes || tracked->band < settings.behind_band)
		return false;
	// Negative if another processor's clock is ahead.
	if ((__s64)(now - overtook_ns) < (__s64)OVERTAKE_NS)
		return false;
	overtook_ns = now;
	return true;
}

// Classifies data by its flow. Its size is unknown, so every policy ranks it by the bytes sent.
static __always_inline int classify_step(struct __sk_buff *skb, struct packet *packet, struct tracked *tracked,
					 struct tuple *tuple, struct counters *counters)
{
	struct path *path = packet->protocol == IPPROTO_TCP ? path_of(tracked) : NULL;
	// Exact only to begin a round trip.
	bool is_exact = packet->protocol == IPPROTO_TCP && !(path && path->opened_ns);
	struct step step = {
		.now = is_exact ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns(),
		.is_exact = is_exact,
		.seq = packet->seq,
		.ack = packet->ack,
		.bytes = packet->payload_bytes,
		.has_seq = packet->protocol == IPPROTO_TCP,
	};
	// A copy: before Linux 6.2 the key of a map may not lie where a function's argument points.
	struct client_key client = packet->client;
	__u64 ahead = ahead_with(skb, &client), before = tracked->sent;
	struct bpf_tcp_sock unknown = {};
	struct flow response = {};
	enum stepped how;
	bool is_held;
	__u32 band;

	// Read only if it matters: after a request.
	step.is_head = unlikely(has_asked(tracked, &step)) && looks_like_head(skb, packet);
	how = stepped(tracked, &step);
	path = step.has_seq ? path_for(path, tracked, packet, tuple, &step, how) : NULL;
	if (likely(path))
		note_leaving(path, &step, how, skb->gso_size ?: step.bytes);
	is_held = is_outstanding(tracked);
	if (unlikely(how == STEP_BEGIN) && tracked->seen == SEEN)
		count_size(before);
	before = advance(tracked, &step, how);
	if (ahead > settings.allowance_bytes)
		counters->behind++;
	if (unlikely(how == STEP_AGAIN))
		return stamp_flow(skb, counters, tracked->band, tracked->priority);
	band = band_of(value_of(settings.policy, &response, &unknown, before, 0));
	if (ahead > settings.allowance_bytes)
		band = behind(band);
	if (how == STEP_ON && band < tracked->band) {
		if (is_held && !may_overtake(tracked, ahead, step.now)) {
			counters->held_back++;
			band = tracked->band;
		} else {
			counters->promotions++;
		}
	}
	tracked->priority = priority_of(packet, band);
	tracked->band = band;
	if (likely(path))
		path->priority = tracked->priority;
	return stamp_flow(skb, counters, band, tracked->priority);
}

// A flow of which nothing has left. Not on the stack: on Linux 6.1 a program and what it calls have 512 bytes of it
// together, in steps of 32.
static const volatile struct tracked fresh_flow;

// Classifies a packet without a TCP socket here by its flow. Not static: the verifier then checks it once.
__noinline int classify_tracked(struct __sk_buff *skb, struct packet *packet)
{
	struct tracked *tracked;
	struct counters *counters;
	struct tuple tuple;
	__u32 zero = 0;
	bool is_data;

	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!packet || !counters || !read_tuple(skb, packet, &tuple))
		return TC_ACT_UNSPEC;
	is_data = packet->payload_bytes > 0;
	tracked = bpf_map_lookup_elem(&weir_tracked, &tuple);
	if (unlikely(!tracked && is_data)) {
		bpf_map_update_elem(&weir_tracked, &tuple, (const void *)&fresh_flow, BPF_NOEXIST);
		tracked = bpf_map_lookup_elem(&weir_tracked, &tuple);
		counters->no_storage += !tracked;
	}
	if (unlikely((packet->flags & (SYN | ACK)) == (SYN | ACK)))
		open_handshake(&tuple, packet->ack, bpf_ktime_get_ns());
	// The connection before with these addresses and ports was of another client.
	if (settings.flags & BY_PROXY && packet->flags & SYN)
		bpf_map_delete_elem(&weir_proxied, &tuple);
	if (likely(is_data)) {
		if (likely(tracked))
			classify_step(skb, packet, tracked, &tuple, counters);
		else
			count_by_flow(skb, counters, BAND_CONTROL);
	} else if (tracked && ((tracked->seen == SEEN && !(packet->flags & SYN)) || (tracked->seen == CLOSED && packet->flags & FIN))) {
		// A FIN stays behind the data before it, also one that is sent again.
		stamp(skb, counters, tracked->band, tracked->priority);
	} else {
		stamp(skb, counters, BAND_CONTROL, settings.priorities[BAND_CONTROL]);
	}
	if (unlikely(tracked && packet->flags & (SYN | FIN | RST))) {
		if (tracked->seen == SEEN)
			count_size(tracked->sent);
		// What follows a FIN may still repeat what was before it.
		tracked->seen = packet->flags & (SYN | RST) ? UNSEEN : CLOSED;
	}
	return TC_ACT_UNSPEC;
}

// Follows what clients send to the flows: where it acknowledges everything, a response is over. Sees packets that arrive,
// in the order of their headers, so the ports and addresses are those of the flow, exchanged.
SEC("tc")
int weir_clients_in(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct tracked *tracked;
	struct tuple flow;
	struct block block = {};
	struct path *path;
	bool has_gap;

	if (!parse(skb, &packet) || packet.protocol != IPPROTO_TCP)
		return TC_ACT_UNSPEC;
	if (!is_of_other_end(&packet) || !(packet.flags & ACK) || !read_reversed_tuple(skb, &packet, &flow))
		return TC_ACT_UNSPEC;
	if (settings.flags & BY_PROXY && settings.allowance_bytes && packet.payload_bytes)
		learn_client(skb, &packet, &flow);
	tracked = bpf_map_lookup_elem(&weir_tracked, &flow);
	// The flow is stored from its first packet of data on.
	if (unlikely(!tracked || tracked->seen != SEEN))
		end_handshake(&flow, bpf_ktime_get_ns());
	if (!tracked)
		return TC_ACT_UNSPEC;
	note_client_packet(tracked, packet.ack, packet.payload_bytes);
	path = path_of(tracked);
	if (path) {
		has_gap = read_block(skb, &packet, path, &block);
		note_acked(path, packet.ack, has_gap, block);
	}
	return TC_ACT_UNSPEC;
}

// Returns true if the packet belongs to this connection: by its port, or, if that was rewritten below the socket
// (REDIRECT, DNAT to a port of this host), by what was not rewritten: the peer's port, and a sequence number between
// what is acknowledged and what is sent next.
static __always_inline bool is_of(struct packet *packet, struct bpf_sock *sk, struct bpf_tcp_sock *tcp)
{
	return sk->src_port == packet->port ||
	       (sk->dst_port == packet->peer_port && packet->seq - tcp->snd_una <= tcp->snd_nxt - tcp->snd_una);
}

// Returns true if no connection in the interface's network namespace has the addresses and ports of the socket, which are
// not those of the packet if they were rewritten below it. A listener on all addresses is found for every connection.
static __noinline bool is_not_here(struct __sk_buff *skb, struct bpf_sock *sk, __u32 version)
{
	__u32 bytes = version == 6 ? sizeof(((struct bpf_sock_tuple *)0)->ipv6) : sizeof(((struct bpf_sock_tuple *)0)->ipv4);
	struct bpf_sock_tuple by = {};
	struct bpf_sock *found;
	bool is_here;

	if (version == 6) {
		for (int i = 0; i < 4; i++) {
			by.ipv6.saddr[i] = sk->dst_ip6[i];
			by.ipv6.daddr[i] = sk->src_ip6[i];
		}
		by.ipv6.sport = sk->dst_port;
		by.ipv6.dport = bpf_htons(sk->src_port);
	} else {
		by.ipv4.saddr = sk->dst_ip4;
		by.ipv4.daddr = sk->src_ip4;
		by.ipv4.sport = sk->dst_port;
		by.ipv4.dport = bpf_htons(sk->src_port);
	}
	found = bpf_skc_lookup_tcp(skb, &by, bytes, BPF_F_CURRENT_NETNS, 0);
	is_here = found && found->state != BPF_TCP_LISTEN;
	if (found)
		bpf_sk_release(found);
	return !is_here;
}

// Returns true if the socket is in a network namespace other than the interface's: that of a container with macvlan or
// ipvlan. The follower does not list it, so its path is gathered from packets, as that of forwarded flows.
static __always_inline bool is_elsewhere(struct __sk_buff *skb, struct packet *packet, struct bpf_sock *sk, struct flow *flow)
{
	bool is_elsewhere;

	if (likely(flow && flow->home != HOME_UNKNOWN))
		return flow->home == HOME_ELSEWHERE;
	is_elsewhere = is_not_here(skb, sk, packet->version);
	if (flow)
		flow->home = is_elsewhere ? HOME_ELSEWHERE : HOME_HERE;
	return is_elsewhere;
}

SEC("tc")
int weir_classify(struct __sk_buff *skb)
{
	struct bpf_tcp_sock *tcp = NULL;
	struct counters *counters;
	struct bpf_sock *sk = NULL;
	struct packet packet = {};
	struct flow *flow = NULL;
	__u32 zero = 0;
	bool is_closing;

	if (!parse(skb, &packet) || !(is_wanted(packet.port) || turn_upload(skb, &packet)))
		return TC_ACT_UNSPEC;
	if (packet.protocol == IPPROTO_UDP && unlikely(is_disowned(skb)))
		return TC_ACT_UNSPEC;
	set_marked_client(skb, &packet);
	if (settings.flags & BY_PROXY && settings.allowance_bytes && packet.payload_bytes && packet.protocol == IPPROTO_TCP)
		set_proxied_client(skb, &packet);
	find_class(skb, &packet);
	// There is none for a SYN-ACK and a RST to a closed port, and for packets that are only forwarded.
	sk = packet.protocol == IPPROTO_TCP ? skb->sk : NULL;
	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk)
		tcp = bpf_tcp_sock(sk);
	if (tcp && !is_of(&packet, sk, tcp))
		tcp = NULL;
	is_closing = packet.flags & (FIN | RST);
	// A packet without payload that neither begins nor ends a connection may overtake.
	if (!tcp && (packet.payload_bytes || packet.flags & (SYN | FIN | RST))) {
		classify_tracked(skb, &packet);
		return packet.protocol == IPPROTO_UDP ? disown(skb, packet.ip_at) : TC_ACT_UNSPEC;
	}
	counters = bpf_map_lookup_elem(&weir_counters, &zero);
	if (!counters)
		return TC_ACT_UNSPEC;
	// Packets that close a connection stay behind its data: if a FIN overtakes data, the data is considered lost.
	if (tcp && (packet.payload_bytes || is_closing)) {
		flow = bpf_sk_storage_get(&weir_flows, sk, 0, packet.payload_bytes ? BPF_SK_STORAGE_GET_F_CREATE : 0);
		if (unlikely(is_elsewhere(skb, &packet, sk, flow))) {
			classify_tracked(skb, &packet);
			return TC_ACT_UNSPEC;
		}
	}
	if (flow && packet.payload_bytes)
		classify_data(skb, sk, tcp, flow, &packet, counters);
	if (flow && is_closing) {
		count_sent(flow);
		flow->seen = CLOSED;
	}
	if (packet.payload_bytes)
		return flow || !tcp ? TC_ACT_UNSPEC : classify_unknown(skb, tcp, &packet, counters);
	if (flow && packet.seq != tcp->snd_una)
		return stamp(skb, counters, flow->band, flow->priority);
	return stamp(skb, counters, BAND_CONTROL, settings.priorities[BAND_CONTROL]);
}
