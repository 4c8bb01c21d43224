/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of active alerts, for `alert list` and `host show`.
 */
#ifndef VG_CLI_ALERT_ROWS_H
#define VG_CLI_ALERT_ROWS_H

#include "cli/output.h"

#define VG_ALERT_COLUMNS 7
extern const struct vg_column vg_alert_columns[VG_ALERT_COLUMNS];

/* Makes a row for each alert of /v1/alerts, or of /v1/host; the caller releases the array with
 * json_object_put(). items: NULL for none. */
json_object *vg_alert_rows(json_object *items);

#endif
