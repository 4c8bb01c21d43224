/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads facts about this host without libvirt. Main thread.
 */
#ifndef VG_HOST_HOST_FACTS_H
#define VG_HOST_HOST_FACTS_H

#include "host/cpu-list.h"
#include "model/inventory.h"

/* Checks [daemon] cpus, which must be empty or a list with a CPU that is online. */
int vg_host_facts_check_cpus(const char *text, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads the CPUs that are online, the memory and the free memory. Unknown values remain 0. */
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
