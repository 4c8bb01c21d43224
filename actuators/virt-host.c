/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-host.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-hang.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/virt-devices.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virNodeDevice, virNodeDeviceFree)

/* After 5 s without an answer, libvirtd counts as lost, and pending calls fail. */
#define KEEPALIVE_S     1
#define KEEPALIVE_COUNT 5

char *
vg_virt_own(char *take_text)
{
    char *text = g_strdup(take_text);

    free(take_text);
    return text;
}

/* ---- the connection ---- */

bool
vg_virt_host_goes_on(vg_virt_host *host)
{
    atomic_store(&host->beat_ns, vg_clock_monotonic_ns());
    return !atomic_load(&host->given_up);
}

void
vg_virt_host_despair(vg_virt_host *host, const GError *why)
{
    GError *before = atomic_exchange(&host->hopeless, g_error_copy(why));

    if (before)
        g_error_free(before);
}

static int
host_open(vg_virt_host *host, GError **err)
{
    if (vg_virt_hang_check(host->uri, true, err) < 0)
        return -1;
    atomic_store(&host->connecting, true);
    host->connection = virConnectOpen(host->uri);
    /* Drivers without a server do not support keepalive, and do not need it. */
    if (host->connection &&
        virConnectSetKeepAlive(host->connection, KEEPALIVE_S, KEEPALIVE_COUNT) < 0 &&
        virGetLastErrorCode() != VIR_ERR_NO_SUPPORT)
        virConnectClose(g_steal_pointer(&host->connection));
    atomic_store(&host->connecting, false);
    if (!host->connection)
        vg_error(err, VG_E_UNREACHABLE, "cannot connect to '%s': %s", host->uri,
                 virGetLastErrorMessage());
    else
        vg_virt_hang_connected(host->uri);
    host->reboots_id = host->connection && host->reboots
                           ? vg_virt_reboots_listen(host->reboots, host->connection)
                           : -1;
    virResetLastError();
    return host->connection ? 0 : -1;
}

void
vg_virt_host_close(vg_virt_host *host)
{
    if (!host->connection)
        return;
    vg_virt_reboots_stop(host->connection, host->reboots_id);
    virConnectClose(g_steal_pointer(&host->connection));
    host->is_cut = false;
    virResetLastError();
}

/* Fails if the caller no longer waits. */
static int
host_check_waited_for(vg_virt_host *host, GError **err)
{
    return vg_virt_host_goes_on(host)
               ? 0
               : vg_error(err, VG_E_TIMEOUT, "the request for '%s' was cancelled", host->uri);
}

int
vg_virt_host_connect(vg_virt_host *host, GError **err)
{
    if (host->connection && !host->is_cut && virConnectIsAlive(host->connection) == 1)
        return host_check_waited_for(host, err);
    vg_virt_host_close(host);
    return host_open(host, err) < 0 ? -1 : host_check_waited_for(host, err);
}

/* libvirt's last error on this thread, from reading it until failing with it. */
static _Thread_local char *host_error;
static _Thread_local bool host_error_is_rpc; /* one daemon of libvirt did not reach another one */

void
vg_virt_host_read_error(void)
{
    const virError *error = virGetLastError();

    g_free(host_error);
    host_error = g_strdup(virGetLastErrorMessage());
    host_error_is_rpc = error && error->domain == VIR_FROM_RPC;
    virResetLastError();
}

bool
vg_virt_host_answers(vg_virt_host *host)
{
    unsigned long version;

    if (!host->connection || virConnectIsAlive(host->connection) != 1) {
        virResetLastError();
        return false;
    }
    if (!host->is_cut && virConnectGetLibVersion(host->connection, &version) < 0)
        host->is_cut = virGetLastErrorDomain() == VIR_FROM_RPC;
    virResetLastError();
    return !host->is_cut;
}

int
vg_virt_host_fail(vg_virt_host *host, GError **err, const char *fmt, ...)
{
    g_autofree char *why = g_steal_pointer(&host_error);
    va_list args;

    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    bool alive = host_error_is_rpc ? vg_virt_host_answers(host)
                                   : host->connection && virConnectIsAlive(host->connection) == 1;
    virResetLastError();
    return vg_error(err, alive ? VG_E_EXTERNAL : VG_E_UNREACHABLE, "%s on '%s': %s", text,
                    host->uri, why);
}

/* ---- domains ---- */

virDomainPtr
vg_virt_host_domain(vg_virt_host *host, const char *uuid, GError **err)
{
    if (vg_virt_host_connect(host, err) < 0)
        return NULL;
    virDomainPtr domain = virDomainLookupByUUIDString(host->connection, uuid);
    if (host_check_waited_for(host, err) < 0) {
        if (domain)
            virDomainFree(domain);
        return NULL;
    }
    if (domain)
        return domain;
    if (virGetLastErrorCode() == VIR_ERR_NO_DOMAIN) {
        virResetLastError();
        vg_error(err, VG_E_NOT_FOUND, "there is no domain %s on '%s'", uuid, host->uri);
    } else {
        vg_virt_host_failed(host, err, "cannot look up domain %s", uuid);
    }
    return NULL;
}

char *
vg_virt_host_xml(vg_virt_host *host, virDomainPtr domain, unsigned flags, GError **err)
{
    g_autofree char *xml = vg_virt_own(virDomainGetXMLDesc(domain, flags));

    if (host_check_waited_for(host, err) < 0)
        return NULL;
    const int code = virGetLastErrorCode();
    if (!xml && (code == VIR_ERR_NO_DOMAIN || code == VIR_ERR_OK)) {
        /* libvirt may give no reason if the domain stops during the check. */
        virResetLastError();
        vg_error(err, VG_E_CONFLICT, "'%s' left '%s' during the check", virDomainGetName(domain),
                 host->uri);
    } else if (!xml) {
        vg_virt_host_failed(host, err, "cannot read the XML of '%s'", virDomainGetName(domain));
    }
    return g_steal_pointer(&xml);
}

GPtrArray *
vg_virt_host_devices(vg_virt_host *host, virDomainPtr domain, unsigned flags, GError **err)
{
    g_autofree char *xml = vg_virt_host_xml(host, domain, flags, err);

    return xml ? vg_domain_devices_read(xml, err) : NULL;
}

/* ---- the state of a domain ---- */

static const char *
host_pause_words(int reason)
{
    switch (reason) {
    case VIR_DOMAIN_PAUSED_USER:
        return "paused by a user";
    case VIR_DOMAIN_PAUSED_MIGRATION:
        return "paused by a migration that has ended";
    case VIR_DOMAIN_PAUSED_IOERROR:
        return "paused after an I/O error";
    case VIR_DOMAIN_PAUSED_WATCHDOG:
        return "paused by its watchdog";
    case VIR_DOMAIN_PAUSED_CRASHED:
        return "paused after a crash of the guest";
    default:
        return "paused";
    }
}

const char *
vg_virt_host_pause(virDomainPtr domain)
{
    int state = VIR_DOMAIN_NOSTATE, reason = 0;
    const bool is_paused =
        virDomainGetState(domain, &state, &reason, 0) == 0 && state == VIR_DOMAIN_PAUSED;

    virResetLastError();
    return is_paused ? host_pause_words(reason) : NULL;
}

/* Determines from the domain's job whether it is migrating, and how much was copied. An outgoing
 * migration is a job. During an incoming migration, the query fails with a specific error. After a
 * crash of libvirtd, there is neither: a domain paused while starting up then waits for a
 * migration. */
static enum vg_domain_place
host_check_job(virDomainPtr domain, bool is_paused, int reason, int64_t *ret_copied_bytes)
{
    unsigned long long copied = 0;
    virTypedParameterPtr params = NULL;
    int n = 0, type = VIR_DOMAIN_JOB_NONE, operation = VIR_DOMAIN_JOB_OPERATION_UNKNOWN;
    const bool arrives = is_paused && reason == VIR_DOMAIN_PAUSED_STARTING_UP;
    const enum vg_domain_place place = arrives     ? VG_DOMAIN_INCOMING
                                       : is_paused ? VG_DOMAIN_STILL
                                                   : VG_DOMAIN_HERE;

    if (virDomainGetJobStats(domain, &type, &params, &n, 0) < 0) {
        const int code = virGetLastErrorCode();
        virResetLastError();
        return is_paused &&
                       (code == VIR_ERR_OPERATION_UNSUPPORTED || code == VIR_ERR_OPERATION_INVALID)
                   ? VG_DOMAIN_INCOMING
                   : place;
    }
    virTypedParamsGetInt(params, n, VIR_DOMAIN_JOB_OPERATION, &operation);
    virTypedParamsGetULLong(params, n, VIR_DOMAIN_JOB_MEMORY_PROCESSED, &copied);
    *ret_copied_bytes = (int64_t)MIN(copied, (unsigned long long)VG_JSON_INT_MAX);
    virTypedParamsFree(params, n);
    return type != VIR_DOMAIN_JOB_NONE && operation == VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT
               ? VG_DOMAIN_LEAVING
               : place;
}

static int
host_check_state(vg_virt_host *host, virDomainPtr domain, struct vg_domain_look *look, GError **err)
{
    int state = VIR_DOMAIN_NOSTATE, reason = 0, persistent = virDomainIsPersistent(domain);

    if (persistent < 0 || virDomainGetState(domain, &state, &reason, 0) < 0)
        return vg_virt_host_failed(host, err, "cannot read the state of '%s'",
                                   virDomainGetName(domain));
    look->defined = persistent == 1;
    if (virDomainIsActive(domain) == 1 && state != VIR_DOMAIN_CRASHED)
        look->place =
            host_check_job(domain, state == VIR_DOMAIN_PAUSED, reason, &look->copied_bytes);
    look->runs = state == VIR_DOMAIN_RUNNING;
    if (look->place != VG_DOMAIN_STILL)
        return 0;
    look->stands = host_pause_words(reason);
    look->by_migration = reason == VIR_DOMAIN_PAUSED_MIGRATION || reason == VIR_DOMAIN_PAUSED_USER;
    return 0;
}

int64_t
vg_virt_host_begin_ns(vg_virt_host *host, virDomainPtr domain)
{
    g_autofree char *xml = vg_virt_host_xml(host, domain, 0, NULL);
    /* virDomainGetMaxMemory() returns KiB */
    const int64_t gib = (int64_t)(virDomainGetMaxMemory(domain) >> 20);

    virResetLastError();
    /* For a QEMU that preallocates memory, libvirt itself waits one second longer per GiB. */
    const bool is_ahead = xml && (strstr(xml, "<hugepages") || strstr(xml, "<locked/>") ||
                                  strstr(xml, "<hostdev ") || strstr(xml, "mode='immediate'"));
    return VG_VIRT_STUCK_NS + (is_ahead ? gib * VG_NS_PER_S : 0);
}

static int
host_check_domain(vg_virt_host *host, virDomainPtr domain, const char *const *aliases,
                  struct vg_domain_look *look, GError **err)
{
    if (host_check_state(host, domain, look, err) < 0)
        return -1;
    if (look->place == VG_DOMAIN_LEAVING)
        look->begin_ns = vg_virt_host_begin_ns(host, domain);
    if (look->place == VG_DOMAIN_ABSENT || !aliases)
        return 0;
    g_autoptr(GPtrArray) devices = vg_virt_host_devices(host, domain, 0, err);
    if (!devices)
        return -1;
    for (size_t i = 0; aliases[i]; i++)
        look->present += vg_domain_devices_find(devices, aliases[i], NULL) != NULL;
    return 0;
}

int
vg_virt_host_look(vg_virt_host *host, const char *uuid, const char *const *aliases,
                  struct vg_domain_look *ret, GError **err)
{
    struct vg_domain_look look = {.place = VG_DOMAIN_ABSENT};
    g_autoptr(GError) error = NULL;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, &error);

    if (domain && host_check_domain(host, domain, aliases, &look, &error) < 0 &&
        !g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) && vg_virt_host_goes_on(host)) {
        /* The domain may have stopped in the meantime, which each call reports with a different
         * error. */
        g_clear_error(&error);
        look = (struct vg_domain_look){.place = VG_DOMAIN_ABSENT};
        g_autoptr(virDomain) again = vg_virt_host_domain(host, uuid, &error);
        if (again)
            host_check_domain(host, again, aliases, &look, &error);
    }
    if (error && !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    *ret = look;
    return 0;
}

int
vg_virt_host_end_incoming(vg_virt_host *host, const char *uuid, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    struct vg_domain_look look = {.place = VG_DOMAIN_ABSENT};

    if (!domain || host_check_state(host, domain, &look, err) < 0)
        return -1;
    if (look.place != VG_DOMAIN_INCOMING)
        return vg_error(err, VG_E_CONFLICT, "'%s' is not waiting for a migration on '%s'",
                        virDomainGetName(domain), host->uri);
    /* libvirt may report that there is no domain after it has ended it. */
    if (virDomainDestroy(domain) < 0 && virGetLastErrorCode() != VIR_ERR_NO_DOMAIN)
        return vg_virt_host_failed(host, err, "cannot end '%s'", virDomainGetName(domain));
    virResetLastError();
    return 0;
}

/* ---- devices of the host ---- */

bool
vg_virt_host_is_plain_vfio(vg_virt_host *host, const char *address)
{
    g_autofree char *name = g_strdup_printf("pci_%s", address);

    g_strdelimit(name, ":.", '_');
    g_autoptr(virNodeDevice) device = virNodeDeviceLookupByName(host->connection, name);
    g_autofree char *xml = device ? vg_virt_own(virNodeDeviceGetXMLDesc(device, 0)) : NULL;
    virResetLastError();
    return xml && strstr(xml, "<name>vfio-pci</name>");
}

/* Lists the devices, or stores libvirt's error for vg_virt_host_fail(). */
static GPtrArray *
host_list_devices(vg_virt_host *host, bool *ret_is_cut)
{
    GPtrArray *devices = vg_virt_devices_list(host->connection, NULL);

    *ret_is_cut = !devices && vg_virt_devices_cut();
    if (!devices)
        vg_virt_host_read_error();
    return devices;
}

GPtrArray *
vg_virt_host_node_devices(vg_virt_host *host, GError **err)
{
    bool is_cut;
    g_autoptr(GPtrArray) devices = host_list_devices(host, &is_cut);

    /* Only virtnodedevd was restarted. */
    if (is_cut && virConnectIsAlive(host->connection) == 1) {
        vg_virt_host_close(host);
        if (host_open(host, err) < 0)
            return NULL;
        devices = host_list_devices(host, &is_cut);
    }
    if (host_check_waited_for(host, err) < 0)
        return NULL;
    if (!devices)
        vg_virt_host_fail(host, err, "cannot list the devices");
    return g_steal_pointer(&devices);
}
