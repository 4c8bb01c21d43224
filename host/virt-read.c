/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/virt-read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libvirt/virterror.h>

#include "base/clock.h"
#include "host/domain-xml.h"
#include "host/gpu-local.h"
#include "host/proc-scan.h"
#include "host/qemu-owner.h"
#include "host/virt-devices.h"
#include "host/virt-event.h"
#include "model/vm-name.h"

#define KIB INT64_C(1024)
/* Free memory is reported again when it has changed by 1/32 of all memory. */
#define MEMORY_NEWS 32

struct vg_virt_reader {
    char *uri;
    char *host_name;
    char *sys, *proc;
    vg_proc_scan *scan;
    /* data that does not change while connected, without GPUs and VMs; or NULL */
    vg_inventory *host;
    GHashTable *boring; /* names of devices that are neither GPUs nor mediated devices */
    int64_t memory_free_bytes;
    bool is_cut;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virDomain, virDomainFree)

/* Copies a text that libvirt allocated, so that g_free() can free the copy. */
static char *
own(char *take_text)
{
    char *text = g_strdup(take_text);

    free(take_text);
    return text;
}

vg_virt_reader *
vg_virt_reader_new(const char *uri, const char *host_name, const char *sys, const char *proc)
{
    vg_virt_reader *reader = g_new0(vg_virt_reader, 1);

    reader->uri = g_strdup(uri);
    reader->host_name = g_strdup(host_name);
    reader->sys = g_strdup(sys);
    reader->proc = g_strdup(proc);
    reader->scan = vg_proc_scan_new(proc);
    reader->boring = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return reader;
}

void
vg_virt_reader_free(vg_virt_reader *reader)
{
    if (!reader)
        return;
    vg_inventory_free(reader->host);
    g_hash_table_unref(reader->boring);
    vg_proc_scan_free(reader->scan);
    g_free(reader->host_name);
    g_free(reader->sys);
    g_free(reader->proc);
    g_free(reader->uri);
    g_free(reader);
}

void
vg_virt_reader_forget_host(vg_virt_reader *reader)
{
    g_clear_pointer(&reader->host, vg_inventory_free);
    vg_virt_reader_forget_devices(reader);
}

void
vg_virt_reader_forget_devices(vg_virt_reader *reader)
{
    g_hash_table_remove_all(reader->boring);
}

/* ---- the host ---- */

static char *
hypervisor_of(virConnectPtr connection)
{
    const char *type = virConnectGetType(connection);
    unsigned long version = 0;

    if (!type || virConnectGetVersion(connection, &version) < 0 || version == 0)
        return g_strdup(type);
    return g_strdup_printf("%s %lu.%lu.%lu", type, version / 1000000, version / 1000 % 1000,
                           version % 1000);
}

static int
read_host(vg_virt_reader *reader, virConnectPtr connection, GError **err)
{
    g_autoptr(vg_inventory) host = vg_inventory_new(reader->host_name);
    virNodeInfo info;

    if (virNodeGetInfo(connection, &info) < 0)
        return vg_virt_error(err, "cannot read the host's properties");
    host->cpus = MIN(info.cpus, VG_CPU_LIMIT);
    host->memory_bytes = (int64_t)info.memory * KIB;
    host->libvirt_uri = g_strdup(reader->uri);
    host->hypervisor = hypervisor_of(connection);
    g_autofree char *xml = own(virConnectGetCapabilities(connection));
    /* Without UUID and CPU model, the rest is still useful. */
    if (xml)
        vg_capabilities_xml_read(xml, host, NULL);
    int64_t user = xml ? vg_capabilities_xml_user(xml) : -1;
    /* A user's own libvirt starts QEMU as that user, who may connect to it. */
    if (user < 0 && g_str_has_suffix(reader->uri, ":///session"))
        user = geteuid();
    vg_qemu_owner_set_user(user);
    virResetLastError();
    reader->host = g_steal_pointer(&host);
    return 0;
}

static void
read_free_memory(vg_virt_reader *reader, virConnectPtr connection, vg_inventory *inventory)
{
    int64_t free_bytes = (int64_t)MIN(virNodeGetFreeMemory(connection), (uint64_t)INT64_MAX);

    /* 0 means that the call failed. */
    if (free_bytes == 0)
        virResetLastError();
    if (llabs(free_bytes - reader->memory_free_bytes) > inventory->memory_bytes / MEMORY_NEWS)
        reader->memory_free_bytes = free_bytes;
    /* The total was read when the connection was opened. Memory may have been added since. */
    inventory->memory_free_bytes = MIN(reader->memory_free_bytes, inventory->memory_bytes);
}

/* ---- domains ---- */

static enum vg_domain_state
state_of(int state)
{
    switch (state) {
    case VIR_DOMAIN_RUNNING:
        return VG_DOMAIN_RUNNING;
    case VIR_DOMAIN_BLOCKED:
        return VG_DOMAIN_BLOCKED;
    case VIR_DOMAIN_PAUSED:
        return VG_DOMAIN_PAUSED;
    case VIR_DOMAIN_SHUTDOWN:
        return VG_DOMAIN_SHUTDOWN;
    case VIR_DOMAIN_SHUTOFF:
        return VG_DOMAIN_SHUTOFF;
    case VIR_DOMAIN_CRASHED:
        return VG_DOMAIN_CRASHED;
    case VIR_DOMAIN_PMSUSPENDED:
        return VG_DOMAIN_SUSPENDED;
    default:
        return VG_DOMAIN_UNKNOWN;
    }
}

/* Finds the process of libvirt's QEMU for this VM: by libvirt's pid file if it can be read,
 * otherwise by name, user and control group. Returns NULL if there is none. */
static const struct vg_proc_vm *
virt_find_process(const vg_virt_reader *reader, const struct vg_inv_vm *vm)
{
    const int32_t pid = vg_qemu_owner_read_pid(VG_QEMU_RUN_DIR, vm->name);
    const GPtrArray *all = vg_proc_scan_vms(reader->scan);
    const struct vg_proc_vm *found = NULL;

    for (unsigned i = 0; i < all->len; i++) {
        const struct vg_proc_vm *one = all->pdata[i];
        bool is_it = one->uuid[0] ? vg_vm_is(one->uuid, NULL, vm->uuid)
                                  : vg_vm_is(one->name, vm->name, NULL);
        if (is_it && one->pid == pid)
            return one;
        if (is_it && (!found || one->uuid[0]) && vg_qemu_owner_is(reader->proc, one->pid, vm->user))
            found = one;
    }
    return found;
}

static void
find_threads(const vg_virt_reader *reader, struct vg_inv_vm *vm)
{
    const struct vg_proc_vm *process = virt_find_process(reader, vm);

    if (!process)
        return;
    vm->pid = process->pid;
    for (unsigned i = 0; i < process->vcpus->len && i < VG_INVENTORY_VCPUS_MAX; i++) {
        const struct vg_proc_vcpu *vcpu = &g_array_index(process->vcpus, struct vg_proc_vcpu, i);
        struct vg_inv_vcpu *thread = vg_record_new(&vg_inv_vcpu_record);
        /* One thread for all vCPUs counts as the first vCPU's. */
        thread->index = CLAMP(vcpu->index, 0, VG_INVENTORY_VCPUS_MAX);
        thread->tid = vcpu->tid;
        g_ptr_array_add(vm->threads, thread);
    }
}

/* Reads a domain. A domain that disappears in the meantime is left out. An event will follow. */
static void
read_domain(const vg_virt_reader *reader, virDomainPtr domain, vg_inventory *inventory)
{
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    const char *name = virDomainGetName(domain);
    int state = VIR_DOMAIN_NOSTATE;

    if (!name || inventory->vms->len >= VG_SNAPSHOT_VMS_MAX ||
        virDomainGetState(domain, &state, NULL, 0) < 0)
        return;
    g_autofree char *xml = own(virDomainGetXMLDesc(domain, 0));
    if (!xml)
        return;
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    if (strlen(valid) > VG_SNAPSHOT_NAME_MAX)
        *g_utf8_find_prev_char(valid, valid + VG_SNAPSHOT_NAME_MAX + 1) = '\0';
    struct vg_inv_vm *vm = vg_inventory_add_vm(inventory, valid);
    if (virDomainGetUUIDString(domain, uuid) == 0)
        vm->uuid = g_ascii_strdown(uuid, -1);
    vm->state = state_of(state);
    unsigned id = virDomainGetID(domain);
    vm->id = id <= INT32_MAX ? (int64_t)id : -1;
    /* If libvirt's own XML cannot be read, the basic data remains. */
    vg_domain_xml_read(xml, inventory->cpu_model, vm, NULL);
    if (vm->id >= 0)
        find_threads(reader, vm);
}

static int
compare_vms(const void *a, const void *b)
{
    const struct vg_inv_vm *x = *(struct vg_inv_vm *const *)a, *y = *(struct vg_inv_vm *const *)b;
    int by_name = strcmp(x->name, y->name);

    return by_name ? by_name : g_strcmp0(x->uuid, y->uuid);
}

static int
read_domains(vg_virt_reader *reader, virConnectPtr connection, vg_inventory *inventory,
             GError **err)
{
    virDomainPtr *domains = NULL;
    int n = virConnectListAllDomains(connection, &domains, 0);

    if (n < 0)
        return vg_virt_error(err, "cannot list domains");
    for (int i = 0; i < n; i++) {
        g_autoptr(virDomain) domain = domains[i];
        read_domain(reader, domain, inventory);
    }
    free(domains);
    virResetLastError();
    g_ptr_array_sort(inventory->vms, compare_vms);
    return 0;
}

/* ---- devices ---- */

static void
read_devices(vg_virt_reader *reader, virConnectPtr connection, vg_inventory *inventory,
             char **ret_missing)
{
    g_autoptr(GPtrArray) devices = vg_virt_devices_list(connection, reader->boring);

    reader->is_cut = !devices && vg_virt_devices_cut();
    if (!devices) {
        *ret_missing = g_strdup_printf("GPUs cannot be listed: %s", virGetLastErrorMessage());
        virResetLastError();
        return;
    }
    vg_node_devices_put(devices, inventory);
    if (vg_gpu_local_is(reader->uri))
        vg_gpu_local_put(reader->sys, reader->proc, inventory);
}

vg_inventory *
vg_virt_read(vg_virt_reader *reader, virConnectPtr connection, char **ret_missing, GError **err)
{
    if (!reader->host && read_host(reader, connection, err) < 0)
        return NULL;
    g_autoptr(vg_inventory) inventory = vg_record_copy(&vg_inventory_record, reader->host);
    g_autofree char *missing = NULL;

    if (vg_proc_scan_update(reader->scan, vg_clock_monotonic_ns(), NULL) < 0)
        missing = g_strdup("processes cannot be listed, so the VMs' process IDs are unknown");
    if (read_domains(reader, connection, inventory, err) < 0)
        return NULL;
    read_free_memory(reader, connection, inventory);
    g_autofree char *no_devices = NULL;
    read_devices(reader, connection, inventory, &no_devices);
    *ret_missing = no_devices ? g_steal_pointer(&no_devices) : g_steal_pointer(&missing);
    return g_steal_pointer(&inventory);
}

bool
vg_virt_reader_is_cut(const vg_virt_reader *reader)
{
    return reader->is_cut;
}
