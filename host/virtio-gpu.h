/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the XML of a domain which access programs in its guest have to the host's GPU through
 * virtio-gpu. Pure; any thread.
 */
#ifndef VG_HOST_VIRTIO_GPU_H
#define VG_HOST_VIRTIO_GPU_H

#include "host/xml-walk.h"
#include "model/inventory.h"

/* Returns what the domain's video cards offer, by libvirt's elements, by <qemu:override>, or by
 * arguments of QEMU. *ret_hostmem_bytes: the memory of the host that the guest can map, or 0; may
 * be NULL. */
enum vg_virtio_gpu vg_virtio_gpu_read(const xmlNode *domain, int64_t *ret_hostmem_bytes);

#endif
