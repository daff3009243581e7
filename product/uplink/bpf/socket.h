// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A packet of this host counts against its socket's send buffer until it has left. That bounds what one TCP connection
// has waiting in the bands, and shows whether something waits.
//
// A server has one UDP socket for all connections of HTTP/3. Downloads fill its buffer with packets that wait in the
// bands (92 of 1,200 bytes by default, and a band takes 100): then no connection can send, until half of them have left.
// So UDP packets are taken from their socket here, and wait as those of a container do, which lose it on their way here.
// A full band drops, and the connection slows down.
#ifndef WEIR_SOCKET_H
#define WEIR_SOCKET_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

// A data packet counts at least this much in sk_wmem_alloc, a pure ACK 2 (net/ipv4/tcp_output.c).
#define TRUESIZE_DATA_MIN 512
// A UDP socket keeps its packets up to its send buffer divided by this power of two: an idle line then costs no copies.
#define KEPT_SHIFT 2
// In a packet's room for programs, before its interface: it was taken from its socket, and has its band.
#define DISOWNED 0x57d15033

// The fields that are read of the kernel's own structures; libbpf finds their offsets in the running kernel.
struct refcount_struct {
	struct {
		int counter;
	} refs;
} __attribute__((preserve_access_index));

struct sock {
	struct refcount_struct sk_wmem_alloc;
	int sk_sndbuf;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u32 write_seq;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct sock *sk;
	unsigned int truesize;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

// Returns the kernel's own structure of the packet; NULL if it cannot be read (Linux before 6.2, or a kernel that
// interprets programs).
static __always_inline struct sk_buff *kernel_packet(struct __sk_buff *skb)
{
#ifdef INTERPRETED
	return NULL;
#else
	return bpf_ksym_exists(bpf_cast_to_kern_ctx) ? bpf_cast_to_kern_ctx(skb) : NULL;
#endif
}

// Returns true if the connection has more than this packet waiting below TCP, or if that cannot be determined.
static __always_inline bool is_queued(struct __sk_buff *skb)
{
	struct sk_buff *packet = kernel_packet(skb);
	struct sock *sk = packet ? packet->sk : NULL;

	return !sk || sk->sk_wmem_alloc.refs.counter >= (int)packet->truesize + TRUESIZE_DATA_MIN;
}

// Returns true if the packet's socket may soon have to wait for room in its send buffer, or if that cannot be determined.
// The packet has a socket.
static __always_inline bool fills_buffer(struct __sk_buff *skb)
{
	struct sk_buff *packet = kernel_packet(skb);
	struct sock *sk = packet ? packet->sk : NULL;

	return !sk || sk->sk_wmem_alloc.refs.counter >= sk->sk_sndbuf >> KEPT_SHIFT;
}

// Returns true if this is a packet that `disown` has sent.
static __always_inline bool is_disowned(struct __sk_buff *skb)
{
	return !skb->sk && skb->cb[0] == DISOWNED && skb->cb[1] == skb->ifindex;
}

// Returns true if nothing precedes the IP header, as at WireGuard or PPP.
static __always_inline bool begins_with_ip(struct __sk_buff *skb)
{
	// The lengths are among them, so those of an outer header (GRE without a fixed peer) differ.
	__u64 first, ip;

	return !bpf_skb_load_bytes(skb, 0, &first, sizeof(first)) &&
	       !bpf_skb_load_bytes_relative(skb, 0, &ip, sizeof(ip), BPF_HDR_START_NET) && first == ip;
}

// Takes the packet from its socket, if that is needed: sends a copy of it, which has none, and ends the original. Returns
// the verdict on the original. `ip_at` is that of `struct packet`; of other headers than Ethernet's the kernel loses some.
static __always_inline int disown(struct __sk_buff *skb, __u32 ip_at)
{
	long status;

	if (!skb->sk || !fills_buffer(skb) || !(ip_at || begins_with_ip(skb)))
		return TC_ACT_UNSPEC;
	skb->cb[0] = DISOWNED;
	skb->cb[1] = skb->ifindex;
	status = bpf_clone_redirect(skb, skb->ifindex, 0);
	// Not sent: an interface without a header of its own, or no memory.
	if (status < 0)
		return TC_ACT_UNSPEC;
	// A full band is said to the socket as ever. Otherwise the original is sent to no interface: unlike one that is
	// dropped, it is no error of the socket (UdpSndbufErrors, ENOBUFS under IP_RECVERR).
	return status ? TC_ACT_SHOT : bpf_redirect(0, 0);
}

#endif
