/* SPDX-License-Identifier: Apache-2.0
 *
 * An alert that is raised.
 */
#ifndef VG_MODEL_ALERT_H
#define VG_MODEL_ALERT_H

#include <stdint.h>

/* The most groups [alert NAME] of a configuration. */
#define VG_ALERTS_MAX 100

struct vg_active_alert {
    char *alert;        /* the name of its rule */
    char *vm;           /* the name; NULL for the host */
    char *display_name; /* the name in OpenStack; NULL if it has none */
    char *uuid;         /* NULL if the VM has none */
    double lost_cores;  /* the mean of the last for_ns */
    double limit;
    int64_t for_ns;
    int64_t since_ns; /* epoch */
};

void vg_active_alert_free(void *alert); /* NULL is fine */

#endif
