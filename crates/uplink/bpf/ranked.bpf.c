// SPDX-License-Identifier: GPL-2.0-only OR MIT
// A queueing discipline that orders flows by rank and paces them.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";
