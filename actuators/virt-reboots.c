/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-reboots.h"

#include <glib.h>
#include <libvirt/virterror.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "model/vm-name.h"

struct vg_virt_reboots {
    atomic_uint references; /* one for each owner and each monitored connection */
    char *uuid;
    atomic_int_fast64_t last_ns;
};

vg_virt_reboots *
vg_virt_reboots_new(const char *uuid)
{
    vg_virt_reboots *reboots = g_new0(vg_virt_reboots, 1);

    reboots->uuid = g_strdup(uuid);
    atomic_store(&reboots->references, 1);
    return reboots;
}

vg_virt_reboots *
vg_virt_reboots_ref(vg_virt_reboots *reboots)
{
    if (reboots)
        atomic_fetch_add(&reboots->references, 1);
    return reboots;
}

void
vg_virt_reboots_unref(vg_virt_reboots *reboots)
{
    if (!reboots || atomic_fetch_sub(&reboots->references, 1) != 1)
        return;
    g_free(reboots->uuid);
    g_free(reboots);
}

/* Called on the thread virt-ev. */
static void
reboots_note(virConnectPtr connection, virDomainPtr domain, void *data)
{
    vg_virt_reboots *reboots = data;
    char uuid[VIR_UUID_STRING_BUFLEN];

    (void)connection;
    if (virDomainGetUUIDString(domain, uuid) == 0 && vg_vm_is(uuid, NULL, reboots->uuid))
        atomic_store(&reboots->last_ns, vg_clock_monotonic_ns());
}

static void
reboots_unref_data(void *data)
{
    vg_virt_reboots_unref(data);
}

int
vg_virt_reboots_listen(vg_virt_reboots *reboots, virConnectPtr connection)
{
    vg_virt_reboots_ref(reboots);
    int id = virConnectDomainEventRegisterAny(connection, NULL, VIR_DOMAIN_EVENT_ID_REBOOT,
                                              VIR_DOMAIN_EVENT_CALLBACK(reboots_note), reboots,
                                              reboots_unref_data);
    if (id < 0)
        vg_virt_reboots_unref(reboots);
    virResetLastError();
    return id;
}

void
vg_virt_reboots_stop(virConnectPtr connection, int id)
{
    if (id >= 0)
        virConnectDomainEventDeregisterAny(connection, id);
    virResetLastError();
}

int64_t
vg_virt_reboots_last_ns(vg_virt_reboots *reboots)
{
    return reboots ? (int64_t)atomic_load(&reboots->last_ns) : 0;
}
