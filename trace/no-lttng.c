/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces trace/lttng-session.c in a build without liblttng-ctl: refuses to create a session.
 */
#include "config.h"

#include "base/error.h"
#include "trace/lttng-session.h"

#define BUILT_WITHOUT "this build of vgpud has no liblttng-ctl (configure --without-lttng)"

vg_lttng_session *
vg_lttng_session_new(const struct vg_lttng_options *options, GError **err)
{
    (void)options;
    vg_error(err, VG_E_EXTERNAL, "cannot create a session of LTTng: " BUILT_WITHOUT);
    return NULL;
}

/* ---- there is no session ---- */

void
vg_lttng_session_free(vg_lttng_session *session)
{
    (void)session;
}

const char *
vg_lttng_session_name(const vg_lttng_session *session)
{
    (void)session;
    return NULL;
}

const GPtrArray *
vg_lttng_session_missing(const vg_lttng_session *session)
{
    (void)session;
    return NULL;
}

int
vg_lttng_session_start(vg_lttng_session *session, GError **err)
{
    (void)session;
    return vg_error(err, VG_E_BUG, BUILT_WITHOUT);
}

int
vg_lttng_session_stop(vg_lttng_session *session, int64_t timeout_ns, GError **err)
{
    (void)session, (void)timeout_ns;
    return vg_error(err, VG_E_BUG, BUILT_WITHOUT);
}

int
vg_lttng_session_lost(const vg_lttng_session *session, uint64_t *ret_events, GError **err)
{
    (void)session, (void)ret_events;
    return vg_error(err, VG_E_BUG, BUILT_WITHOUT);
}
