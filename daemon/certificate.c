/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/certificate.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"

#define VG_LOG_TAG "api"
#define DAY_NS     (86400 * VG_NS_PER_S)
#define WARN_NS    (30 * DAY_NS)

void
vg_certificate_warn(const vg_api *api, const char *path)
{
    const int64_t end_ns = vg_api_certificate_end_ns(api), now_ns = vg_clock_realtime_ns();
    char text[VG_UTC_LEN];

    if (end_ns - WARN_NS > now_ns)
        return;
    vg_utc_format(end_ns, text);
    if (end_ns <= now_ns)
        vg_log_err("the certificate has expired; clients reject it path=\"%s\" at=\"%s\"", path,
                   text);
    else
        vg_log_warn("the certificate expires soon path=\"%s\" at=\"%s\" days=%" PRId64, path, text,
                    (end_ns - now_ns) / DAY_NS);
}

void
vg_certificate_tick(const vg_api *api, const char *path, int64_t *at_ns)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (*at_ns != 0 && now_ns - *at_ns < DAY_NS)
        return;
    *at_ns = now_ns;
    vg_certificate_warn(api, path);
}
