/* SPDX-License-Identifier: Apache-2.0
 *
 * Picks host devices for an arriving domain. A device is taken if any domain has it, even a stopped
 * one, which would need it at its next start. Named devices have slots for running domains, so only
 * these count. model/gpu-part determines which devices are free, and why others are not. tests/vfio
 * tests this with VFIO and mediated devices of a real kernel, tests/lab with libvirt's test driver
 * and XML from real hosts.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "actuators/virt-mdev.h"
#include "base/error.h"
#include "model/gpu-part.h"
#include "model/vm-name.h"

#define REASONS_TOLD 4

struct pick {
    vg_virt_host *host;
    struct vg_move_device *device;
    const GPtrArray *devices; /* struct vg_move_device, all to be picked together */
    GPtrArray *taken;         /* char *, reserved for other VMs or already picked */
    bool dry_run;             /* no mdev is created */
    bool packs; /* whether GPUs with the most vGPUs come first, otherwise those with the fewest */
    GPtrArray *
        /* vg_domain_device lists of running domains; NULL if no named device is requested */
        running;
    GPtrArray *node_devices; /* vg_node_device; NULL if only named devices are requested */
    vg_inventory *inventory; /* the GPUs among node_devices, and the domains that use them */
};

static void
pick_free_devices(void *devices)
{
    g_ptr_array_unref(devices);
}

static GPtrArray *
pick_read_running(vg_virt_host *host, GError **err)
{
    virDomainPtr *domains = NULL;
    int n = virConnectListAllDomains(host->connection, &domains, VIR_CONNECT_LIST_DOMAINS_ACTIVE);

    if (n < 0) {
        vg_virt_host_failed(host, err, "cannot list the domains");
        return NULL;
    }
    GPtrArray *running = g_ptr_array_new_with_free_func(pick_free_devices);
    for (int i = 0; i < n; i++) {
        g_autoptr(virDomain) domain = domains[i];
        /* A domain that has stopped in the meantime has no devices. */
        GPtrArray *devices = vg_virt_host_devices(host, domain, 0, NULL);
        if (devices)
            g_ptr_array_add(running, devices);
    }
    free(domains);
    return running;
}

static int64_t
pick_count_users(const GPtrArray *running, const char *alias)
{
    int64_t users = 0;

    for (unsigned i = 0; i < running->len; i++)
        users += vg_domain_devices_find(running->pdata[i], alias, NULL) != NULL;
    return users;
}

static int
pick_take(const struct pick *pick, const char *xml, const char *address, GError **err)
{
    struct vg_move_device *device = pick->device;
    char *made = vg_device_xml_make(xml, device->alias, device->guest_address, address, err);

    if (!made)
        return -1;
    g_free(device->target_xml);
    device->target_xml = made;
    g_free(device->target_address);
    device->target_address = g_strdup(address);
    g_ptr_array_add(pick->taken, g_strdup(address ? address : device->type));
    return 0;
}

/* Returns whether the request allows this GPU. */
static bool
pick_may_use(const struct pick *pick, const char *gpu)
{
    const char *wanted = pick->device->target_gpu;

    return !wanted || g_ascii_strcasecmp(wanted, gpu) == 0;
}

/* Counts the mdevs and virtual functions of a GPU that are used or reserved. */
static int
pick_count_vgpus(const GPtrArray *parts, const char *gpu)
{
    int n = 0;

    for (unsigned i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        n += (part->kind == VG_GPU_PART_MDEV || part->kind == VG_GPU_PART_VF) &&
             (part->state == VG_GPU_PART_USED || part->state == VG_GPU_PART_RESERVED) &&
             g_ascii_strcasecmp(part->gpu, gpu) == 0;
    }
    return n;
}

/* Returns whether gpu_placement prefers one GPU to another. */
static bool
pick_prefers(const struct pick *pick, const GPtrArray *parts, const char *gpu, const char *than)
{
    const int n = pick_count_vgpus(parts, gpu), other = pick_count_vgpus(parts, than);

    return pick->packs ? n > other : n < other;
}

/* Describes the host, and the GPU if a specific one is requested. The caller frees the text. */
static char *
pick_where(const struct pick *pick)
{
    return pick->device->target_gpu
               ? g_strdup_printf("of the GPU %s on '%s'", pick->device->target_gpu, pick->host->uri)
               : g_strdup_printf("on '%s'", pick->host->uri);
}

/* The reasons why suitable parts are not free. */
struct pick_reasons {
    GString *text;
    unsigned n;
};

static void
pick_add_reason(struct pick_reasons *reasons, const struct vg_gpu_part *part, const char *why)
{
    reasons->n++;
    if (reasons->n <= REASONS_TOLD)
        g_string_append_printf(reasons->text, "; %s: %s", part->address, why);
}

static int
pick_refuse(const struct pick *pick, struct pick_reasons *reasons, const char *what, GError **err)
{
    g_autofree char *text = g_string_free(reasons->text, FALSE);
    g_autofree char *where = pick_where(pick);

    if (reasons->n == 0)
        return vg_error(err, VG_E_CONFLICT, "there is no %s %s %s", what, pick->device->type,
                        where);
    g_autofree char *more = reasons->n > REASONS_TOLD
                                ? g_strdup_printf("; and %u more", reasons->n - REASONS_TOLD)
                                : g_strdup("");
    return vg_error(err, VG_E_CONFLICT, "no %s %s is free %s%s%s", what, pick->device->type, where,
                    text, more);
}

/* ---- named devices ---- */

static int
pick_named(const struct pick *pick, const struct vg_named_device *named, size_t n_named,
           GError **err)
{
    const struct vg_move_device *device = pick->device;
    const struct vg_named_device *own = NULL;
    int64_t taken = 0;

    for (size_t i = 0; i < n_named && !own; i++)
        own = strcmp(named[i].name, device->type) == 0 ? &named[i] : NULL;
    if (!own)
        return vg_error(err, VG_E_CONFLICT, "the target's configuration has no [gpu %s]",
                        device->type);
    g_autoptr(vg_domain_device) known = vg_domain_device_read(own->xml, err);
    if (!known)
        return -1;
    if (g_strcmp0(known->alias, device->alias) != 0)
        return vg_error(err, VG_E_CONFLICT,
                        "the alias of [gpu %s] is '%s' in the target's configuration and '%s' in "
                        "the VM: they must be the same",
                        device->type, known->alias ? known->alias : "", device->alias);
    for (unsigned i = 0; i < pick->taken->len; i++)
        taken += strcmp(pick->taken->pdata[i], device->type) == 0;
    int64_t users = pick_count_users(pick->running, device->alias);
    if (users + taken >= own->slots)
        return vg_error(err, VG_E_CONFLICT,
                        "no [gpu %s] is free on '%s': of %lld, %lld are used and %lld reserved",
                        device->type, pick->host->uri, (long long)own->slots, (long long)users,
                        (long long)taken);
    return pick_take(pick, own->xml, NULL, err);
}

/* ---- mediated devices ---- */

static struct vg_inv_mdev_type *
pick_find_type(const vg_node_device *gpu, const char *type)
{
    for (unsigned i = 0; i < gpu->types->len; i++) {
        struct vg_inv_mdev_type *at = gpu->types->pdata[i];
        if (strcmp(at->type, type) == 0)
            return at;
    }
    return NULL;
}

/* Takes one mdev from the capacity of a virtual function's card. Returns false if the card is full.
 * Each function offers one mdev until then. */
static bool
pick_take_room(const struct pick *pick, const vg_node_device *device, const char *type)
{
    for (unsigned i = 0; device->physical && i < pick->inventory->gpus->len; i++) {
        const struct vg_inv_gpu *gpu = pick->inventory->gpus->pdata[i];
        for (unsigned k = 0; k < gpu->mdev_types->len; k++) {
            struct vg_inv_mdev_type *room = gpu->mdev_types->pdata[k];
            if (strcmp(gpu->device, device->physical) == 0 && strcmp(room->type, type) == 0)
                return room->available-- > 0;
        }
    }
    return true;
}

/* Lists suitable mdevs that are defined but inactive. Returns "" if there are none. */
static char *
pick_name_inactive(const struct pick *pick)
{
    GString *text = g_string_new(NULL);
    unsigned n = 0;

    for (unsigned i = 0; i < pick->node_devices->len; i++) {
        const vg_node_device *mdev = pick->node_devices->pdata[i];
        if (mdev->kind == VG_NODE_DEVICE_MDEV && mdev->inactive &&
            g_strcmp0(mdev->type, pick->device->type) == 0 && n++ < REASONS_TOLD)
            g_string_append_printf(text, "; %s is defined, but not started", mdev->uuid);
    }
    return g_string_free(text, FALSE);
}

/* Returns the PCI address of the GPU itself, or of the GPU to which a virtual function belongs. */
static const char *
pick_card_of(const vg_node_device *device)
{
    return device->physical ? device->physical : device->address;
}

/* Lists the devices that offer mdevs of the type (vg_node_device, borrowed), in the order of
 * gpu_placement. The caller unrefs the list. */
static GPtrArray *
pick_list_parents(const struct pick *pick, const GPtrArray *parts)
{
    GPtrArray *parents = g_ptr_array_new();

    for (unsigned i = 0; i < pick->node_devices->len; i++) {
        vg_node_device *gpu = pick->node_devices->pdata[i];
        if (gpu->kind != VG_NODE_DEVICE_GPU || !pick_may_use(pick, pick_card_of(gpu)) ||
            !pick_find_type(gpu, pick->device->type))
            continue;
        unsigned at = parents->len;
        while (at > 0 &&
               pick_prefers(pick, parts, pick_card_of(gpu), pick_card_of(parents->pdata[at - 1])))
            at--;
        g_ptr_array_insert(parents, (int)at, gpu);
    }
    return parents;
}

static int
pick_new_mdev(const struct pick *pick, const GPtrArray *parts, GError **err)
{
    const char *type = pick->device->type;
    const vg_node_device *last = NULL;
    g_autofree char *words = NULL, *where = pick_where(pick);
    g_autoptr(GPtrArray) parents = pick_list_parents(pick, parts);

    for (unsigned i = 0; i < parents->len; i++) {
        const vg_node_device *gpu = parents->pdata[i];
        struct vg_inv_mdev_type *offered = pick_find_type(gpu, type);
        if (!offered || offered->available < 1 || !gpu->name ||
            (pick->dry_run && !pick_take_room(pick, gpu, type)))
            continue;
        g_autofree char *uuid = pick->dry_run ? vg_mdev_uuid_new()
                                              : vg_virt_host_make_mdev(pick->host, gpu->name, type);
        offered->available -= pick->dry_run;
        if (uuid)
            return pick_take(pick, pick->device->source_xml, uuid, err);
        last = gpu;
        g_free(words);
        words = g_strdup(virGetLastErrorMessage());
        virResetLastError();
    }
    if (last)
        return vg_error(
            err, VG_E_CONFLICT,
            "no mediated device %s is free %s, and libvirt cannot create one there (%s): "
            "create one with 'mdevctl start -u UUID -p %s -t %s'",
            type, where, words, last->address, type);
    g_autofree char *asleep = pick_name_inactive(pick);
    return vg_error(err, VG_E_CONFLICT,
                    parents->len > 0
                        ? "no mediated device %s is free %s, and no GPU has capacity for another%s"
                        : "no GPU offers mediated devices %s %s%s",
                    type, where, asleep);
}

static int
pick_mdev(const struct pick *pick, GError **err)
{
    g_autoptr(GPtrArray) parts = vg_gpu_parts(pick->inventory, pick->taken);
    const struct vg_gpu_part *best = NULL;

    for (unsigned i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (part->kind == VG_GPU_PART_MDEV && part->state == VG_GPU_PART_FREE &&
            g_strcmp0(part->type, pick->device->type) == 0 && pick_may_use(pick, part->gpu) &&
            (!best || pick_prefers(pick, parts, part->gpu, best->gpu)))
            best = part;
    }
    return best ? pick_take(pick, pick->device->source_xml, best->address, err)
                : pick_new_mdev(pick, parts, err);
}

/* ---- PCI devices ---- */

static const char unmanaged[] = "not bound to vfio-pci, and the VM's element has managed='no'";

/* Returns whether a part would suit if it were free. A virtual function of unknown type might suit:
 * it is reported, but never picked. */
static bool
pick_would_do(const struct pick *pick, const struct vg_gpu_part *part)
{
    return (part->kind == VG_GPU_PART_WHOLE || part->kind == VG_GPU_PART_VF) &&
           pick_may_use(pick, part->gpu) &&
           (g_strcmp0(part->type, pick->device->type) == 0 ||
            (part->kind == VG_GPU_PART_VF && !part->type));
}

static bool
pick_is_managed(const struct vg_move_device *device)
{
    g_autoptr(vg_domain_device) peer = vg_domain_device_read(device->source_xml, NULL);

    return peer && peer->managed;
}

/* Returns whether the VM also gets other functions of the GPU's card, which libvirt binds. Their
 * current driver is then irrelevant. */
static bool
pick_brings_functions(const struct pick *pick)
{
    for (unsigned i = 0; i < pick->devices->len; i++) {
        const struct vg_move_device *device = pick->devices->pdata[i];
        if (g_strcmp0(device->function_of, pick->device->alias) == 0 && pick_is_managed(device))
            return true;
    }
    return false;
}

static int
pick_pci(const struct pick *pick, GError **err)
{
    const bool managed = pick_is_managed(pick->device), brings = pick_brings_functions(pick);
    g_autoptr(GPtrArray) parts = vg_gpu_parts(pick->inventory, pick->taken);
    struct pick_reasons reasons = {g_string_new(NULL), 0};
    const struct vg_gpu_part *best = NULL;

    for (unsigned i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (!pick_would_do(pick, part))
            continue;
        /* libvirt binds the function for the VM only if its element requests it. */
        if (part->state != VG_GPU_PART_FREE && !(part->by_function && brings))
            pick_add_reason(&reasons, part, part->why);
        else if (!part->bound && !managed)
            pick_add_reason(&reasons, part, unmanaged);
        else if (!best || (best->last && !part->last) ||
                 (best->last == part->last && pick_prefers(pick, parts, part->gpu, best->gpu)))
            best = part;
    }
    if (!best)
        return pick_refuse(pick, &reasons, "GPU", err);
    g_string_free(reasons.text, TRUE);
    return pick_take(pick, pick->device->source_xml, best->address, err);
}

/* Returns the address picked for the GPU with this alias, or NULL. */
static const char *
pick_find_gpu(const struct pick *pick, const char *alias)
{
    for (unsigned i = 0; i < pick->devices->len; i++) {
        const struct vg_move_device *device = pick->devices->pdata[i];
        if (g_strcmp0(device->alias, alias) == 0)
            return device->target_address;
    }
    return NULL;
}

/* Picks audio and other functions on the card of the picked GPU. */
static int
pick_function(const struct pick *pick, GError **err)
{
    g_autoptr(GPtrArray) parts = vg_gpu_parts(pick->inventory, pick->taken);
    const char *gpu = pick_find_gpu(pick, pick->device->function_of);
    const bool managed = pick_is_managed(pick->device);
    struct pick_reasons reasons = {g_string_new(NULL), 0};

    for (unsigned i = 0; gpu && i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (part->kind != VG_GPU_PART_FUNCTION || strcmp(part->gpu, gpu) != 0 ||
            g_strcmp0(part->type, pick->device->type) != 0)
            continue;
        if (part->state != VG_GPU_PART_FREE || (!part->bound && !managed)) {
            pick_add_reason(&reasons, part,
                            part->state == VG_GPU_PART_FREE ? unmanaged : part->why);
            continue;
        }
        g_string_free(reasons.text, TRUE);
        return pick_take(pick, pick->device->source_xml, part->address, err);
    }
    return pick_refuse(pick, &reasons, "function of the GPU's card", err);
}

/* ---- all devices ---- */

static int
pick_one(const struct pick *pick, const struct vg_named_device *named, size_t n_named, GError **err)
{
    const struct vg_move_device *device = pick->device;

    if (device->kind == VG_MOVE_DEVICE_NAMED)
        return pick_named(pick, named, n_named, err);
    if (!device->source_xml)
        return vg_error(err, VG_E_INVALID, "device '%s' has no XML", device->alias);
    if (device->kind == VG_MOVE_DEVICE_MDEV)
        return pick_mdev(pick, err);
    if (device->function_of)
        return pick_function(pick, err);
    return pick_pci(pick, err);
}

/* Reads the information about the host that the requested devices need. */
static int
pick_read_host(struct pick *pick, GError **err)
{
    bool named = false, others = false;

    for (unsigned i = 0; i < pick->devices->len; i++) {
        const struct vg_move_device *device = pick->devices->pdata[i];
        if (device->kind == VG_MOVE_DEVICE_NAMED)
            named = true;
        else
            others = true;
    }
    if (named)
        pick->running = pick_read_running(pick->host, err);
    if (named && !pick->running)
        return -1;
    if (!others)
        return 0;
    pick->node_devices = vg_virt_host_node_devices(pick->host, err);
    if (pick->node_devices)
        pick->inventory = vg_virt_host_inventory(pick->host, pick->node_devices, err);
    return pick->inventory ? 0 : -1;
}

int
vg_virt_host_pick(vg_virt_host *host, const GPtrArray *devices, const GPtrArray *taken,
                  bool dry_run, bool packs, const struct vg_named_device *named, size_t n_named,
                  GError **err)
{
    if (vg_virt_host_connect(host, err) < 0)
        return -1;
    g_autoptr(GPtrArray) all_taken = g_ptr_array_new_with_free_func(g_free);
    struct pick pick = {
        .host = host, .devices = devices, .taken = all_taken, .dry_run = dry_run, .packs = packs};
    int result = pick_read_host(&pick, err);

    for (unsigned i = 0; taken && i < taken->len; i++)
        g_ptr_array_add(all_taken, g_strdup(taken->pdata[i]));
    /* GPUs are picked before the other functions of their cards. */
    for (unsigned i = 0; i < 2 * devices->len && result == 0; i++) {
        pick.device = devices->pdata[i % devices->len];
        if ((i < devices->len) == !pick.device->function_of)
            result = pick_one(&pick, named, n_named, err);
    }
    g_clear_pointer(&pick.running, g_ptr_array_unref);
    g_clear_pointer(&pick.node_devices, g_ptr_array_unref);
    vg_inventory_free(pick.inventory);
    return result;
}

/* ---- other users of the devices ---- */

/* Returns whether a domain has a device with this address, or with this alias if there is no
 * address. */
static bool
pick_has(const GPtrArray *has, const struct vg_move_device *device)
{
    return device->source_address ? vg_domain_devices_find(has, NULL, device->source_address)
                                  : vg_domain_devices_find(has, device->alias, NULL);
}

static int64_t
pick_slots(const struct vg_move_device *device, const struct vg_named_device *named, size_t n_named)
{
    for (size_t i = 0; i < n_named && device->kind == VG_MOVE_DEVICE_NAMED; i++)
        if (strcmp(named[i].name, device->type) == 0)
            return named[i].slots;
    return 1;
}

int
vg_virt_host_check_others(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                          const struct vg_named_device *named, size_t n_named, GError **err)
{
    if (vg_virt_host_connect(host, err) < 0)
        return -1;
    g_autofree int64_t *users = g_new0(int64_t, devices->len);
    virDomainPtr *domains = NULL;
    const int n =
        virConnectListAllDomains(host->connection, &domains, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    int result = 0;

    if (n < 0)
        return vg_virt_host_failed(host, err, "cannot list the domains");
    for (int i = 0; i < n; i++) {
        g_autoptr(virDomain) domain = domains[i];
        char other[VIR_UUID_STRING_BUFLEN] = "";
        if (result < 0 || virDomainGetUUIDString(domain, other) < 0 || vg_vm_is(other, NULL, uuid))
            continue;
        /* A domain that has stopped in the meantime has no devices. */
        g_autoptr(GPtrArray) has = vg_virt_host_devices(host, domain, 0, NULL);
        for (unsigned k = 0; has && result == 0 && k < devices->len; k++) {
            const struct vg_move_device *device = devices->pdata[k];
            if (pick_has(has, device) && ++users[k] >= pick_slots(device, named, n_named))
                result =
                    vg_error(err, VG_E_CONFLICT, "the VM '%s' uses %s", virDomainGetName(domain),
                             device->source_address ? device->source_address : device->type);
        }
    }
    free(domains);
    return result;
}
