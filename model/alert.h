/* SPDX-License-Identifier: Apache-2.0
 *
 * A raised alert.
 */
#ifndef VG_MODEL_ALERT_H
#define VG_MODEL_ALERT_H

#include <stdint.h>

/* Maximum number of [alert NAME] groups in the configuration. */
#define VG_ALERTS_MAX 100

struct vg_active_alert {
    char *alert;        /* name of its rule */
    char *vm;           /* name of the VM; NULL for the host */
    char *display_name; /* the VM's name in OpenStack; NULL if it has none */
    char *uuid;         /* NULL if the VM has none */
    double lost_cores;  /* mean of the last for_ns */
    double limit;
    int64_t for_ns;
    int64_t since_ns; /* epoch */
};

void vg_active_alert_free(void *alert); /* NULL is fine */

#endif
