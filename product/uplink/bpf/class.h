// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The class of a packet: that of the first rule whose conditions it meets. Without classes nothing of this remains in the
// program.
#ifndef WEIR_CLASS_H
#define WEIR_CLASS_H

#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"

// The difference of the priorities of one band in a class and in the next.
#define CLASS_STEP (1 << 16)
#define IPV4_DESTINATION_AT 16
#define IPV6_DESTINATION_AT 24

// What rules compare of a packet.
struct asked {
	__u64 client[2];
	__u32 port;
	__u32 version;
	__u32 dscp;
};

static __always_inline bool meets(struct __sk_buff *skb, const volatile struct rule *rule, struct asked *asked)
{
	__u32 conditions = rule->conditions, bits = rule->bits;

	if (conditions & ON_PORT && rule->port != asked->port)
		return false;
	if (conditions & ON_DSCP && rule->dscp != asked->dscp)
		return false;
	if (conditions & ON_MARK && rule->mark != skb->mark)
		return false;
	if (conditions & ON_NETWORK) {
		if (rule->version != asked->version || leading(asked->client[0], bits) != rule->network[0])
			return false;
		if (bits > 64 && leading(asked->client[1], bits - 64) != rule->network[1])
			return false;
	}
	if (conditions & ON_CGROUP)
		return rule->cgroup && bpf_skb_ancestor_cgroup_id(skb, rule->level) == rule->cgroup;
	return true;
}

// Returns the class of a packet from this port, whose IP header is at `ip_at`, or where the kernel has it if that is 0. Not
// static: the verifier then checks it once.
__noinline __u32 class_of(struct __sk_buff *skb, __u32 ip_at, __u32 version, __u32 port)
{
	struct packet packet = { .ip_at = ip_at };
	struct asked asked = { .port = port, .version = version };
	__u32 address;
	__u8 head[2];

	if (settings.conditions & ON_NETWORK && version == 6) {
		if (!load_ip(skb, &packet, IPV6_DESTINATION_AT, asked.client, sizeof(asked.client)))
			return 0;
	} else if (settings.conditions & ON_NETWORK) {
		if (!load_ip(skb, &packet, IPV4_DESTINATION_AT, &address, sizeof(address)))
			return 0;
		asked.client[0] = address;
	}
	if (settings.conditions & ON_DSCP) {
		if (!load_ip(skb, &packet, 0, head, sizeof(head)))
			return 0;
		// The upper six bits of the type of service, or of the traffic class after the version.
		asked.dscp = version == 6 ? (head[0] & 15) << 2 | head[1] >> 6 : head[1] >> 2;
	}
	for (__u32 i = 0; i < RULES_MAX; i++) {
		if (i >= settings.rules_count)
			break;
		if (meets(skb, &settings.rules[i], &asked))
			return settings.rules[i].class;
	}
	return 0;
}

// Sets the class of a packet of data.
static __always_inline void find_class(struct __sk_buff *skb, struct packet *packet)
{
	packet->class = 0;
	if (!settings.classes_count || !packet->payload_bytes)
		return;
	packet->class = class_of(skb, packet->ip_at, packet->version, packet->port) & (CLASSES_MAX - 1);
	// Clients share what their class has.
	if (settings.allowance_bytes)
		packet->client.version |= packet->class << 8;
}

// Returns the priority of a band in the class of a packet.
static __always_inline __u32 priority_of(struct packet *packet, __u32 band)
{
	__u32 priority = settings.priorities[band & (BANDS_MAX - 1)];

	return settings.classes_count ? priority + packet->class * CLASS_STEP : priority;
}

// Returns the rate of what the clients of this class share.
static __always_inline __u64 shared_bytes_per_s(__u32 class)
{
	if (!settings.classes_count)
		return settings.link_bytes_per_s;
	return settings.link_bytes_per_s * settings.class_permille[class & (CLASSES_MAX - 1)] / 1000;
}

#endif
