/* SPDX-License-Identifier: Apache-2.0
 *
 * Maintains one read-only connection to libvirt. Reads everything after each event, and
 * periodically without events, and reports changes. If the connection closes or cannot be opened,
 * it is tried again indefinitely, at growing intervals.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/collector.h"
#include "host/virt-event.h"
#include "host/virt-listen.h"
#include "host/virt-read.h"
#include "model/trouble.h"

/* Events come in bursts, so everything is read this long after the first one. */
#define DEBOUNCE_NS  (100 * VG_NS_PER_MS)
#define RETRY_MIN_NS VG_NS_PER_S
#define RETRY_MAX_NS (30 * VG_NS_PER_S)
#define BEAT_NS      (500 * VG_NS_PER_MS)
/* A daemon that does not answer for 15 s counts as lost. */
#define KEEPALIVE_S     5
#define KEEPALIVE_COUNT 3

struct virt {
    struct vg_collector base; /* first */
    char *uri;
    int64_t poll_ns;
    vg_virt_reader *reader;
    vg_virt_ear *ear;
    char *last_hash; /* hash of the last reported inventory, or NULL */
    bool is_cut;     /* virtnodedevd was not connected when the connection was opened */
    struct vg_reported_state reported;
};

static void
libvirt_report_state(struct virt *v, const struct vg_report_sink *sink,
                     enum vg_collector_state state, enum vg_trouble trouble, const char *text)
{
    vg_report_put_state(&v->reported, sink, v->base.ops->name, state, trouble, text);
}

/* ---- the connection ---- */

/* Explains what to check if the connection cannot be opened. */
static char *
advice(const char *uri)
{
    const char *user = g_get_user_name();

    if (g_str_has_prefix(uri, "qemu:///system"))
        return g_strdup_printf("; is libvirtd or virtqemud running, and may user '%s' read its "
                               "socket, /run/libvirt/libvirt-sock-ro or virtqemud-sock-ro?",
                               user);
    if (g_str_has_prefix(uri, "test:"))
        return g_strdup("; does the test driver's file exist, and is it valid?");
    return g_strdup("; is libvirtd running there, and is the URI right?");
}

static enum vg_trouble
libvirt_trouble(const virError *error)
{
    switch (error ? error->code : VIR_ERR_OK) {
    case VIR_ERR_AUTH_FAILED:
    case VIR_ERR_AUTH_CANCELLED:
    case VIR_ERR_AUTH_UNAVAILABLE:
        return VG_TROUBLE_LIBVIRT_DENIED;
    case VIR_ERR_SYSTEM_ERROR: /* int1 is errno */
        return error->int1 == EACCES || error->int1 == EPERM          ? VG_TROUBLE_LIBVIRT_DENIED
               : error->int1 == ENOENT || error->int1 == ECONNREFUSED ? VG_TROUBLE_LIBVIRT_ABSENT
                                                                      : VG_TROUBLE_NONE;
    default:
        return VG_TROUBLE_NONE;
    }
}

static virConnectPtr
open_connection(struct virt *v, GError **err)
{
    virConnectPtr connection = virConnectOpenReadOnly(v->uri);

    if (!connection) {
        g_autofree char *hint = advice(v->uri);
        vg_error(err, VG_E_EXTERNAL, "cannot connect to '%s': %s%s", v->uri,
                 virGetLastErrorMessage(), hint);
        vg_error_set_detail(err, libvirt_trouble(virGetLastError()));
        virResetLastError();
        return NULL;
    }
    /* Some drivers neither support nor need keepalive. */
    virConnectSetKeepAlive(connection, KEEPALIVE_S, KEEPALIVE_COUNT);
    virResetLastError();
    vg_virt_ear_attach(v->ear, connection);
    vg_virt_reader_forget_host(v->reader);
    return connection;
}

static void
close_connection(struct virt *v, virConnectPtr connection)
{
    vg_virt_ear_detach(v->ear, connection);
    virConnectClose(connection);
    virResetLastError();
}

/* ---- reading ---- */

static void
report_inventory(struct virt *v, const struct vg_report_sink *sink, vg_inventory *take_inventory)
{
    g_autoptr(vg_inventory) inventory = take_inventory;
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);

    vg_record_hash(&vg_inventory_record, inventory, false, checksum);
    const char *hash = g_checksum_get_string(checksum);
    if (v->last_hash && strcmp(hash, v->last_hash) == 0)
        return;
    g_free(v->last_hash);
    v->last_hash = g_strdup(hash);
    vg_report *report = vg_report_new(VG_REPORT_INVENTORY, v->base.ops->name);
    report->inventory = g_steal_pointer(&inventory);
    sink->put(sink->data, report);
}

/* Reads everything, is_new for the first time on this connection. Returns false if a new connection
 * is needed. *err has the reason, or stays NULL if virtnodedevd was restarted. */
static bool
read_everything(struct virt *v, virConnectPtr connection, bool is_new,
                const struct vg_report_sink *sink, GError **err)
{
    g_autofree char *missing = NULL;
    g_autoptr(vg_inventory) inventory = vg_virt_read(v->reader, connection, &missing, err);

    if (!inventory)
        return false;
    const bool was_cut = v->is_cut;
    v->is_cut = vg_virt_reader_is_cut(v->reader);
    if (!is_new && v->is_cut != was_cut)
        return false;
    unsigned vms = inventory->vms->len, gpus = inventory->gpus->len;
    g_autofree char *text = g_strdup_printf("connected to %s, %u domain%s, %u GPU%s%s%s", v->uri,
                                            vms, vms == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s",
                                            missing ? "; " : "", missing ? missing : "");
    libvirt_report_state(v, sink, missing ? VG_COLLECTOR_DEGRADED : VG_COLLECTOR_OK,
                         VG_TROUBLE_NONE, text);
    report_inventory(v, sink, g_steal_pointer(&inventory));
    return true;
}

/* Handles an event. Returns false if the connection is lost. */
static bool
libvirt_handle(struct virt *v, vg_virt_news *take_news, const struct vg_report_sink *sink)
{
    g_autoptr(vg_virt_news) news = take_news;

    switch (news->kind) {
    case VG_VIRT_NEWS_CLOSED:
        return false;
    case VG_VIRT_NEWS_DEVICES:
        vg_virt_reader_forget_devices(v->reader);
        break;
    case VG_VIRT_NEWS_DOMAIN: {
        vg_report *report = vg_report_new(VG_REPORT_LIFECYCLE, v->base.ops->name);
        report->text = g_steal_pointer(&news->text);
        report->vm = g_steal_pointer(&news->vm);
        report->uuid = g_steal_pointer(&news->uuid);
        sink->put(sink->data, report);
        break;
    }
    }
    return true;
}

/* Waits for the next read, which events hasten. Returns false if the connection is lost. */
static bool
wait_for_news(struct virt *v, vg_thread *self, const struct vg_report_sink *sink)
{
    int64_t due_ns = vg_clock_monotonic_ns() + v->poll_ns;
    bool heard = false;

    while (!vg_thread_stopping(self)) {
        vg_thread_beat(self);
        int64_t left_ns = due_ns - vg_clock_monotonic_ns();
        if (left_ns <= 0)
            break;
        vg_virt_news *news = vg_virt_ear_get(v->ear, MIN(left_ns, BEAT_NS));
        if (news && !libvirt_handle(v, news, sink))
            return false;
        if (news && !heard) {
            due_ns = MIN(due_ns, vg_clock_monotonic_ns() + DEBOUNCE_NS);
            heard = true;
        }
    }
    return true;
}

/* Follows the connection until it is lost (sets *err), a new one is needed, or the thread is to
 * stop (does not set *err). Resets the retry delay when everything could be read. */
static void
follow(struct virt *v, virConnectPtr connection, vg_thread *self, const struct vg_report_sink *sink,
       int64_t *retry_ns, GError **err)
{
    for (bool is_new = true; !vg_thread_stopping(self); is_new = false) {
        vg_thread_beat(self);
        if (!read_everything(v, connection, is_new, sink, err))
            return;
        *retry_ns = RETRY_MIN_NS;
        if (!wait_for_news(v, self, sink)) {
            vg_error(err, VG_E_EXTERNAL, "the other side closed the connection to '%s'", v->uri);
            return;
        }
    }
}

static void
libvirt_run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct virt *v = (struct virt *)collector;
    int64_t retry_ns = RETRY_MIN_NS;

    g_autofree char *starting = g_strdup_printf("connecting to %s", v->uri);
    libvirt_report_state(v, sink, VG_COLLECTOR_STARTING, VG_TROUBLE_NONE, starting);
    while (!vg_thread_stopping(self)) {
        g_autoptr(GError) err = NULL;
        virConnectPtr connection = NULL;
        vg_thread_beat(self);
        if (vg_virt_event_start(&err) == 0)
            connection = open_connection(v, &err);
        if (connection) {
            follow(v, connection, self, sink, &retry_ns, &err);
            close_connection(v, connection);
            /* After an interruption, everything is reported again. */
            g_clear_pointer(&v->last_hash, g_free);
        }
        if (!err)
            continue;
        libvirt_report_state(v, sink, VG_COLLECTOR_FAILED, (enum vg_trouble)vg_error_detail(err),
                             err->message);
        if (!vg_thread_sleep_until(self, vg_clock_monotonic_ns() + retry_ns))
            break;
        retry_ns = MIN(retry_ns * 2, RETRY_MAX_NS);
    }
}

static void
libvirt_wake(vg_collector *collector)
{
    vg_virt_ear_close(((struct virt *)collector)->ear);
}

static void
free_virt(vg_collector *collector)
{
    struct virt *v = (struct virt *)collector;

    vg_virt_ear_free(v->ear);
    vg_virt_reader_free(v->reader);
    g_free(v->last_hash);
    g_free(v->reported.text);
    g_free(v->uri);
    g_free(v);
}

static const struct vg_collector_ops libvirt_ops = {
    .name = "libvirt",
    .run = libvirt_run,
    .wake = libvirt_wake,
    .free = free_virt,
};

vg_collector *
vg_libvirt_new(const char *uri, const char *host_name, const char *sys, const char *proc,
               int64_t poll_ns)
{
    struct virt *v = g_new0(struct virt, 1);

    v->base.ops = &libvirt_ops;
    v->uri = g_strdup(uri);
    v->poll_ns = poll_ns;
    v->reader = vg_virt_reader_new(uri, host_name, sys, proc);
    v->ear = vg_virt_ear_new();
    return &v->base;
}
