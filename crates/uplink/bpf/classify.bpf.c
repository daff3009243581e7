// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Looks at every packet that leaves an interface and says how urgent it is.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";
