/* SPDX-License-Identifier: Apache-2.0
 *
 * What vgpud tells of the load of its host, as rows of tables. Pure; the caller puts the rows.
 */
#ifndef VG_CLI_HOST_LOAD_H
#define VG_CLI_HOST_LOAD_H

#include <stdbool.h>

#include <json-c/json.h>

/* One row of what became of the CPU time of the newest window, in cores; none while there is no
 * window. host: /v1/host. */
json_object *vg_host_use_rows(json_object *host);

/* A row per resource, in shares of the newest window; none where the kernel does not tell. */
json_object *vg_host_pressure_rows(json_object *host);

/* A row per CPU. cpus: /v1/host/cpus; columns: of the terminal, which no row is to pass; 0: there
 * is no end. utf8: what is not ASCII can be shown. */
json_object *vg_host_cpu_rows(json_object *cpus, int columns, bool utf8);

/* A row per process of the host behind host:user in this lost_to, and one of the others; none where
 * they are not known. What is long is cut at its front so that no row passes the columns. */
json_object *vg_host_process_rows(json_object *lost_to, int columns, bool utf8);

#endif
