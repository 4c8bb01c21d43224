/* SPDX-License-Identifier: Apache-2.0
 *
 * What `vgpuctl doctor` looks at: one row for each thing that measures, could measure or is needed,
 * how it is, why, and the command that mends it. One thread.
 */
#ifndef VG_CLI_DOCTOR_H
#define VG_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

enum vg_health {
    VG_HEALTH_OK,
    VG_HEALTH_LACKS, /* optional: less is known, or can be done, than could be */
    VG_HEALTH_BROKEN,
    VG_HEALTH_MAX
};

extern const char *const vg_health_names[]; /* "ok", "lacks", "broken" */

/* Appends a row {what, state, why, mend} to checks, an array. mend: a command that can be typed as
 * it is, or NULL. */
void vg_doctor_add(json_object *checks, const char *what, enum vg_health health, const char *mend,
                   const char *why, ...) G_GNUC_PRINTF(5, 6);

/* How many rows are so. */
unsigned vg_doctor_count(json_object *checks, enum vg_health health);

/* From /v1/host with /metrics, and from /v1/peers. */
void vg_doctor_read_host(json_object *checks, json_object *host, const char *metrics);
void vg_doctor_read_peers(json_object *checks, json_object *peers);

/* Reports, from /v1/host and /v1/peers, whether migrations to each peer use TLS. */
void vg_doctor_read_tls(json_object *checks, json_object *host, json_object *peers);

/* From /v1/proxies. */
void vg_doctor_read_proxies(json_object *checks, json_object *document);

/* Reports, from /v1/vms/VM/movable, whether a fault is known of NVIDIA's driver in the guest. */
void vg_doctor_read_guest(json_object *checks, json_object *movable);

/* The same of the driver that this machine has loaded. root: before all paths, "" but in tests. */
void vg_doctor_read_driver(json_object *checks, const char *root);

void vg_doctor_read_alerts(json_object *checks, json_object *host, const char *metrics);

/* Returns the value of a metric without labels; -1: it is not there. */
double vg_doctor_metric(const char *metrics, const char *name);

/* Returns the pid of the process that listens on a unix socket; 0: not known. */
int32_t vg_doctor_find_pid(const char *socket_path);

/* Reports whether the vgpud with this pid, which says that it has this version, runs the installed
 * program. root: before all paths, "" but in tests. */
void vg_doctor_read_program(json_object *checks, int32_t pid, const char *version,
                            const char *root);

/* Is the clock of this machine kept by others? */
void vg_doctor_read_clock(json_object *checks);

/* Tells of each GPU of this machine whether VMs could be given it, or what it lacks for that; at
 * most 64 of them. root: before all paths, "" but in tests. */
void vg_doctor_read_cards(json_object *checks, const char *root);

/* Tells what this machine lacks for Vulkan in VMs. root: before all paths, "" but in tests. */
void vg_doctor_read_vulkan(json_object *checks, const char *root);

/* Why vgpud, which should be here behind this socket, does not answer, and whether it could work
 * here. root: before all paths, "" but in tests, which have no systemd and no programs to be run
 * either. */
void vg_doctor_look_around(json_object *checks, const char *socket, const char *root);

#endif
