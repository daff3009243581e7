// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The reading of a packet: where TCP or UDP begins behind tags and extension headers, its ports, numbers and payload.
#ifndef WEIR_PACKET_H
#define WEIR_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "classify.h"
#include "client.h"
#include "tracked.h"

const volatile struct settings settings SEC(".rodata.settings");

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10
// The minimum size of the two headers: IPv4 and TCP without options.
#define HEADS_BYTES 40
#define IPV6_BYTES 40
#define IPV4_ADDRESSES_AT 12
#define IPV6_ADDRESSES_AT 8
// Maximum number of IPv6 extension headers (RFC 8200, section 4) that are skipped to find TCP.
#define EXTENSIONS_MAX 4
#define FRAGMENT_AT_MASK 0xfff8
// The first byte of an IPv4 header without options, and the offset of a fragment in one.
#define IPV4_FIRST 0x45
#define FRAGMENT_OFFSET 0x1fff
#define TCP_BYTES 20
#define UDP_BYTES 8
#define VLAN_BYTES 4
// Maximum number of VLAN tags in the packet itself (the kernel keeps a single one outside).
#define VLANS_MAX 2
// A PPPoE header (RFC 2516) and the protocol of PPP, and that protocol's numbers.
#define PPPOE_BYTES 8
#define PPP_PROTOCOL_AT 6
#define PPP_IP 0x0021
#define PPP_IPV6 0x0057

struct packet {
	__u32 seq;
	// The offset of the payload in the packet as the program sees it.
	__u32 payload_at;
	__u32 payload_bytes;
	__u32 ack;
	// The offset of the IP header: ETH_HLEN if it can be read without a call, more behind VLAN tags or PPPoE; 0 if the kernel
	// knows where it is.
	__u32 ip_at;
	__u16 port;
	// In network byte order.
	__u16 peer_port;
	__u8 version;
	__u8 protocol;
	// Of TCP; the length of its header in words of 32 bits.
	__u8 flags;
	__u8 tcp_words;
	__u8 class;
	// Set only if clients share the link.
	struct client_key client;
};

static __always_inline bool is_vlan(__u16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

// Returns the offset of the IP header if VLAN tags or PPPoE precede it inside the packet; 0 if not, or if what follows
// them is not IP.
static __always_inline __u32 ip_behind_tags(struct __sk_buff *skb)
{
	__u16 protocol = skb->protocol;
	__u32 at = ETH_HLEN;

	if (!is_vlan(protocol) && protocol != bpf_htons(ETH_P_PPP_SES))
		return 0;
	if (bpf_skb_load_bytes(skb, at - sizeof(protocol), &protocol, sizeof(protocol)))
		return 0;
	for (int i = 0; i < VLANS_MAX && is_vlan(protocol); i++) {
		at += VLAN_BYTES;
		if (bpf_skb_load_bytes(skb, at - sizeof(protocol), &protocol, sizeof(protocol)))
			return 0;
	}
	if (protocol != bpf_htons(ETH_P_PPP_SES))
		return protocol == bpf_htons(ETH_P_IP) || protocol == bpf_htons(ETH_P_IPV6) ? at : 0;
	if (bpf_skb_load_bytes(skb, at + PPP_PROTOCOL_AT, &protocol, sizeof(protocol)))
		return 0;
	return protocol == bpf_htons(PPP_IP) || protocol == bpf_htons(PPP_IPV6) ? at + PPPOE_BYTES : 0;
}

// Loads bytes of the packet from this offset in the IP header on. Returns false if it is shorter.
static __always_inline bool load_ip(struct __sk_buff *skb, struct packet *packet, __u32 at, void *to, __u32 bytes)
{
	if (packet->ip_at)
		return !bpf_skb_load_bytes(skb, packet->ip_at + at, to, bytes);
	return !bpf_skb_load_bytes_relative(skb, at, to, bytes, BPF_HDR_START_NET);
}

static __always_inline bool is_transport(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

// Returns the offset of TCP or UDP after an IPv6 header and its extensions; 0 if there is none. One extension holds the
// length of a packet above 64 KiB (RFC 2675): Linux 5.19 to 6.18 adds it to its own large packets ("BIG TCP"), and
// removes it below us.
static __always_inline __u32 ipv6_transport_at(struct __sk_buff *skb, struct packet *packet, __u8 next)
{
	__u32 at = IPV6_BYTES;
	__u8 extension[4];

	for (int i = 0; i < EXTENSIONS_MAX && !is_transport(next); i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			return 0;
		if (!load_ip(skb, packet, at, extension, sizeof(extension)))
			return 0;
		// Only the first fragment has a TCP header. A fragment header has eight bytes and no length field.
		if (next == IPPROTO_FRAGMENT && (extension[2] << 8 | extension[3]) & FRAGMENT_AT_MASK)
			return 0;
		at += next == IPPROTO_FRAGMENT ? 8 : (extension[1] + 1) * 8;
		next = extension[0];
	}
	packet->protocol = next;
	return is_transport(next) ? at : 0;
}

// Returns the leading bits of a word in network byte order.
static __always_inline __u64 leading(__u64 word, __u32 bits)
{
	if (bits == 0)
		return 0;
	return bits < 64 ? word & bpf_cpu_to_be64(~0ull << (64 - bits)) : word;
}

// Sets the client from its address.
static __always_inline void set_client(struct client_key *client, __u32 version, __u64 first, __u64 second)
{
	client->version = version;
	client->words[0] = leading(first, version == 4 ? settings.v4_bits : settings.v6_bits);
	client->words[1] = version == 6 && settings.v6_bits > 64 ? leading(second, settings.v6_bits - 64) : 0;
}

// Reads the header of TCP or UDP that follows heads of so many bytes.
static __always_inline void read_transport(struct __sk_buff *skb, struct packet *packet, __u8 *transport, __u32 at, __u32 ip_bytes)
{
	__u32 heads_bytes = at + UDP_BYTES;

	packet->port = bpf_ntohs(*(__u16 *)transport);
	packet->peer_port = *(__u16 *)(transport + 2);
	packet->seq = packet->ack = packet->flags = packet->tcp_words = 0;
	if (likely(packet->protocol == IPPROTO_TCP)) {
		packet->seq = bpf_ntohl(*(__u32 *)(transport + 4));
		packet->ack = bpf_ntohl(*(__u32 *)(transport + 8));
		packet->flags = transport[13];
		packet->tcp_words = transport[12] >> 4;
		heads_bytes = at + packet->tcp_words * 4;
	}
	// Packets above 64 KiB ("BIG TCP") have no length in their header.
	if (unlikely(ip_bytes < heads_bytes))
		ip_bytes = skb->len - ETH_HLEN;
	packet->payload_bytes = ip_bytes > heads_bytes ? ip_bytes - heads_bytes : 0;
	// The bytes in front of the network header depend on device and VLAN; nothing follows the payload yet.
	packet->payload_at = skb->len - packet->payload_bytes;
}

// Parses a packet whose headers do not lie where they nearly always do. Not static: the verifier then checks it once, and
// other packets do not fetch it. Returns 1 if it is TCP or UDP; fragments other than the first are not.
__noinline int parse_slowly(struct __sk_buff *skb, struct packet *packet)
{
	__u32 at, ip_bytes;
	__u64 heads[HEADS_BYTES / WORD_BYTES];
	__u8 *bytes = (__u8 *)heads, *transport = bytes + 20;

	if (!packet)
		return 0;
	packet->ip_at = ip_behind_tags(skb);
	if (!load_ip(skb, packet, 0, heads, HEADS_BYTES))
		return 0;
	packet->version = bytes[0] >> 4;
	if (packet->version == 4) {
		at = (bytes[0] & 15) * 4;
		ip_bytes = bpf_ntohs(*(__u16 *)(bytes + 2));
		packet->protocol = bytes[9];
		// Only the first fragment has a TCP header.
		if (!is_transport(packet->protocol) || *(__u16 *)(bytes + 6) & bpf_htons(FRAGMENT_OFFSET))
			return 0;
		if (settings.allowance_bytes)
			set_client(&packet->client, 4, *(__u32 *)(bytes + 16), 0);
	} else if (packet->version == 6 && (at = ipv6_transport_at(skb, packet, bytes[6]))) {
		ip_bytes = bpf_ntohs(*(__u16 *)(bytes + 4)) + IPV6_BYTES;
		if (settings.allowance_bytes)
			set_client(&packet->client, 6, heads[3], heads[4]);
	} else {
		return 0;
	}
	if (at != 20 && !load_ip(skb, packet, at, transport, packet->protocol == IPPROTO_TCP ? TCP_BYTES : UDP_BYTES))
		return 0;
	read_transport(skb, packet, transport, at, ip_bytes);
	return 1;
}

// Parses the packet where it stands: without options or extensions behind an Ethernet header, with nothing behind it.
// Returns false if it is anything else.
static __always_inline bool parse_in_place(struct __sk_buff *skb, struct packet *packet)
{
	__u8 *data = (__u8 *)(long)skb->data, *end = (__u8 *)(long)skb->data_end, *ip = data + ETH_HLEN;
	__u32 ip_bytes;

	if (data + ETH_HLEN + HEADS_BYTES > end)
		return false;
	packet->ip_at = ETH_HLEN;
	if (likely(*(__u16 *)(data + ETH_HLEN - 2) == bpf_htons(ETH_P_IP))) {
		ip_bytes = bpf_ntohs(*(__u16 *)(ip + 2));
		packet->protocol = ip[9];
		packet->version = 4;
		if (ip[0] != IPV4_FIRST || *(__u16 *)(ip + 6) & bpf_htons(FRAGMENT_OFFSET) || !is_transport(packet->protocol) ||
		    ip_bytes + ETH_HLEN != skb->len)
			return false;
		if (settings.allowance_bytes)
			set_client(&packet->client, 4, *(__u32 *)(ip + 16), 0);
		read_transport(skb, packet, ip + 20, 20, ip_bytes);
		return true;
	}
	if (*(__u16 *)(data + ETH_HLEN - 2) != bpf_htons(ETH_P_IPV6) || data + ETH_HLEN + IPV6_BYTES + TCP_BYTES > end)
		return false;
	ip_bytes = bpf_ntohs(*(__u16 *)(ip + 4)) + IPV6_BYTES;
	packet->protocol = ip[6];
	packet->version = 6;
	if (ip[0] >> 4 != 6 || !is_transport(packet->protocol) || ip_bytes + ETH_HLEN != skb->len)
		return false;
	if (settings.allowance_bytes)
		set_client(&packet->client, 6, *(__u64 *)(ip + 24), *(__u64 *)(ip + 32));
	read_transport(skb, packet, ip + IPV6_BYTES, IPV6_BYTES, ip_bytes);
	return true;
}

// Parses the packet. Returns false if it is neither TCP nor UDP. The caller must have written all of `packet`: verifiers
// before Linux 6.3 let no function have a pointer to something else.
static __always_inline bool parse(struct __sk_buff *skb, struct packet *packet)
{
	return likely(parse_in_place(skb, packet)) || parse_slowly(skb, packet);
}

// Reads the addresses again: most packets have a socket and do not need them. They go to their place at once, since the
// stack is small. Where they can be read without a call they are: one costs 90 ns if nothing is in the cache.
static __always_inline bool read_tuple(struct __sk_buff *skb, struct packet *packet, struct tuple *tuple)
{
	__u8 *data = (__u8 *)(long)skb->data, *ip = data + ETH_HLEN;
	__u32 addresses[2];

	__builtin_memset(tuple, 0, sizeof(*tuple));
	tuple->source_port = bpf_htons(packet->port);
	tuple->destination_port = packet->peer_port;
	tuple->protocol = packet->protocol;
	if (likely(packet->ip_at == ETH_HLEN && data + ETH_HLEN + HEADS_BYTES <= (__u8 *)(long)skb->data_end)) {
		for (int i = 0; packet->version == 6 && i < 4; i++)
			tuple->addresses[i] = *(__u64 *)(ip + IPV6_ADDRESSES_AT + i * WORD_BYTES);
		if (packet->version == 6)
			return true;
		tuple->addresses[0] = *(__u32 *)(ip + IPV4_ADDRESSES_AT);
		tuple->addresses[2] = *(__u32 *)(ip + IPV4_ADDRESSES_AT + 4);
		return true;
	}
	if (packet->version == 6)
		return load_ip(skb, packet, IPV6_ADDRESSES_AT, tuple->addresses, sizeof(tuple->addresses));
	if (!load_ip(skb, packet, IPV4_ADDRESSES_AT, addresses, sizeof(addresses)))
		return false;
	tuple->addresses[0] = addresses[0];
	tuple->addresses[2] = addresses[1];
	return true;
}

// Reads the tuple of the flow that this packet of a client answers: its own with both ends exchanged.
static __always_inline bool read_reversed_tuple(struct __sk_buff *skb, struct packet *packet, struct tuple *flow)
{
	struct tuple tuple;

	if (!read_tuple(skb, packet, &tuple))
		return false;
	*flow = tuple;
	for (int i = 0; i < 2; i++) {
		flow->addresses[i] = tuple.addresses[i + 2];
		flow->addresses[i + 2] = tuple.addresses[i];
	}
	flow->source_port = tuple.destination_port;
	flow->destination_port = tuple.source_port;
	return true;
}

// Sets the client from the packet's mark, if it has one and marks identify clients.
static __always_inline void set_marked_client(struct __sk_buff *skb, struct packet *packet)
{
	if (!settings.allowance_bytes || !(settings.flags & BY_MARK) || !skb->mark)
		return;
	packet->client.version = MARKED;
	packet->client.words[0] = skb->mark;
	packet->client.words[1] = 0;
}

// Returns true if the port is one of the server's. The compiler must not know the limit of a port: it would leave out the
// mask, and verifiers before Linux 6.8 lose the limit of a number that is stored on the stack.
static __always_inline bool is_wanted(__u32 port)
{
	asm volatile("" : "+r"(port));
	return settings.ports[port / 64 & (PORT_WORDS - 1)] >> (port % 64) & 1;
}

static __always_inline void exchange_ports(struct packet *packet)
{
	__u16 port = packet->port;

	packet->port = bpf_ntohs(packet->peer_port);
	packet->peer_port = bpf_htons(port);
}

// Turns a packet that leaves to a server's port round, so that it counts as one of a response: its client is then the host
// that sends it. Returns false if it is none, or cannot be read.
static __always_inline bool turn_upload(struct __sk_buff *skb, struct packet *packet)
{
	__u64 address[2] = {};

	if (!(settings.flags & UPLOADS) || !is_wanted(bpf_ntohs(packet->peer_port)))
		return false;
	exchange_ports(packet);
	if (!settings.allowance_bytes)
		return true;
	if (packet->version == 4) {
		if (!load_ip(skb, packet, IPV4_ADDRESSES_AT, address, sizeof(__u32)))
			return false;
		set_client(&packet->client, 4, *(__u32 *)address, 0);
		return true;
	}
	if (!load_ip(skb, packet, IPV6_ADDRESSES_AT, address, sizeof(address)))
		return false;
	set_client(&packet->client, 6, address[0], address[1]);
	return true;
}

// Returns true if this packet, which arrives, is of the other end of what is ordered. One that answers an upload has its
// ports exchanged, as the upload has.
static __always_inline bool is_of_other_end(struct packet *packet)
{
	if (is_wanted(bpf_ntohs(packet->peer_port)))
		return true;
	if (!(settings.flags & UPLOADS) || !is_wanted(packet->port))
		return false;
	exchange_ports(packet);
	return true;
}

#endif
