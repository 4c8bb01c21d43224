/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a VM map: refused with a message, or names that fit.
 */
#include "config.h"

#include <string.h>

#include "host/vm-map.h"
#include "tests/fuzz/check-event.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(GError) error = NULL;

    if (vg_vm_map_apply("fuzz", (const char *)data, size, topology, &error) < 0) {
        require(error != NULL && g_str_has_prefix(error->message, "fuzz:"));
        return 0;
    }
    require(error == NULL);
    for (int32_t tid = 1; tid < 300; tid++) {
        const struct vg_process *process = vg_thread_process(vg_topology_thread(topology, tid));
        require(strlen(process->name) < VG_VM_NAME_MAX);
        require(process->uuid[0] == '\0' || strlen(process->uuid) == VG_UUID_LEN - 1);
    }
    return 0;
}
