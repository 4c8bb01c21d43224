/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libbpf's header of this name where a BPF program is compiled for this machine, to
 * run in a test: tests/unit/bpf-memory.c is the kernel that it calls.
 */
#ifndef VG_TESTS_FAKE_BPF_BPF_BPF_HELPERS_H
#define VG_TESTS_FAKE_BPF_BPF_BPF_HELPERS_H

#include <stdint.h>

#include <linux/types.h>

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline      __attribute__((noinline))

#define bpf_map_lookup_elem(map, key)               fake_bpf_lookup((map), (key))
#define bpf_map_update_elem(map, key, value, flags) fake_bpf_add((map), (key), (value))
#define bpf_get_smp_processor_id()                  fake_bpf_cpu()
#define bpf_get_current_pid_tgid()                  fake_bpf_pid_tgid()
#define bpf_ktime_get_ns()                          fake_bpf_now()
#define bpf_probe_read_kernel(to, size, from)       fake_bpf_read((to), (size), (from))
#define bpf_probe_read_kernel_str(to, size, from)   fake_bpf_read_str((to), (size), (from))
#define bpf_ringbuf_reserve(ring, size, flags)      fake_bpf_reserve((size))
#define bpf_ringbuf_submit(record, flags)           fake_bpf_submit((record))

void *fake_bpf_lookup(const void *map, const void *key);
long fake_bpf_add(const void *map, const void *key, const void *value);
uint32_t fake_bpf_cpu(void);
uint64_t fake_bpf_pid_tgid(void);
uint64_t fake_bpf_now(void);
long fake_bpf_read(void *to, uint32_t size, const void *from);
long fake_bpf_read_str(char *to, uint32_t size, const char *from);
void *fake_bpf_reserve(uint64_t size);
void fake_bpf_submit(void *record);

#endif
