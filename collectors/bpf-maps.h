/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
 *
 * The memory of the BPF programs: global variables and maps.
 */
#ifndef VG_COLLECTORS_BPF_MAPS_H
#define VG_COLLECTORS_BPF_MAPS_H

/* Later headers need the types of earlier ones. */
/* clang-format off */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "collectors/bpf-shared.h"
/* clang-format on */

__u16 tid_pages[VG_BPF_PAGE_INDEX];
__u16 tid_slots[VG_BPF_PAGES][VG_BPF_PAGE_TIDS];
struct vg_bpf_name names[VG_BPF_NAMES];
struct vg_bpf_totals totals;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
} notes SEC(".maps");

/* Not a global array: Linux 5.10 refuses a map with a value of more than 4 MiB, and the
 * global variables are one value. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, VG_BPF_SLOTS);
    __type(key, __u32);
    __type(value, struct vg_bpf_thread);
} threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1); /* the number of CPUs, before loading */
    __type(key, __u32);
    __type(value, struct vg_bpf_cpu);
} cpus SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 16384);
    __type(key, struct vg_bpf_cell_key);
    __type(value, struct vg_bpf_cell);
} cells SEC(".maps");

static __always_inline struct vg_bpf_thread *
thread_at(__u32 slot)
{
    return bpf_map_lookup_elem(&threads, &slot);
}

static __always_inline struct vg_bpf_cpu *
cpu_at(__u32 cpu)
{
    return bpf_map_lookup_elem(&cpus, &cpu);
}

#endif
