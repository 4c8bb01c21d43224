/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches how much CPU time the host or VMs lose, and says when that has been too much for some
 * time. Pure; one thread at a time.
 */
#ifndef VG_ENGINE_ALERTS_H
#define VG_ENGINE_ALERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/window.h"

/* An alert that is raised ends when the mean is this much below its limit, so that it does not come
 * and go all the time. */
#define VG_ALERT_HYSTERESIS 0.1

struct vg_alert_rule {
    const char *name;
    double lost_cores; /* > 0: the limit */
    int64_t for_ns;    /* > 0: over which the mean is made */
    const char *vm; /* pattern with * and ? for names or UUIDs; NULL or empty: all VMs together */
};

struct vg_alert_change {
    const struct vg_alert_rule *rule;
    bool raised;        /* else it has ended */
    const char *vm;     /* name; NULL: the host */
    const char *uuid;   /* NULL or empty: the VM has none */
    double lost_cores;  /* the mean of the last for_ns */
    const char *reason; /* why it ended, if not by itself; NULL */
};

/* Everything in change is borrowed and lasts until this returns. */
typedef void vg_alert_told(void *data, const struct vg_alert_change *change);

typedef struct vg_alerts vg_alerts;

/* Rules are copied. */
vg_alerts *vg_alerts_new(const struct vg_alert_rule *rules, size_t n_rules);
void vg_alerts_free(vg_alerts *alerts); /* NULL is fine */

bool vg_alerts_same(const vg_alerts *alerts, const struct vg_alert_rule *rules, size_t n_rules);

/* A closed window, in the order of time. */
void vg_alerts_step(vg_alerts *alerts, const struct vg_window *window, vg_alert_told *told,
                    void *data);

/* Ends all that are raised. */
void vg_alerts_end(vg_alerts *alerts, const char *reason, vg_alert_told *told, void *data);

#endif
