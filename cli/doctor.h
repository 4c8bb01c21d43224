/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `vgpuctl doctor`. Each check is a row with its name, its state, the reason, and
 * the command that fixes it. One thread.
 */
#ifndef VG_CLI_DOCTOR_H
#define VG_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

enum vg_health {
    VG_HEALTH_OK,
    VG_HEALTH_LACKS, /* optional: fewer data or functions are available than possible */
    VG_HEALTH_BROKEN,
    VG_HEALTH_MAX
};

extern const char *const vg_health_names[]; /* "ok", "lacks", "broken" */

/* Appends a row {what, state, why, mend} to the array checks. mend is a command that can be typed
 * as is, or NULL. */
void vg_doctor_add(json_object *checks, const char *what, enum vg_health health, const char *mend,
                   const char *why, ...) G_GNUC_PRINTF(5, 6);

/* Returns the command for the distribution of this machine: `ubuntu` for Ubuntu and what is made
 * from it, `debian` for all others. root: prefix of all paths, "" except in tests. */
const char *vg_doctor_by_distribution(const char *root, const char *debian, const char *ubuntu);

/* Returns the number of rows with this state. */
unsigned vg_doctor_count(json_object *checks, enum vg_health health);

/* These functions check /v1/host together with /metrics, and /v1/peers. */
void vg_doctor_read_host(json_object *checks, json_object *host, const char *metrics);
void vg_doctor_read_peers(json_object *checks, json_object *peers);

/* Checks, in /v1/host and /v1/peers, whether migrations to each peer use TLS. */
void vg_doctor_read_tls(json_object *checks, json_object *host, json_object *peers);

/* Checks /v1/proxies. */
void vg_doctor_read_proxies(json_object *checks, json_object *document);

/* Reports, from /v1/vms/VM/movable, whether NVIDIA's driver in the guest has a known fault. */
void vg_doctor_read_guest(json_object *checks, json_object *movable);

/* The same for this machine's loaded driver. root: prefix of all paths, "" except in tests. */
void vg_doctor_read_driver(json_object *checks, const char *root);

/* Checks the current alerts, vgpud's certificate and its last reload. */
void vg_doctor_read_alerts(json_object *checks, json_object *host, const char *metrics);

/* Returns the value of a metric without labels, or -1 if it does not exist. */
double vg_doctor_metric(const char *metrics, const char *name);

/* Returns the pid of the process that listens on a unix socket, or 0 if not known. */
int32_t vg_doctor_find_pid(const char *socket_path);

/* Checks whether the vgpud with this pid and reported version runs the installed program. root:
 * prefix of all paths, "" except in tests. */
void vg_doctor_read_program(json_object *checks, int32_t pid, const char *version,
                            const char *root);

/* Checks the configuration files of the vgpud with this pid as its next start does, if this user
 * may read them. Adds nothing otherwise. */
void vg_doctor_read_config(json_object *checks, int32_t pid);

/* Checks that this machine's clock is synchronised. */
void vg_doctor_read_clock(json_object *checks);

/* Checks for each of this machine's GPUs whether it can be assigned to VMs, and what is missing
 * for that; at most 64 GPUs. root: prefix of all paths, "" except in tests. */
void vg_doctor_read_cards(json_object *checks, const char *root);

/* Checks what this machine is missing for Vulkan in VMs. root: prefix of all paths, "" except in
 * tests. */
void vg_doctor_read_vulkan(json_object *checks, const char *root);

/* Checks whether this machine's libvirt answers: libvirtd, or each modular daemon that vgpud needs.
 * If systemd starts a daemon on demand, the check starts it. Waits for at most 5 s. root: prefix of
 * all paths, "" except in tests. */
void vg_doctor_look_for_libvirt(json_object *checks, const char *root);

/* Does the same for a host whose vgpud answers. Another row already shows the state of libvirtd
 * according to vgpud; about the modular daemons, vgpud knows only that a call was not answered.
 * Adds nothing if this vgpud does not use libvirt. */
void vg_doctor_read_daemons(json_object *checks, json_object *host, const char *root);

/* Finds why the local vgpud at this socket does not answer, and whether it could work here. root:
 * prefix of all paths, "" except in tests, which also have no systemd and no programs to run. */
void vg_doctor_look_around(json_object *checks, const char *socket, const char *root);

#endif
