/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads facts about this host for which libvirt is not needed. Main thread.
 */
#ifndef VG_HOST_HOST_FACTS_H
#define VG_HOST_HOST_FACTS_H

#include "model/inventory.h"

/* Reads the CPUs, the memory and the free memory. Unknown values stay 0. */
void vg_host_facts_read(vg_inventory *inventory);

/* Completes an inventory of this machine with these facts where libvirt has reported less. The
 * kernel's MemAvailable is a better measure of free memory than libvirt's figure, but holds for
 * this machine only, while libvirt may describe another one, or an invented one, unless it is_ours.
 */
void vg_host_facts_complete(const vg_inventory *facts, bool is_ours, vg_inventory *inventory);

/* Returns the name of this machine; the caller frees it. */
char *vg_host_facts_name(void);

/* Return the CPU time and the resident memory of this process. */
double vg_process_cpu_s(void);
int64_t vg_process_rss_bytes(void);

#endif
