/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads facts about a GPU from NVIDIA's management library: its memory, how much of it vGPUs can
 * have, and whether their types may differ. One thread.
 */
#ifndef VG_COLLECTORS_NVML_CARD_H
#define VG_COLLECTORS_NVML_CARD_H

#include "collectors/nvml.h"
#include "model/card-fact.h"

/* Reads what the library reports; the rest is unknown. address: of the GPU. */
void vg_nvml_card_read(const struct vg_nvml *nvml, vg_nvml_handle handle, const char *address,
                       struct vg_card_fact *ret);

#endif
