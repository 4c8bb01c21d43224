/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/lttng-session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lttng/lttng.h>

#include "base/clock.h"
#include "base/error.h"
#include "trace/wanted-events.h"

#define CHANNEL "vgpud"
/* The interval of checks whether everything is written. */
#define PENDING_POLL_US 20000

struct vg_lttng_session {
    char *name;
    struct lttng_handle *handle;
    struct vg_wanted_events events;
    bool exists; /* the session exists in the daemon */
};

/* Returns what kernel tracing requires, if LTTng's own message leaves this open. */
static const char *
hint_of(enum lttng_error_code code)
{
    switch ((int)code) {
    case LTTNG_ERR_NO_SESSIOND:
        return "; start it: `systemctl start lttng-sessiond` or `lttng-sessiond --daemonize`, as "
               "root";
    case LTTNG_ERR_KERN_NA:
        return "; it needs LTTng's kernel modules (Debian: lttng-modules-dkms)";
    case LTTNG_ERR_NEED_ROOT_SESSIOND:
    case LTTNG_ERR_EPERM:
        return "; it needs root or the group `tracing`";
    default:
        return "";
    }
}

/* liblttng-ctl returns codes of both signs. */
static int
lttng_failed(GError **err, int code, const char *what)
{
    code = abs(code);
    bool denied = code == LTTNG_ERR_EPERM || code == LTTNG_ERR_NEED_ROOT_SESSIOND;
    return vg_error(err, denied ? VG_E_DENIED : VG_E_EXTERNAL, "LTTng cannot %s: %s%s", what,
                    lttng_strerror(-code), hint_of((enum lttng_error_code)code));
}

/* ---- making it ---- */

static int
create(vg_lttng_session *session, const struct vg_lttng_options *options, GError **err)
{
    struct lttng_domain domain = {
        .type = LTTNG_DOMAIN_KERNEL,
        .buf_type = LTTNG_BUFFER_GLOBAL,
    };
    struct lttng_session_descriptor *descriptor =
        options->dir ? lttng_session_descriptor_local_create(session->name, options->dir)
                     : lttng_session_descriptor_live_network_create(
                           session->name, options->relayd_url, NULL, options->live_interval_us);

    if (!descriptor)
        return vg_error(err, VG_E_INVALID, "LTTng cannot create a session in '%s'",
                        options->dir ? options->dir : options->relayd_url);
    int code = (int)lttng_create_session_ext(descriptor);
    lttng_session_descriptor_destroy(descriptor);
    if (code != LTTNG_OK)
        return lttng_failed(err, code, "create a session");
    session->exists = true;
    session->handle = lttng_create_handle(session->name, &domain);
    return session->handle ? 0 : vg_error(err, VG_E_EXTERNAL, "cannot create an LTTng handle");
}

static int
add_channel(const vg_lttng_session *session, const struct vg_lttng_options *options, GError **err)
{
    static const enum lttng_event_context_type contexts[] = {
        LTTNG_EVENT_CONTEXT_PID,
        LTTNG_EVENT_CONTEXT_TID,
        LTTNG_EVENT_CONTEXT_PROCNAME,
    };
    struct lttng_channel *channel = lttng_channel_create(&session->handle->domain);

    if (!channel)
        return vg_error(err, VG_E_EXTERNAL, "cannot create an LTTng channel");
    g_strlcpy(channel->name, CHANNEL, sizeof(channel->name));
    channel->attr.subbuf_size =
        options->subbuf_bytes ? options->subbuf_bytes : VG_LTTNG_SUBBUF_BYTES;
    channel->attr.num_subbuf = options->subbufs ? options->subbufs : VG_LTTNG_SUBBUFS;
    int code = lttng_enable_channel(session->handle, channel);
    lttng_channel_destroy(channel);
    if (code < 0)
        return lttng_failed(err, code, "create a channel");
    for (size_t i = 0; i < G_N_ELEMENTS(contexts); i++) {
        struct lttng_event_context context = {.ctx = contexts[i]};
        code = lttng_add_context(session->handle, &context, NULL, CHANNEL);
        if (code < 0)
            return lttng_failed(err, code, "record the process of an event");
    }
    return 0;
}

struct tracepoints {
    struct lttng_event *list;
    int n;
};

static bool
has_tracepoint(const void *data, const char *name)
{
    const struct tracepoints *tracepoints = data;

    for (int i = 0; i < tracepoints->n; i++) {
        if (strcmp(tracepoints->list[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Checks for the kernel tracer before any other request to it: if there is none, the daemon reports
 * this only to a request without attachments. */
static int
find_events(vg_lttng_session *session, GError **err)
{
    struct tracepoints tracepoints = {0};

    tracepoints.n = lttng_list_tracepoints(session->handle, &tracepoints.list);
    if (tracepoints.n < 0)
        return lttng_failed(err, tracepoints.n, "record the kernel");
    int status = vg_wanted_events_find(VG_DIALECT_LTTNG, has_tracepoint, &tracepoints,
                                       &session->events, err);
    free(tracepoints.list);
    if (status < 0)
        g_prefix_error(err, "LTTng: ");
    return status;
}

static int
enable_events(const vg_lttng_session *session, GError **err)
{
    for (unsigned int i = 0; i < session->events.names->len; i++) {
        const char *name = session->events.names->pdata[i];
        struct lttng_event event = {
            .type = LTTNG_EVENT_TRACEPOINT,
            .loglevel_type = LTTNG_EVENT_LOGLEVEL_ALL,
            .loglevel = -1,
        };
        g_strlcpy(event.name, name, sizeof(event.name));
        int code = lttng_enable_event(session->handle, &event, CHANNEL);
        if (code < 0) {
            g_autofree char *what = g_strdup_printf("record %s", name);
            return lttng_failed(err, code, what);
        }
    }
    return 0;
}

vg_lttng_session *
vg_lttng_session_new(const struct vg_lttng_options *options, GError **err)
{
    g_autoptr(vg_lttng_session) session = g_new0(vg_lttng_session, 1);

    session->name = g_strdup_printf("%s-%d-%" G_GINT64_FORMAT, options->prefix, (int)getpid(),
                                    vg_clock_realtime_ns() / VG_NS_PER_MS);
    if (lttng_session_daemon_alive() != 1) {
        lttng_failed(err, LTTNG_ERR_NO_SESSIOND, "record");
        return NULL;
    }
    if (create(session, options, err) < 0 || find_events(session, err) < 0 ||
        add_channel(session, options, err) < 0 || enable_events(session, err) < 0)
        return NULL;
    return g_steal_pointer(&session);
}

/* Destroys the session. In any case, it is forgotten here. */
static int
lttng_session_destroy(vg_lttng_session *session_take, GError **err)
{
    int code = 0;
    int status = 0;

    if (session_take->exists)
        code = lttng_destroy_session_no_wait(session_take->name);
    if (code < 0) {
        g_autofree char *what = g_strdup_printf("destroy its session %s", session_take->name);
        status = lttng_failed(err, code, what);
    }
    if (session_take->handle)
        lttng_destroy_handle(session_take->handle);
    vg_wanted_events_clear(&session_take->events);
    g_free(session_take->name);
    g_free(session_take);
    return status;
}

void
vg_lttng_session_free(vg_lttng_session *session)
{
    if (session)
        lttng_session_destroy(session, NULL);
}

/* ---- using it ---- */

const char *
vg_lttng_session_name(const vg_lttng_session *session)
{
    return session->name;
}

const GPtrArray *
vg_lttng_session_missing(const vg_lttng_session *session)
{
    return session->events.missing;
}

int
vg_lttng_session_start(vg_lttng_session *session, GError **err)
{
    int code = lttng_start_tracing(session->name);

    return code < 0 ? lttng_failed(err, code, "start recording") : 0;
}

int
vg_lttng_session_stop(vg_lttng_session *session, int64_t timeout_ns, GError **err)
{
    const int64_t deadline_ns = vg_clock_monotonic_ns() + timeout_ns;
    int code = lttng_stop_tracing_no_wait(session->name);

    if (code < 0)
        return lttng_failed(err, code, "stop recording");
    while ((code = lttng_data_pending(session->name)) == 1) {
        if (vg_clock_monotonic_ns() >= deadline_ns)
            return vg_error(err, VG_E_TIMEOUT, "LTTng has not written all data after %.1f s",
                            (double)timeout_ns / 1e9);
        g_usleep(PENDING_POLL_US);
    }
    return code < 0 ? lttng_failed(err, code, "report whether all data is written") : 0;
}

int
vg_lttng_session_lost(const vg_lttng_session *session, uint64_t *ret_events, GError **err)
{
    struct lttng_channel *channels = NULL;
    uint64_t sum = 0;
    int n = lttng_list_channels(session->handle, &channels);
    int code = n < 0 ? n : 0;

    for (int i = 0; i < n && code >= 0; i++) {
        uint64_t events = 0;
        code = lttng_channel_get_discarded_event_count(&channels[i], &events);
        sum += events;
    }
    free(channels);
    if (code < 0)
        return lttng_failed(err, code, "report how many events it lost");
    *ret_events = sum;
    return 0;
}
