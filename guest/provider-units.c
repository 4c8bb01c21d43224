/* SPDX-License-Identifier: Apache-2.0
 *
 * systemd units that use a GPU without CUDA (monitors, daemons that keep it awake) cannot be
 * released, but can be stopped for a while. The configured units are stopped, if they are active,
 * before programs are released, and started when programs are back. The agent runs systemctl, so
 * that it needs no systemd libraries in a guest without systemd.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/provider.h"
#include "guest/units.h"
#include "guest/util.h"
#include "guest/work.h"

/* The time for one unit to stop or start, and for systemctl to show its state. */
enum { JOB_MS = 30000, SHOW_MS = 10000 };

/* The maximum number of systemctl arguments. */
#define UNIT_ARGS_MAX 12

#define KEPT_PATH "/run/vgpu-guestd-units.json"

extern char **environ;

/* The state of a unit, as systemctl shows it. */
struct unit_shown {
    bool active;
    /* The units that systemd would stop with it, separated by blanks. */
    char dependents[VG_GUEST_OUTPUT_MAX + 1];
};

/* ---- systemctl ---- */

static void
unit_explain(const struct vg_guest_child_end *end, int error, char *ret, size_t size)
{
    vg_guest_auto char *output = vg_guest_clean(end->output, VG_GUEST_OUTPUT_MAX);

    output[strcspn(output, "\n")] = '\0';
    if (error != 0)
        vg_guest_put(ret, size, "systemctl cannot be run: %s", strerror(error));
    else if (end->ended_early || end->stuck)
        vg_guest_put(ret, size, "systemctl had not finished after %lld ms", (long long)end->ms);
    else if (end->signal)
        vg_guest_put(ret, size, "systemctl was ended by signal %d", end->signal);
    else
        vg_guest_put(ret, size, "systemctl has exit status %d: %s", end->exit, output);
}

/* Runs systemctl with these arguments. Returns 0, or -1 and the reason. Sets ret_end in both
 * cases. */
static int
unit_systemctl(const char *const *args, int64_t until_ms, struct vg_guest_child_end *ret_end,
               char *ret_why, size_t size)
{
    const char *argv[UNIT_ARGS_MAX + 2] = {"systemctl"};

    for (size_t i = 0; args[i] && i < UNIT_ARGS_MAX; i++)
        argv[i + 1] = args[i];
    int error = vg_guest_child_run(argv, environ, until_ms, ret_end);
    if (error == 0 && ret_end->exit == 0 && !ret_end->signal && !ret_end->ended_early &&
        !ret_end->stuck)
        return 0;
    unit_explain(ret_end, error, ret_why, size);
    return -1;
}

static int64_t
unit_until(const struct vg_guest_work *work, int64_t ms)
{
    int64_t until_ms = vg_guest_now_ms() + ms;

    return until_ms < work->until_ms ? until_ms : work->until_ms;
}

/* Parses one line NAME=VALUE of systemctl's output. */
static void
unit_take(struct unit_shown *shown, const char *line)
{
    static const char *const running[] = {"active", "activating", "reloading", "refreshing"};
    const char *value = strchr(line, '=');

    if (!value)
        return;
    value++;
    if (strncmp(line, "ActiveState=", strlen("ActiveState=")) == 0) {
        for (size_t i = 0; i < sizeof running / sizeof *running; i++)
            shown->active = shown->active || strcmp(value, running[i]) == 0;
    } else if (*value) {
        size_t have = strlen(shown->dependents);
        vg_guest_put(shown->dependents + have, sizeof shown->dependents - have, "%s%s",
                     have ? " " : "", value);
    }
}

/* Queries the state of a unit. Returns 0, or -1 and the reason. */
static int
unit_show(const struct vg_guest_work *work, const char *name, struct unit_shown *ret, char *ret_why,
          size_t size)
{
    const char *const args[] = {"show",
                                "--property=ActiveState",
                                "--property=RequiredBy",
                                "--property=RequisiteOf",
                                "--property=BoundBy",
                                "--property=ConsistsOf",
                                "--property=PropagatesStopTo",
                                "--",
                                name,
                                NULL};
    struct vg_guest_child_end end;

    *ret = (struct unit_shown){0};
    if (unit_systemctl(args, unit_until(work, SHOW_MS), &end, ret_why, size) != 0)
        return -1;
    char *rest = end.output;
    for (char *line; (line = strsep(&rest, "\n"));)
        unit_take(ret, line);
    return 0;
}

/* Finds an active unit that would be stopped together with this one. Returns 0 and the name, which
 * is empty if there is none, or -1 and the reason. */
static int
unit_find_dependent(const struct vg_guest_work *work, struct unit_shown *shown, char *ret_name,
                    char *ret_why, size_t size)
{
    struct unit_shown other;
    char *rest = shown->dependents;

    ret_name[0] = '\0';
    for (char *name; (name = strsep(&rest, " "));) {
        if (!*name)
            continue;
        if (unit_show(work, name, &other, ret_why, size) != 0)
            return -1;
        if (other.active) {
            vg_guest_put(ret_name, size, "%s", name);
            return 0;
        }
    }
    return 0;
}

static bool
unit_has_systemd(const struct vg_guest_work *work)
{
    vg_guest_auto char *path = vg_guest_format("%s/run/systemd/system", work->config->root);

    return access(path, F_OK) == 0;
}

/* ---- the list of stopped units ---- */

/* Writes the names of the units to be started, in case the agent is restarted in the meantime.
 * Without units, there is no file. */
static void
units_write(const struct vg_guest_work *work, json_object *names)
{
    vg_guest_auto char *path = vg_guest_format("%s" KEPT_PATH, work->config->root);
    vg_guest_auto char *next = vg_guest_format("%s.new", path);

    if (json_object_array_length(names) == 0)
        unlink(path);
    else if (json_object_to_file_ext(next, names, JSON_C_TO_STRING_PLAIN) != 0 ||
             rename(next, path) != 0)
        vg_guest_log(LOG_WARNING, "cannot write file path='%s' error='%s'", path, strerror(errno));
}

/* Reads the names. Returns NULL if there is no file. The caller puts the list. */
static json_object *
units_read(const struct vg_guest_work *work)
{
    vg_guest_auto char *path = vg_guest_format("%s" KEPT_PATH, work->config->root);
    json_object *names = json_object_from_file(path);

    if (names && !json_object_is_type(names, json_type_array)) {
        json_object_put(names);
        return NULL;
    }
    return names;
}

static void
units_add(json_object *names, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(names); i++) {
        if (strcmp(json_object_get_string(json_object_array_get_idx(names, i)), name) == 0)
            return;
    }
    json_object_array_add(names, json_object_new_string(name));
}

/* ---- stopping and starting ---- */

/* Adds the outcome of a job to the answer. */
static void
units_report(struct vg_guest_work *work, const char *verb, const char *name,
             const struct vg_guest_child_end *end, bool ok)
{
    json_object *about = json_object_new_object(), *list;

    if (!json_object_object_get_ex(work->details, "units", &list)) {
        list = json_object_new_array();
        json_object_object_add(work->details, "units", list);
    }
    json_object_object_add(about, "verb", json_object_new_string(verb));
    json_object_object_add(about, "name", json_object_new_string(name));
    json_object_object_add(about, "ms", json_object_new_int64(end->ms));
    json_object_object_add(about, "done", json_object_new_boolean(ok));
    json_object_array_add(list, about);
}

/* Fails the work if the deadline has passed or the host has cancelled. Returns 0 or -1. */
static int
units_check(struct vg_guest_work *work, const char *verb, const char *name)
{
    vg_guest_auto char *what = vg_guest_format("%s of %s", verb, name);

    return vg_guest_work_check(work, what);
}

/* Makes systemd stop or start a unit, and waits for it. Returns 0, or -1 and the failure. */
static int
units_job(struct vg_guest_work *work, const char *verb, const char *name, int64_t ms)
{
    const char *const args[] = {verb, "--", name, NULL};
    struct vg_guest_child_end end = {0};
    json_object *more = json_object_new_object();
    char why[VG_GUEST_MESSAGE_MAX];

    json_object_object_add(more, "verb", json_object_new_string(verb));
    json_object_object_add(more, "unit", json_object_new_string(name));
    vg_guest_work_progress(work, "unit", more);
    int result =
        unit_systemctl(args, unit_until(work, ms < JOB_MS ? ms : JOB_MS), &end, why, sizeof why);
    units_report(work, verb, name, &end, result == 0);
    vg_guest_log(result == 0 ? LOG_INFO : LOG_ERR, "unit verb=%s name=%s ms=%lld%s%s", verb, name,
                 (long long)end.ms, result == 0 ? "" : " why=", result == 0 ? "" : why);
    if (result != 0 && end.ended_early)
        units_check(work, verb, name);
    if (result != 0)
        vg_guest_work_fail(work, VG_GUEST_UNIT_FAILED, "cannot %s %s: %s", verb, name, why);
    return result;
}

/* Stops a unit if it is active. Before that, adds it to the units to be started. */
static int
units_stop(struct vg_guest_work *work, const char *name, json_object *kept)
{
    struct unit_shown shown;
    char why[VG_GUEST_MESSAGE_MAX], dependent[VG_GUEST_MESSAGE_MAX];

    if (units_check(work, "stop", name) != 0)
        return -1;
    if (unit_show(work, name, &shown, why, sizeof why) != 0)
        return vg_guest_work_fail(work, VG_GUEST_UNIT_FAILED,
                                  "cannot determine whether %s is "
                                  "active: %s",
                                  name, why);
    if (!shown.active)
        return 0;
    if (unit_find_dependent(work, &shown, dependent, why, sizeof why) != 0)
        return vg_guest_work_fail(work, VG_GUEST_UNIT_FAILED,
                                  "cannot determine which units need "
                                  "%s: %s",
                                  name, why);
    if (*dependent)
        return vg_guest_work_fail(work, VG_GUEST_UNIT_FAILED,
                                  "cannot stop %s: this would also stop %s, which needs it; list "
                                  "that unit first in [units] stop",
                                  name, dependent);
    units_add(kept, name);
    units_write(work, kept);
    return units_job(work, "stop", name, JOB_MS);
}

static int
units_prepare(struct vg_guest_work *work, json_object **ret_kept)
{
    int result = 0;

    /* Units that an earlier attempt stopped, and did not start again, are still to be started. */
    *ret_kept = units_read(work);
    if (!*ret_kept)
        *ret_kept = json_object_new_array();
    if (!unit_has_systemd(work))
        return 0;
    for (size_t i = 0; i < work->config->n_units && result == 0; i++)
        result = units_stop(work, work->config->units[i], *ret_kept);
    return result;
}

/* Starts the units in reverse order. Each one is tried, whatever the result of the others. Those
 * that failed remain in the file. */
static int
units_resume(struct vg_guest_work *work, json_object *kept, bool undo)
{
    json_object *names = undo ? NULL : units_read(work), *left = json_object_new_array();
    int result = 0;

    if (!names)
        names = json_object_get(kept);
    for (size_t i = names ? json_object_array_length(names) : 0; i-- > 0;) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        /* An unresponsive unit must leave time for the others. */
        int64_t ms = (work->until_ms - vg_guest_now_ms()) / (int64_t)(i + 1);
        if (units_check(work, "start", name) != 0 || units_job(work, "start", name, ms) != 0) {
            json_object_array_add(left, json_object_new_string(name));
            result = -1;
        }
    }
    units_write(work, left);
    json_object_put(left);
    json_object_put(names);
    return result;
}

/* ---- looking ---- */

static void
units_status(const struct vg_guest_work *look, json_object *about)
{
    struct vg_guest_work work = *look;
    json_object *list = json_object_new_array();
    struct unit_shown shown;
    char why[VG_GUEST_MESSAGE_MAX] = "";

    work.until_ms = vg_guest_now_ms() + SHOW_MS;
    json_object_object_add(about, "stop", list);
    if (!unit_has_systemd(&work))
        return;
    for (size_t i = 0; i < work.config->n_units && !*why; i++) {
        const char *name = work.config->units[i];
        if (unit_show(&work, name, &shown, why, sizeof why) == 0 && shown.active)
            json_object_array_add(list, json_object_new_string(name));
    }
    if (*why)
        json_object_object_add(about, "why", json_object_new_string(why));
}

const char *
vg_guest_units_of(const struct vg_guest_config *config, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/cgroup", config->root, (int)pid);
    char text[8192];

    vg_guest_read_file(path, text, sizeof text);
    char *rest = text;
    for (char *part; (part = strsep(&rest, "/\n"));) {
        for (size_t i = 0; i < config->n_units; i++) {
            if (strcmp(part, config->units[i]) == 0)
                return config->units[i];
        }
    }
    return NULL;
}

const struct vg_guest_provider vg_guest_provider_units = {
    .name = "units",
    .prepare = units_prepare,
    .resume = units_resume,
    .status = units_status,
};
