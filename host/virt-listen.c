/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/virt-listen.h"

#include <libvirt/virterror.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "host/domain-xml.h"

/* A host that starts all its guests at the same time causes several events for each. */
#define NEWS_MAX 4096

#define REGISTRATIONS_MAX 8

struct vg_virt_ear {
    vg_queue *news;
    /* references: the owner, and each event registration, which libvirt releases on its own thread
     * later */
    atomic_uint references;
    atomic_bool closed; /* the connection is closed */
    int domain_ids[REGISTRATIONS_MAX];
    unsigned n_domain_ids;
    int device_ids[REGISTRATIONS_MAX];
    unsigned n_device_ids;
    bool on_close;
};

void
vg_virt_news_free(vg_virt_news *news)
{
    if (!news)
        return;
    g_free(news->text);
    g_free(news->vm);
    g_free(news->uuid);
    g_free(news);
}

static void
free_news(void *news)
{
    vg_virt_news_free(news);
}

vg_virt_ear *
vg_virt_ear_new(void)
{
    vg_virt_ear *ear = g_new0(vg_virt_ear, 1);

    ear->news = vg_queue_new(NEWS_MAX, VG_QUEUE_DROP, free_news);
    atomic_store(&ear->references, 1);
    return ear;
}

static void
virt_listen_release(void *data)
{
    vg_virt_ear *ear = data;

    if (atomic_fetch_sub(&ear->references, 1) != 1)
        return;
    vg_queue_free(ear->news);
    g_free(ear);
}

void
vg_virt_ear_free(vg_virt_ear *ear)
{
    if (ear)
        virt_listen_release(ear);
}

void
vg_virt_ear_close(vg_virt_ear *ear)
{
    vg_queue_close(ear->news);
}

vg_virt_news *
vg_virt_ear_get(vg_virt_ear *ear, int64_t timeout_ns)
{
    bool closed = true;
    vg_virt_news *news = vg_queue_get(ear->news, atomic_load(&ear->closed) ? 0 : timeout_ns);

    if (!news && atomic_compare_exchange_strong(&ear->closed, &closed, false)) {
        news = g_new0(vg_virt_news, 1);
        news->kind = VG_VIRT_NEWS_CLOSED;
    }
    return news;
}

/* ---- what events are called ---- */

struct name {
    int event;
    int detail; /* -1: any */
    const char *text;
};

#define EV(event)          VIR_DOMAIN_EVENT_##event
#define ROW(event, detail) EV(event), EV(event##_##detail)

static const struct name names[] = {
    {ROW(DEFINED, UPDATED), "defined: updated"},
    {ROW(DEFINED, RENAMED), "defined: renamed"},
    {ROW(DEFINED, FROM_SNAPSHOT), "defined: from snapshot"},
    {EV(DEFINED), -1, "defined"},
    {ROW(UNDEFINED, RENAMED), "undefined: renamed"},
    {EV(UNDEFINED), -1, "undefined"},
    {ROW(STARTED, MIGRATED), "started: incoming"},
    {ROW(STARTED, RESTORED), "started: restored"},
    {ROW(STARTED, FROM_SNAPSHOT), "started: from snapshot"},
    {ROW(STARTED, WAKEUP), "started: woken up"},
    {EV(STARTED), -1, "started"},
    {ROW(SUSPENDED, MIGRATED), "suspended: migrating"},
    {ROW(SUSPENDED, IOERROR), "suspended: I/O error"},
    {ROW(SUSPENDED, WATCHDOG), "suspended: watchdog"},
    {ROW(SUSPENDED, RESTORED), "suspended: restored"},
    {ROW(SUSPENDED, FROM_SNAPSHOT), "suspended: from snapshot"},
    {ROW(SUSPENDED, API_ERROR), "suspended: API error"},
    {ROW(SUSPENDED, POSTCOPY), "suspended: postcopy"},
    {ROW(SUSPENDED, POSTCOPY_FAILED), "suspended: postcopy failed"},
    {EV(SUSPENDED), -1, "suspended"},
    {ROW(RESUMED, MIGRATED), "migrated-in"},
    {ROW(RESUMED, FROM_SNAPSHOT), "resumed: from snapshot"},
    {ROW(RESUMED, POSTCOPY), "resumed: postcopy"},
#if LIBVIR_CHECK_VERSION(8, 5, 0)
    {ROW(RESUMED, POSTCOPY_FAILED), "resumed: postcopy failed"},
#endif
    {EV(RESUMED), -1, "resumed"},
    {ROW(STOPPED, SHUTDOWN), "stopped: shutdown"},
    {ROW(STOPPED, DESTROYED), "stopped: destroyed"},
    {ROW(STOPPED, CRASHED), "stopped: crashed"},
    {ROW(STOPPED, MIGRATED), "migrated-out"},
    {ROW(STOPPED, SAVED), "stopped: saved"},
    {ROW(STOPPED, FAILED), "stopped: failed"},
    {ROW(STOPPED, FROM_SNAPSHOT), "stopped: from snapshot"},
    {EV(STOPPED), -1, "stopped"},
    {EV(SHUTDOWN), -1, "shutdown"},
    {EV(PMSUSPENDED), -1, "suspended: power management"},
    {EV(CRASHED), -1, "crashed"},
};

char *
vg_virt_lifecycle_text(int event, int detail)
{
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (names[i].event == event && (names[i].detail == detail || names[i].detail == -1))
            return g_strdup(names[i].text);
    return g_strdup_printf("event %d: %d", event, detail);
}

/* ---- callbacks, on virt-ev ---- */

static void
virt_listen_report_domain(vg_virt_ear *ear, virDomainPtr domain, char *take_text)
{
    vg_virt_news *news = g_new0(vg_virt_news, 1);
    char uuid[VIR_UUID_STRING_BUFLEN];
    const char *name = virDomainGetName(domain);

    news->kind = VG_VIRT_NEWS_DOMAIN;
    news->text = take_text;
    news->vm = name ? g_utf8_make_valid(name, -1) : NULL;
    if (virDomainGetUUIDString(domain, uuid) == 0)
        news->uuid = g_ascii_strdown(uuid, -1);
    vg_queue_put(ear->news, news);
}

static int
on_lifecycle(virConnectPtr connection, virDomainPtr domain, int event, int detail, void *data)
{
    (void)connection;
    virt_listen_report_domain(data, domain, vg_virt_lifecycle_text(event, detail));
    return 0;
}

static void
on_device_added(virConnectPtr connection, virDomainPtr domain, const char *alias, void *data)
{
    (void)connection;
    virt_listen_report_domain(data, domain, g_strdup_printf("device-added: %s", alias));
}

static void
on_device_removed(virConnectPtr connection, virDomainPtr domain, const char *alias, void *data)
{
    (void)connection;
    virt_listen_report_domain(data, domain, g_strdup_printf("device-removed: %s", alias));
}

static void
on_metadata(virConnectPtr connection, virDomainPtr domain, int type, const char *uri, void *data)
{
    (void)connection;
    (void)type;
    if (g_strcmp0(uri, VG_POLICY_XML_URI) == 0)
        virt_listen_report_domain(data, domain, g_strdup("policy changed"));
}

static void
virt_listen_report_devices(vg_virt_ear *ear)
{
    vg_virt_news *news = g_new0(vg_virt_news, 1);

    news->kind = VG_VIRT_NEWS_DEVICES;
    vg_queue_put(ear->news, news);
}

static void
on_host_device(virConnectPtr connection, virNodeDevicePtr device, int event, int detail, void *data)
{
    (void)connection;
    (void)device;
    (void)event;
    (void)detail;
    virt_listen_report_devices(data);
}

static void
on_host_device_update(virConnectPtr connection, virNodeDevicePtr device, void *data)
{
    (void)connection;
    (void)device;
    virt_listen_report_devices(data);
}

static void
on_close(virConnectPtr connection, int reason, void *data)
{
    vg_virt_ear *ear = data;

    (void)connection;
    (void)reason;
    atomic_store(&ear->closed, true);
    /* Wake the waiting reader. */
    virt_listen_report_devices(ear);
}

/* ---- registrations ---- */

static void
listen_to_domains(vg_virt_ear *ear, virConnectPtr connection, int what,
                  virConnectDomainEventGenericCallback callback)
{
    atomic_fetch_add(&ear->references, 1);
    int id = virConnectDomainEventRegisterAny(connection, NULL, what, callback, ear,
                                              virt_listen_release);
    if (id >= 0)
        ear->domain_ids[ear->n_domain_ids++] = id;
    else
        virt_listen_release(ear);
}

static void
listen_to_devices(vg_virt_ear *ear, virConnectPtr connection, int what,
                  virConnectNodeDeviceEventGenericCallback callback)
{
    atomic_fetch_add(&ear->references, 1);
    int id = virConnectNodeDeviceEventRegisterAny(connection, NULL, what, callback, ear,
                                                  virt_listen_release);
    if (id >= 0)
        ear->device_ids[ear->n_device_ids++] = id;
    else
        virt_listen_release(ear);
}

void
vg_virt_ear_attach(vg_virt_ear *ear, virConnectPtr connection)
{
    atomic_store(&ear->closed, false);
    listen_to_domains(ear, connection, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                      VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle));
    listen_to_domains(ear, connection, VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
                      VIR_DOMAIN_EVENT_CALLBACK(on_device_added));
    listen_to_domains(ear, connection, VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
                      VIR_DOMAIN_EVENT_CALLBACK(on_device_removed));
    listen_to_domains(ear, connection, VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
                      VIR_DOMAIN_EVENT_CALLBACK(on_metadata));
    listen_to_devices(ear, connection, VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE,
                      VIR_NODE_DEVICE_EVENT_CALLBACK(on_host_device));
    listen_to_devices(ear, connection, VIR_NODE_DEVICE_EVENT_ID_UPDATE,
                      VIR_NODE_DEVICE_EVENT_CALLBACK(on_host_device_update));
    /* This takes no reference. Drivers that never close report success and forget the callback.
     * Those that do close call it under the lock that unregistering takes. */
    ear->on_close = virConnectRegisterCloseCallback(connection, on_close, ear, NULL) == 0;
    virResetLastError();
}

void
vg_virt_ear_detach(vg_virt_ear *ear, virConnectPtr connection)
{
    for (unsigned i = 0; i < ear->n_domain_ids; i++)
        virConnectDomainEventDeregisterAny(connection, ear->domain_ids[i]);
    for (unsigned i = 0; i < ear->n_device_ids; i++)
        virConnectNodeDeviceEventDeregisterAny(connection, ear->device_ids[i]);
    if (ear->on_close)
        virConnectUnregisterCloseCallback(connection, on_close);
    ear->n_domain_ids = 0;
    ear->n_device_ids = 0;
    ear->on_close = false;
    virResetLastError();
}
