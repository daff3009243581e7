/* SPDX-License-Identifier: GPL-2.0-only OR MIT
 *
 * The little of the kernel that ranked.bpf.c touches, declared by hand: a vmlinux.h is 4 MB and of one kernel. Structures
 * name only the members we use, and libbpf finds where the running kernel has them (CO-RE).
 */
#pragma once
#include <linux/errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* linux/bpf.h, which on a build machine may be older than these. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_NOEXIST 1

struct bpf_spin_lock {
	__u32 val;
};

struct bpf_refcount {
	__u32 opaque[1];
} __attribute__((aligned(4)));

struct bpf_list_head {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_list_node {
	__u64 opaque[3];
} __attribute__((aligned(8)));

struct bpf_rb_root {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_rb_node {
	__u64 opaque[4];
} __attribute__((aligned(8)));

/* net/tcp_states.h */
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_LISTEN 10
#define TCP_NEW_SYN_RECV 12

/* linux/netdevice.h */
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1

#undef container_of
#define container_of(pointer, type, member) ((type *)((void *)(pointer) - __builtin_offsetof(type, member)))
#define __contains(type, node) __attribute__((btf_decl_tag("contains:" #type ":" #node)))

struct nlattr;
struct netlink_ext_ack;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
};

struct sk_buff {
	struct sock *sk;
	char cb[48];
	__u32 priority;
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct gnet_stats_queue {
	__u32 backlog;
	__u32 drops;
};

struct Qdisc {
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

#pragma clang attribute pop

/* libbpf matches the members by name. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *, struct Qdisc *, struct sk_buff **);
	struct sk_buff *(*dequeue)(struct Qdisc *);
	int (*init)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *);
	void (*reset)(struct Qdisc *);
	void (*destroy)(struct Qdisc *);
};

extern void *bpf_obj_new_impl(__u64 type_id, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *object, void *meta) __ksym;
extern void *bpf_refcount_acquire_impl(void *object, void *meta) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *, struct bpf_list_node *, void *meta, __u64 offset) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *) __ksym;
extern struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *) __ksym;
extern struct bpf_list_node *bpf_list_front(struct bpf_list_head *) __ksym;
extern int bpf_rbtree_add_impl(struct bpf_rb_root *, struct bpf_rb_node *,
			       bool (*less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta,
			       __u64 offset) __ksym;
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *, struct bpf_rb_node *) __ksym;
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *) __ksym;
extern struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *) __ksym;
extern struct bpf_rb_node *bpf_rbtree_right(struct bpf_rb_root *, struct bpf_rb_node *) __ksym;
extern struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *, struct bpf_rb_node *) __ksym;
extern __u32 bpf_skb_get_hash(struct sk_buff *) __ksym;
extern void bpf_kfree_skb(struct sk_buff *) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *, struct bpf_sk_buff_ptr *) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *, __u64 expire_ns, __u64 slack_ns) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *, const struct sk_buff *) __ksym;

/* The verifier fills in what is NULL and 0 here. */
#define bpf_obj_new(type) ((type *)bpf_obj_new_impl(bpf_core_type_id_local(type), NULL))
#define bpf_obj_drop(object) bpf_obj_drop_impl(object, NULL)
#define bpf_refcount_acquire(object) bpf_refcount_acquire_impl(object, NULL)
#define bpf_list_push_back(head, node) bpf_list_push_back_impl(head, node, NULL, 0)
#define bpf_rbtree_add(root, node, less) bpf_rbtree_add_impl(root, node, less, NULL, 0)

static inline __u32 qdisc_pkt_len(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}
