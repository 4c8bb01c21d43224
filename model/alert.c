/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/alert.h"

#include <glib.h>

void
vg_active_alert_free(void *data)
{
    struct vg_active_alert *alert = data;

    if (!alert)
        return;
    g_free(alert->alert);
    g_free(alert->vm);
    g_free(alert->display_name);
    g_free(alert->uuid);
    g_free(alert);
}
