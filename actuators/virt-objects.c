/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-objects.h"

#include <libvirt/virterror.h>

#include "host/move-objects.h"

enum objects_state { OBJECTS_THERE, OBJECTS_ASLEEP, OBJECTS_MISSING, OBJECTS_UNKNOWN };

static const struct {
    const char *words;
    int missing; /* libvirt's error for a missing object */
} objects_kinds[VG_MOVE_OBJECT_MAX] = {
    [VG_MOVE_NETWORK] = {"network", VIR_ERR_NO_NETWORK},
    [VG_MOVE_POOL] = {"storage pool", VIR_ERR_NO_STORAGE_POOL},
    [VG_MOVE_SECRET] = {"secret", VIR_ERR_NO_SECRET},
    [VG_MOVE_FILTER] = {"network filter", VIR_ERR_NO_NWFILTER},
};

/* Queries an object. Returns whether it is active, or -1 if it is missing. */
static int
objects_find(virConnectPtr connection, const struct vg_move_object *object)
{
    int active = -1;

    if (object->kind == VG_MOVE_NETWORK) {
        virNetworkPtr network = virNetworkLookupByName(connection, object->name);
        active = network ? virNetworkIsActive(network) : -1;
        if (network)
            virNetworkFree(network);
    } else if (object->kind == VG_MOVE_POOL) {
        virStoragePoolPtr pool = virStoragePoolLookupByName(connection, object->name);
        active = pool ? virStoragePoolIsActive(pool) : -1;
        if (pool)
            virStoragePoolFree(pool);
    } else if (object->kind == VG_MOVE_SECRET) {
        virSecretPtr secret = virSecretLookupByUUIDString(connection, object->name);
        active = secret ? 1 : -1;
        if (secret)
            virSecretFree(secret);
    } else {
        virNWFilterPtr filter = virNWFilterLookupByName(connection, object->name);
        active = filter ? 1 : -1;
        if (filter)
            virNWFilterFree(filter);
    }
    return active;
}

static enum objects_state
objects_check(virConnectPtr connection, const struct vg_move_object *object)
{
    virResetLastError();
    const int active = objects_find(connection, object);
    const bool missing = active < 0 && virGetLastErrorCode() == objects_kinds[object->kind].missing;

    virResetLastError();
    if (active < 0)
        return missing ? OBJECTS_MISSING : OBJECTS_UNKNOWN;
    return active ? OBJECTS_THERE : OBJECTS_ASLEEP;
}

void
virt_objects_check(vg_virt_host *host, const GPtrArray *objects, GPtrArray *problems)
{
    for (unsigned i = 0; i < objects->len; i++) {
        const struct vg_move_object *object = objects->pdata[i];
        const char *words = objects_kinds[object->kind].words;
        const enum objects_state state = objects_check(host->connection, object);
        if (state == OBJECTS_MISSING)
            g_ptr_array_add(problems,
                            g_strdup_printf("'%s' has no %s '%s', which the VM needs (<%s>)",
                                            host->uri, words, object->name, object->element));
        else if (state == OBJECTS_ASLEEP)
            g_ptr_array_add(problems,
                            g_strdup_printf("the %s '%s' of '%s', which the VM needs "
                                            "(<%s>), is not active",
                                            words, object->name, host->uri, object->element));
    }
}
