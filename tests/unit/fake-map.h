/* SPDX-License-Identifier: Apache-2.0
 *
 * One BPF hash map in this process. For its number, libbpf's functions that get keys and values of
 * a map, or delete them, are answered here and not by the kernel. One thread.
 */
#ifndef VG_TESTS_FAKE_MAP_H
#define VG_TESTS_FAKE_MAP_H

#include "collectors/bpf-shared.h"

#define FAKE_MAP_FD 1000

/* Empties it. */
void fake_map_reset(unsigned max_entries);

/* The value of a key, or NULL. */
struct vg_bpf_cell *fake_map_find(const struct vg_bpf_cell_key *key);

/* -E2BIG: it is full. */
int fake_map_add(const struct vg_bpf_cell_key *key, const struct vg_bpf_cell *value);

unsigned fake_map_count(void);

#endif
