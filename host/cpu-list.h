/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPUs of this host as the operator lists them. Without a list, they are all CPUs that are
 * online. vgpud's own affinity mask is not used, because a systemd unit may restrict it.
 */
#ifndef VG_HOST_CPU_LIST_H
#define VG_HOST_CPU_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"

struct vg_cpu_list {
    uint64_t words[VG_CPU_LIMIT / 64]; /* bit N % 64 of word N / 64: CPU N is in the list */
};

/* Reads a list such as "0-3,8", the form of the kernel's cpulist files, with or without a newline.
 * Fails with VG_E_INVALID if it is empty or malformed, a range goes down, or a CPU is not below
 * VG_CPU_LIMIT. On failure, *ret is unchanged. */
int vg_cpu_list_parse(const char *text, struct vg_cpu_list *ret, GError **err);

bool vg_cpu_list_has(const struct vg_cpu_list *list, int32_t cpu);

/* Returns the number of CPUs that are in both lists. */
int64_t vg_cpu_list_count_both(const struct vg_cpu_list *a, const struct vg_cpu_list *b);

/* Sets the CPUs of this host from a list that can be parsed; "" means all that are online. Called
 * before there are threads. */
void vg_cpu_list_set_host(const char *text);

/* Returns the list that was set, or NULL if all CPUs that are online count. Any thread. */
const struct vg_cpu_list *vg_cpu_list_host(void);

#endif
