/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of a host as reported by vgpud, as table rows. Pure; the caller releases the rows with
 * json_object_put().
 */
#ifndef VG_CLI_HOST_LOAD_H
#define VG_CLI_HOST_LOAD_H

#include <stdbool.h>

#include <json-c/json.h>

/* Returns one row with the use of CPU time in the newest window, in cores. Empty if there is no
 * window. host: /v1/host. */
json_object *vg_host_use_rows(json_object *host);

/* Returns a row per resource, as fractions of the newest window. Empty if the kernel does not
 * report it. */
json_object *vg_host_pressure_rows(json_object *host);

/* Returns a row per CPU. cpus: /v1/host/cpus. columns: width of the terminal that rows must not
 * exceed; 0 if unlimited. utf8: non-ASCII characters can be displayed. */
json_object *vg_host_cpu_rows(json_object *cpus, int columns, bool utf8);

/* Returns a row per NUMA node with the sums of its CPUs in cores. Empty if there is only one node.
 */
json_object *vg_host_node_rows(json_object *cpus);

/* Returns a row per host process behind host:user in this lost_to, and a row for all others. Empty
 * if they are not known. Long names are truncated at the front so that no row exceeds the
 * columns. */
json_object *vg_host_process_rows(json_object *lost_to, int columns, bool utf8);

/* Returns a row for each of the first programs by CPU time, in cores over this duration. programs:
 * an array from /v1/host or the history. */
json_object *vg_host_program_rows(json_object *programs, int64_t length_ns, int columns, bool utf8);

/* Returns the first programs in cores over this duration, as in "make 1.20, python3 0.31", or NULL
 * if there are no programs. The caller frees it. */
char *vg_host_program_names(json_object *programs, int64_t length_ns, size_t top);

#endif
