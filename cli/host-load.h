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

/* A row per NUMA node, the sums of its CPUs in cores; none if there is only one. */
json_object *vg_host_node_rows(json_object *cpus);

/* A row per process of the host behind host:user in this lost_to, and one of the others; none where
 * they are not known. What is long is cut at its front so that no row passes the columns. */
json_object *vg_host_process_rows(json_object *lost_to, int columns, bool utf8);

/* A row for each of the first programs by CPU time, with cores over this length. programs: an array
 * of them, of /v1/host or of the past. */
json_object *vg_host_program_rows(json_object *programs, int64_t length_ns, int columns, bool utf8);

/* "make 1.20, python3 0.31": the first programs, in cores over this length; NULL: there are none.
 * The caller frees it. */
char *vg_host_program_names(json_object *programs, int64_t length_ns, size_t top);

#endif
