/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/record-vms.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "host/proc-scan.h"
#include "host/vm-map.h"

struct seen {
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
};

struct vg_record_vms {
    vg_proc_scan *scan;
    GArray *seen; /* struct seen */
    int64_t next_scan_ns;
};

vg_record_vms *
vg_record_vms_new(const char *proc)
{
    vg_record_vms *vms = g_new0(vg_record_vms, 1);

    vms->scan = vg_proc_scan_new(proc);
    vms->seen = g_array_new(FALSE, TRUE, sizeof(struct seen));
    return vms;
}

void
vg_record_vms_free(vg_record_vms *vms)
{
    if (!vms)
        return;
    vg_proc_scan_free(vms->scan);
    g_array_unref(vms->seen);
    g_free(vms);
}

/* Records each process id once. A recording could not distinguish a second VM with the same id. */
static void
remember(vg_record_vms *vms, const struct vg_proc_vm *vm)
{
    struct seen fresh = {.pid = vm->pid};

    for (unsigned int i = 0; i < vms->seen->len; i++) {
        if (g_array_index(vms->seen, struct seen, i).pid == vm->pid)
            return;
    }
    g_strlcpy(fresh.name, vm->name, sizeof(fresh.name));
    g_strlcpy(fresh.uuid, vm->uuid, sizeof(fresh.uuid));
    g_array_append_val(vms->seen, fresh);
}

void
vg_record_vms_look(vg_record_vms *vms, int64_t now_ns)
{
    /* Data that is unreadable now may be readable at the next scan. The map contains what was
     * seen. */
    if (now_ns < vms->next_scan_ns || vg_proc_scan_update(vms->scan, now_ns, NULL) < 0)
        return;
    vms->next_scan_ns = now_ns + VG_NS_PER_S;
    const GPtrArray *vm_list = vg_proc_scan_vms(vms->scan);
    for (unsigned int i = 0; i < vm_list->len; i++)
        remember(vms, vm_list->pdata[i]);
}

int
vg_record_vms_write(const vg_record_vms *vms, const char *path, GPtrArray *notes, GError **err)
{
    g_autoptr(GString) map = g_string_new("# pid name uuid of the VMs that were running\n");

    for (unsigned int i = 0; i < vms->seen->len; i++) {
        const struct seen *vm = &g_array_index(vms->seen, struct seen, i);
        g_autoptr(GError) error = NULL;
        if (vg_vm_map_append(map, vm->pid, vm->name, vm->uuid, &error) < 0)
            g_ptr_array_add(notes, g_strdup_printf("the VM with process ID %d will be named "
                                                   "qemu-%d: %s",
                                                   vm->pid, vm->pid, error->message));
    }
    if (vms->seen->len == 0)
        g_ptr_array_add(notes, g_strdup("no VM was running: no process has vCPU threads, which "
                                        "have names such as \"CPU 0/KVM\""));
    return vg_file_write(path, map->str, err);
}

json_object *
vg_record_vms_to_json(const vg_record_vms *vms)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < vms->seen->len; i++) {
        const struct seen *vm = &g_array_index(vms->seen, struct seen, i);
        json_object *object = json_object_new_object();
        vg_json_add_int64(object, "pid", vm->pid);
        vg_json_add_string(object, "name", vm->name);
        vg_json_add_string(object, "uuid", vm->uuid[0] ? vm->uuid : NULL);
        vg_json_append(array, object);
    }
    return array;
}
