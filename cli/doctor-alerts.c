/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the doctor's rows on current alerts, on the expiry of vgpud's certificate, and on a refused
 * configuration.
 */
#include "config.h"

#include <math.h>

#include "base/clock.h"
#include "cli/doctor.h"
#include "cli/output.h"

/* The maximum number of alerts named in a row. */
#define NAMED_MAX 3u

/* A certificate that expires sooner should be renewed. */
#define CERTIFICATE_WARN_S (30 * 86400.0)

/* Adds current alerts, which are not a problem of vgpud itself. */
static void
doctor_add_alerts(json_object *checks, json_object *alerts, const char *metrics)
{
    const double rules = vg_doctor_metric(metrics, "vgpud_alert_rules");
    g_autoptr(GString) names = g_string_new(NULL);
    const size_t n = vg_output_length(alerts);

    for (size_t i = 0; i < MIN(n, NAMED_MAX); i++) {
        json_object *alert = json_object_array_get_idx(alerts, i);
        const char *name = json_object_get_string(vg_output_member(alert, "alert"));
        const char *label = json_object_get_string(vg_output_member(alert, "label"));
        g_string_append_printf(names, "%s%s (%s)", i > 0 ? ", " : "", name ? name : "?",
                               label ? label : "all VMs");
    }
    if (n > 0)
        vg_doctor_add(checks, "alerts", VG_HEALTH_LACKS, "vgpuctl alert list", "%zu raised: %s%s",
                      n, names->str, n > NAMED_MAX ? ", ..." : "");
    else if (rules > 0)
        vg_doctor_add(checks, "alerts", VG_HEALTH_OK, NULL, "%.0f configured, none active", rules);
    else if (rules == 0)
        vg_doctor_add(checks, "alerts", VG_HEALTH_OK, NULL,
                      "none configured; to configure one, add a group [alert NAME] to vgpud.conf");
}

static void
doctor_add_certificate(json_object *checks, const char *metrics)
{
    const double expires_s =
        vg_doctor_metric(metrics, "vgpud_tls_certificate_expiry_timestamp_seconds");
    const double left_s = expires_s - (double)vg_clock_realtime_ns() / (double)VG_NS_PER_S;
    char text[VG_UTC_LEN];

    if (expires_s < 0)
        return;
    vg_utc_format((int64_t)expires_s * VG_NS_PER_S, text);
    if (left_s <= 0)
        vg_doctor_add(checks, "certificate", VG_HEALTH_BROKEN, "systemctl reload vgpud",
                      "expired at %s: clients reject it; replace the file that [api] "
                      "tls_certificate in vgpud.conf names, and reload",
                      text);
    else
        vg_doctor_add(checks, "certificate",
                      left_s < CERTIFICATE_WARN_S ? VG_HEALTH_LACKS : VG_HEALTH_OK,
                      left_s < CERTIFICATE_WARN_S ? "systemctl reload vgpud" : NULL,
                      "expires at %s, in %.0f days%s", text, floor(left_s / 86400),
                      left_s < CERTIFICATE_WARN_S
                          ? "; renew the file that [api] tls_certificate in vgpud.conf names, and "
                            "reload"
                          : "");
}

/* Adds whether the last reload of the configuration was refused. */
static void
doctor_add_reload(json_object *checks, const char *metrics)
{
    const double refused_s = vg_doctor_metric(metrics, "vgpud_reload_refused_timestamp_seconds");
    char text[VG_UTC_LEN];

    if (refused_s > 0)
        vg_doctor_add(checks, "reload", VG_HEALTH_BROKEN,
                      "vgpud --check-config && systemctl reload vgpud",
                      "vgpud refused its configuration, or a part of it, at %s, and still uses the "
                      "earlier one; `vgpuctl events --types config --since -30d` shows why",
                      vg_utc_format((int64_t)refused_s * VG_NS_PER_S, text));
}

void
vg_doctor_read_alerts(json_object *checks, json_object *host, const char *metrics)
{
    doctor_add_alerts(checks, vg_output_member(host, "alerts"), metrics);
    doctor_add_certificate(checks, metrics);
    doctor_add_reload(checks, metrics);
}
