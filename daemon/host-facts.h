/* SPDX-License-Identifier: Apache-2.0
 *
 * What this host shows of itself without libvirt. Main thread.
 */
#ifndef VG_DAEMON_HOST_FACTS_H
#define VG_DAEMON_HOST_FACTS_H

#include "model/inventory.h"

/* CPUs, memory and free memory; what cannot be found out stays 0. */
void vg_host_facts_read(vg_inventory *inventory);

/* Puts them into an inventory of this machine where libvirt has told less. MemAvailable says better
 * than libvirt what is free, but of this machine: libvirt's may be another one, or made up. */
void vg_host_facts_complete(const vg_inventory *facts, vg_inventory *inventory);

/* The name of this machine; the caller frees it. */
char *vg_host_facts_name(void);

/* CPU time and resident memory of this process. */
double vg_process_cpu_s(void);
int64_t vg_process_rss_bytes(void);

#endif
