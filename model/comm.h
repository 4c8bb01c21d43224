/* SPDX-License-Identifier: Apache-2.0
 *
 * Classifies threads by their names. Reentrant.
 */
#ifndef VG_MODEL_COMM_H
#define VG_MODEL_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"

/* "CPU 3/KVM" and "CPU 3/TCG" are vCPU 3. "ALL CPUs/TCG" is one thread for all vCPUs and has no
 * index. "qemu-system-x86" and similar names are QEMU processes. Names of the kernel's own workers
 * are kernel threads. All other names are unknown. */
bool vg_comm_is_vcpu(const char *comm, int32_t *ret_index);
bool vg_comm_is_qemu(const char *comm);
enum vg_thread_kind vg_comm_kind(const char *comm);

/* "vhost-5000" (on kernels before 6.4) and "kvm-pit/5000" are kernel threads that work for QEMU
 * process 5000. */
bool vg_comm_names_owner(const char *comm, int32_t *ret_pid);

#endif
