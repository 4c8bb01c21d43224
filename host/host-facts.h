/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads facts about this host without libvirt. Main thread.
 */
#ifndef VG_HOST_HOST_FACTS_H
#define VG_HOST_HOST_FACTS_H

#include "host/cpu-list.h"
#include "model/inventory.h"

/* Returns how many CPUs of a list are online. */
int64_t vg_host_facts_count_online(const struct vg_cpu_list *list);

/* Returns the number of this host's CPUs (host/cpu-list.h) that are online; 0 if none is. */
int64_t vg_host_facts_cpus(void);

/* Reads the CPUs, the memory and the free memory. Unknown values remain 0. */
void vg_host_facts_read(vg_inventory *inventory);

/* Completes an inventory of this machine with these facts where libvirt has reported less. The
 * kernel's MemAvailable measures free memory better than libvirt's figure, but only for this
 * machine. CPUs that the operator lists replace libvirt's. Unless is_ours, libvirt may describe
 * another machine or an invented one. */
void vg_host_facts_complete(const vg_inventory *facts, bool is_ours, vg_inventory *inventory);

/* Returns the name of this machine; the caller frees it. */
char *vg_host_facts_name(void);

/* Return the CPU time and the resident memory of this process. */
double vg_process_cpu_s(void);
int64_t vg_process_rss_bytes(void);

#endif
