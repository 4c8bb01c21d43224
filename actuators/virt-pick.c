/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding a device on the host for a domain that comes. What another domain has is looked for in
 * all domains: a stopped one that has a GPU in its definition would miss it at its next start. Only
 * of named devices, which have slots for domains that run, those that run count.
 *
 * Mediated and PCI devices were tried with libvirt's test driver and texts of real hosts only.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/error.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virNodeDevice, virNodeDeviceFree)

struct pick {
    vg_virt_host *host;
    struct vg_move_device *device;
    const GPtrArray *taken; /* char * */
    const char *peer_xml;   /* of the device where it is now: how it is passed through */
    GPtrArray *used;        /* vg_domain_device lists, one for each domain that counts */
};

static bool
is_taken(const GPtrArray *taken, const char *name)
{
    for (unsigned i = 0; taken && i < taken->len; i++)
        if (g_ascii_strcasecmp(taken->pdata[i], name) == 0)
            return true;
    return false;
}

static void
free_devices(void *devices)
{
    g_ptr_array_unref(devices);
}

/* The devices of all domains, live where they run. */
static GPtrArray *
read_used(const vg_virt_host *host, bool running_only, GError **err)
{
    virDomainPtr *domains = NULL;
    int n = virConnectListAllDomains(host->connection, &domains,
                                     running_only ? VIR_CONNECT_LIST_DOMAINS_ACTIVE : 0);

    if (n < 0) {
        vg_virt_host_failed(host, err, "cannot list the domains");
        return NULL;
    }
    GPtrArray *used = g_ptr_array_new_with_free_func(free_devices);
    for (int i = 0; i < n; i++) {
        g_autoptr(virDomain) domain = domains[i];
        /* One that has gone meanwhile has none. */
        GPtrArray *devices = vg_virt_host_devices(host, domain, 0, NULL);
        if (devices)
            g_ptr_array_add(used, devices);
    }
    free(domains);
    return used;
}

static int64_t
count_users(const GPtrArray *used, const char *alias, const char *source_address)
{
    int64_t users = 0;

    for (unsigned i = 0; i < used->len; i++)
        users += vg_domain_devices_find(used->pdata[i], alias, source_address) != NULL;
    return users;
}

static bool
is_free(const struct pick *pick, const char *address)
{
    return !is_taken(pick->taken, address) && count_users(pick->used, "", address) == 0;
}

/* Fills in what was found. */
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
    return 0;
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
    for (unsigned i = 0; pick->taken && i < pick->taken->len; i++)
        taken += strcmp(pick->taken->pdata[i], device->type) == 0;
    int64_t users = count_users(pick->used, device->alias, NULL);
    if (users + taken >= own->slots)
        return vg_error(err, VG_E_CONFLICT,
                        "no [gpu %s] is free on '%s': of %lld, %lld are used and %lld reserved",
                        device->type, pick->host->uri, (long long)own->slots, (long long)users,
                        (long long)taken);
    return pick_take(pick, own->xml, NULL, err);
}

/* ---- mediated devices ---- */

static const struct vg_inv_mdev_type *
type_of(const vg_node_device *gpu, const char *type)
{
    for (unsigned i = 0; i < gpu->types->len; i++) {
        const struct vg_inv_mdev_type *at = gpu->types->pdata[i];
        if (strcmp(at->type, type) == 0)
            return at;
    }
    return NULL;
}

/* The UUID of a new one, or NULL. */
static char *
create_mdev(const struct pick *pick, const vg_node_device *gpu)
{
    const char *type = pick->device->type;
    g_autofree char *xml =
        g_markup_printf_escaped("<device><parent>%s</parent><capability type='mdev'>"
                                "<type id='%s'/></capability></device>",
                                gpu->name, type);
    g_autoptr(virNodeDevice) made = virNodeDeviceCreateXML(pick->host->connection, xml, 0);
    g_autofree char *text = made ? vg_virt_own(virNodeDeviceGetXMLDesc(made, 0)) : NULL;
    g_autoptr(vg_node_device) device = text ? vg_node_device_read(text, NULL) : NULL;

    return device && device->uuid ? g_strdup(device->uuid) : NULL;
}

static int
pick_new_mdev(const struct pick *pick, const GPtrArray *node_devices, GError **err)
{
    const char *type = pick->device->type;
    const vg_node_device *last = NULL;
    g_autofree char *words = NULL;
    bool known = false;

    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *gpu = node_devices->pdata[i];
        const struct vg_inv_mdev_type *offered =
            gpu->kind == VG_NODE_DEVICE_GPU ? type_of(gpu, type) : NULL;
        known = known || offered;
        if (!offered || offered->available < 1 || !gpu->name)
            continue;
        g_autofree char *uuid = create_mdev(pick, gpu);
        if (uuid)
            return pick_take(pick, pick->peer_xml, uuid, err);
        last = gpu;
        g_free(words);
        words = g_strdup(virGetLastErrorMessage());
        virResetLastError();
    }
    if (last)
        return vg_error(err, VG_E_CONFLICT,
                        "no mediated device %s is free on '%s', and libvirt makes none there (%s): "
                        "make one with 'mdevctl start -u UUID -p %s -t %s'",
                        type, pick->host->uri, words, last->address, type);
    return vg_error(err, VG_E_CONFLICT,
                    known ? "no mediated device %s is free on '%s', and no GPU has room for another"
                          : "no GPU offers mediated devices %s on '%s'",
                    type, pick->host->uri);
}

static int
pick_mdev(const struct pick *pick, const GPtrArray *node_devices, GError **err)
{
    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *mdev = node_devices->pdata[i];
        if (mdev->kind == VG_NODE_DEVICE_MDEV && g_strcmp0(mdev->type, pick->device->type) == 0 &&
            is_free(pick, mdev->uuid))
            return pick_take(pick, pick->peer_xml, mdev->uuid, err);
    }
    return pick_new_mdev(pick, node_devices, err);
}

/* ---- PCI devices ---- */

/* Whether there are virtual functions or mediated devices of it. */
static bool
is_divided(const vg_node_device *gpu, const GPtrArray *node_devices)
{
    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *other = node_devices->pdata[i];
        if (g_strcmp0(other->physical, gpu->address) == 0 ||
            g_strcmp0(other->parent, gpu->address) == 0)
            return true;
    }
    return false;
}

static int
pick_pci(const struct pick *pick, const GPtrArray *node_devices, GError **err)
{
    unsigned used = 0, divided = 0, bound = 0;
    g_autoptr(vg_domain_device) peer = vg_domain_device_read(pick->peer_xml, err);

    if (!peer)
        return -1;
    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *gpu = node_devices->pdata[i];
        if (gpu->kind != VG_NODE_DEVICE_GPU || g_strcmp0(gpu->pci_id, pick->device->type) != 0)
            continue;
        /* libvirt gives it to vfio-pci only if the element says so. */
        bool ready = peer->managed || (gpu->driver && strstr(gpu->driver, "vfio"));
        if (!is_free(pick, gpu->address))
            used++;
        else if (is_divided(gpu, node_devices))
            divided++;
        else if (!ready)
            bound++;
        else
            return pick_take(pick, pick->peer_xml, gpu->address, err);
    }
    return vg_error(err, VG_E_CONFLICT,
                    "no GPU %s is free on '%s': of %u, %u are used or reserved, %u divided, and %u "
                    "not bound to vfio-pci",
                    pick->device->type, pick->host->uri, used + divided + bound, used, divided,
                    bound);
}

int
vg_virt_pick(vg_virt_host *host, struct vg_move_device *device, const GPtrArray *taken,
             const struct vg_named_device *named, size_t n_named, GError **err)
{
    if (vg_virt_host_connect(host, err) < 0)
        return -1;
    g_autoptr(GPtrArray) used = read_used(host, device->kind == VG_MOVE_DEVICE_NAMED, err);
    const struct pick pick = {.host = host,
                              .device = device,
                              .taken = taken,
                              .peer_xml = device->source_xml,
                              .used = used};
    if (!used)
        return -1;
    if (device->kind == VG_MOVE_DEVICE_NAMED)
        return pick_named(&pick, named, n_named, err);
    if (!device->source_xml)
        return vg_error(err, VG_E_INVALID, "device '%s' comes without its XML", device->alias);
    g_autoptr(GPtrArray) node_devices = vg_virt_host_node_devices(host, err);
    if (!node_devices)
        return -1;
    return device->kind == VG_MOVE_DEVICE_MDEV ? pick_mdev(&pick, node_devices, err)
                                               : pick_pci(&pick, node_devices, err);
}
