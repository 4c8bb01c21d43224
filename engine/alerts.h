/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitors how much CPU time the host or VMs lose, and reports when the losses have been too large
 * for some time. Pure; one thread at a time.
 */
#ifndef VG_ENGINE_ALERTS_H
#define VG_ENGINE_ALERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/alert.h"
#include "model/window.h"

/* A raised alert ends when the mean has been this much below its limit for the rule's clear_for_ns,
 * so that alerts do not flap. */
#define VG_ALERT_HYSTERESIS 0.1

struct vg_alert_rule {
    const char *name;
    double lost_cores; /* the limit, > 0 */
    int64_t for_ns;    /* the period of the mean, > 0 */
    /* a pattern with * and ? for names (including those in OpenStack) or UUIDs; NULL or empty for
     * all VMs together */
    const char *vm;
    int64_t clear_for_ns; /* 0 to end with the first window below the limit */
};

struct vg_alert_change {
    const struct vg_alert_rule *rule;
    bool raised;              /* false if it has ended */
    const char *vm;           /* the name; NULL for the host */
    const char *display_name; /* the name in OpenStack; NULL if it has none */
    const char *uuid;         /* NULL or empty if the VM has none */
    double lost_cores;        /* the mean of the last for_ns */
    int64_t since_ns;         /* epoch, when it was raised */
    const char *reason;       /* why it was ended, or NULL if it ended normally */
};

/* Receives a change, whose contents are borrowed until this returns. */
typedef void vg_alert_receiver(void *data, const struct vg_alert_change *change);

typedef struct vg_alerts vg_alerts;

/* Creates the alerts; rules are copied. */
vg_alerts *vg_alerts_new(const struct vg_alert_rule *rules, size_t n_rules);
void vg_alerts_free(vg_alerts *alerts); /* NULL is accepted */

bool vg_alerts_same(const vg_alerts *alerts, const struct vg_alert_rule *rules, size_t n_rules);

/* Returns the name that OpenStack gives a VM, or NULL; borrowed for the call. */
typedef const char *vg_alert_names(void *names, const struct vg_vm_sample *vm);

/* Processes a closed window. Windows arrive in the order of time. offset_ns: their clock + offset =
 * epoch. */
void vg_alerts_step(vg_alerts *alerts, const struct vg_window *window, int64_t offset_ns,
                    vg_alert_names *name, void *names, vg_alert_receiver *told, void *data);

/* Restores an alert that was raised in an earlier run, if its rule still exists. It is not raised
 * again. It does not end before windows for the rule's whole period have arrived, because losses
 * and VMs are unknown until then. Returns false if there is no such rule. */
bool vg_alerts_restore(vg_alerts *alerts, const struct vg_active_alert *alert);

/* Records that alerts of earlier runs are unknown, and why. The doubt ends after windows for the
 * longest period of a rule, because these show all alerts. */
void vg_alerts_doubt(vg_alerts *alerts, const char *reason);

/* Returns why alerts may be missing, or NULL; valid until the next window. */
const char *vg_alerts_read_doubt(const vg_alerts *alerts);

/* Appends the raised alerts (struct vg_active_alert), by rule and name; the list frees them. */
void vg_alerts_list(const vg_alerts *alerts, GPtrArray *list);

/* Returns the number of rules. */
size_t vg_alerts_count_rules(const vg_alerts *alerts);

/* Ends all raised alerts. */
void vg_alerts_end(vg_alerts *alerts, const char *reason, vg_alert_receiver *told, void *data);

#endif
