/* SPDX-License-Identifier: Apache-2.0
 *
 * Warns of versions of NVIDIA's driver, in guests and on this host, that lose programs when they
 * are released and restored.
 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "cli/doctor.h"
#include "cli/output.h"

#define ISSUES "https://github.com/NVIDIA/cuda-checkpoint/issues/"

/* vgpud never releases host programs, but the operator may, and one version affects all VMs. The
 * agent's list contains these versions and more (guest/cuda-drivers.c). */
static const struct {
    const char *version, *what, *source;
} drivers_of_hosts[] = {
    {"595.71.05",
     "when a process that cuda-checkpoint has restored exits, the whole machine hangs, with all "
     "its VMs",
     ISSUES "53"},
    {"610.57.04", "a service with many threads is killed by SIGSEGV when cuda-checkpoint stops it",
     ISSUES "58"},
};

/* Returns the rest of a fault, which starts with the agent's action ("warn: ..."), or NULL if the
 * action differs. */
static const char *
drivers_after(const char *fault, const char *action)
{
    return fault && g_str_has_prefix(fault, action) ? fault + strlen(action) : NULL;
}

void
vg_doctor_read_guest(json_object *checks, json_object *movable)
{
    const char *vm = json_object_get_string(vg_output_member(movable, "vm"));
    const char *driver = json_object_get_string(vg_output_member(movable, "guest.driver"));
    json_object *faults = vg_output_member(movable, "guest.driver_faults");
    g_autofree char *what = g_strdup_printf("guest %s", vm ? vm : "?");
    bool is_known = false;

    if (!driver)
        return;
    for (size_t i = 0; i < vg_output_length(faults); i++) {
        const char *fault = json_object_get_string(json_object_array_get_idx(faults, i));
        const char *refused = drivers_after(fault, "refuse: ");
        const char *text = refused ? refused : drivers_after(fault, "warn: ");
        if (!text)
            continue;
        is_known = true;
        vg_doctor_add(checks, what, VG_HEALTH_LACKS, NULL,
                      "its NVIDIA driver %s has a known fault: %s%s", driver, text,
                      refused ? "; its agent refuses to release CUDA programs, so the VM cannot "
                                "move while they run"
                              : "");
    }
    if (!is_known)
        vg_doctor_add(checks, what, VG_HEALTH_OK, NULL,
                      "its NVIDIA driver %s has no known fault that prevents moves of CUDA "
                      "programs",
                      driver);
}

void
vg_doctor_read_driver(json_object *checks, const char *root)
{
    g_autofree char *path = g_strconcat(root, "/sys/module/nvidia/version", NULL);
    g_autofree char *version = NULL;

    if (!g_file_get_contents(path, &version, NULL, NULL))
        return;
    g_strstrip(version);
    for (size_t i = 0; i < G_N_ELEMENTS(drivers_of_hosts); i++) {
        if (strcmp(drivers_of_hosts[i].version, version) == 0)
            vg_doctor_add(checks, "NVIDIA driver", VG_HEALTH_LACKS, NULL,
                          "version %s, which this host has loaded, has a known fault: %s (%s)",
                          version, drivers_of_hosts[i].what, drivers_of_hosts[i].source);
    }
}
