/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/measuring.h"

#include <inttypes.h>

#include <glib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "model/happening.h"

#define VG_LOG_TAG "engine"

/* If the clock is set back by more than this, the overlap of windows is also reported. */
#define MEASURING_BACK_NS VG_NS_PER_S

struct vg_measuring {
    vg_event_log *events;
    vg_store *store;
    bool replay;
    int64_t unknown_ns; /* the time since when the CPU time's users are unknown, or 0 */
    int64_t ended_ns;   /* the end of the newest window, or 0 */
    int64_t expired_ns[VG_STORED_MAX]; /* as last reported */
    enum vg_store_state store_state;   /* as last reported */
};

vg_measuring *
vg_measuring_new(vg_event_log *events, vg_store *store, bool replay)
{
    vg_measuring *measuring = g_new0(vg_measuring, 1);

    measuring->events = events;
    measuring->store = store;
    measuring->replay = replay;
    return measuring;
}

void
vg_measuring_free(vg_measuring *measuring)
{
    g_free(measuring);
}

static json_object *
measuring_event(const char *what)
{
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "what", what);
    return data;
}

static void
measuring_take_users(vg_measuring *measuring, const struct vg_provenance *provenance,
                     int64_t begin_ns)
{
    const struct vg_measured *who = &provenance->measures[VG_MEASURE_LOST_TO];
    json_object *data;

    if (who->source && measuring->unknown_ns == 0)
        return;
    if (who->source) {
        data = measuring_event("who-known");
        vg_json_add_int64(data, "since_ns", measuring->unknown_ns);
        vg_json_add_int64(data, "until_ns", begin_ns);
        measuring->unknown_ns = 0;
    } else if (measuring->unknown_ns == 0) {
        data = measuring_event("who-unknown");
        vg_json_add_int64(data, "since_ns", begin_ns);
        vg_json_add_string(data, "reason", who->reason);
        measuring->unknown_ns = begin_ns;
    } else {
        return;
    }
    vg_event_log_add(measuring->events, VG_HAPPENING_MEASURING, data);
}

void
vg_measuring_take(vg_measuring *measuring, const struct vg_gathered *gathered)
{
    const struct vg_provenance *provenance = &gathered->provenance;
    const int64_t begin_ns = gathered->window.begin_ns + gathered->clock_offset_ns;
    const int64_t end_ns = gathered->window.end_ns + gathered->clock_offset_ns;

    if (provenance->missed > 0)
        vg_log_warn("windows could not be measured count=%" PRIu64 " before_ns=%" PRId64,
                    provenance->missed, begin_ns);
    if (provenance->gpu_missed > 0)
        vg_log_warn("GPU use was read too late for some windows count=%" PRIu64
                    " before_ns=%" PRId64,
                    provenance->gpu_missed, begin_ns);
    if (measuring->replay)
        return;
    measuring_take_users(measuring, provenance, begin_ns);
    if (measuring->ended_ns > 0 && end_ns < measuring->ended_ns - MEASURING_BACK_NS) {
        json_object *data = measuring_event("stored-ahead");
        vg_json_add_int64(data, "since_ns", end_ns);
        vg_json_add_int64(data, "until_ns", measuring->ended_ns);
        vg_event_log_add(measuring->events, VG_HAPPENING_MEASURING, data);
    }
    measuring->ended_ns = end_ns;
}

static void
measuring_report_expired(vg_measuring *measuring, const struct vg_store_health *health)
{
    for (int i = 0; i < VG_STORED_MAX; i++) {
        if (health->expired_ns[i] == measuring->expired_ns[i])
            continue;
        measuring->expired_ns[i] = health->expired_ns[i];
        json_object *data = measuring_event("expired");
        vg_json_add_string(data, "stored", vg_stored_names[i]);
        vg_json_add_int64(data, "until_ns", health->expired_ns[i]);
        vg_event_log_add(measuring->events, VG_HAPPENING_MEASURING, data);
    }
}

void
vg_measuring_watch(vg_measuring *measuring)
{
    struct vg_store_health health;

    vg_store_read_health(measuring->store, &health);
    measuring_report_expired(measuring, &health);
    if (health.state == measuring->store_state)
        return;
    measuring->store_state = health.state;
    json_object *data = json_object_new_object();
    vg_json_add_string(data, "state", vg_store_state_names[health.state]);
    vg_json_add_string(data, "reason", health.state == VG_STORE_FAILING ? health.reason : NULL);
    vg_event_log_add(measuring->events, "store", data);
}
