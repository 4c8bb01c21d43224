/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the owner's hooks: those in HOOKS/prepare before GPUs leave, those in HOOKS/resume after
 * they have returned. The same name in both directories means the two halves of one action.
 */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/provider.h"
#include "guest/util.h"
#include "guest/work.h"

/* The maximum number of hooks in each of the two directories. */
#define HOOKS_MAX 64

extern char **environ;

/* Returns whether run-parts(8) accepts this name. It has no dot, so that files of editors and
 * package managers are not run. */
static bool
hook_is_name(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && *at != '_' && *at != '-')
            return false;
    }
    return *name != '\0';
}

static bool
hook_can_run(const char *dir, const char *name)
{
    vg_guest_auto char *path = vg_guest_format("%s/%s", dir, name);
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
}

static int
hook_compare(const void *a, const void *b)
{
    json_object *const *x = a, *const *y = b;

    return strcmp(json_object_get_string(*x), json_object_get_string(*y));
}

/* Lists the hooks of a phase by name. The caller puts the list. Returns NULL and *ret_error if the
 * directory cannot be read. A missing directory has no hooks. */
static json_object *
hook_list(const struct vg_guest_config *config, const char *phase, int *ret_error)
{
    vg_guest_auto char *path = vg_guest_format("%s/%s", config->hooks, phase);
    json_object *names;
    DIR *dir = opendir(path);

    if (!dir && errno != ENOENT) {
        *ret_error = errno;
        return NULL;
    }
    names = json_object_new_array();
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (hook_is_name(entry->d_name) && hook_can_run(path, entry->d_name))
            json_object_array_add(names, json_object_new_string(entry->d_name));
    }
    if (dir)
        closedir(dir);
    json_object_array_sort(names, hook_compare);
    return names;
}

/* Copies the agent's environment, and adds the hook's variables. The caller frees it and its last
 * three strings. */
static char **
hook_environment(const struct vg_guest_work *work, const char *phase, size_t *ret_own)
{
    int64_t left_ms = work->until_ms - vg_guest_now_ms();
    size_t n = 0;

    while (environ[n])
        n++;
    char **env = vg_guest_alloc((n + 4) * sizeof *env);
    n = 0;
    for (size_t i = 0; environ[i]; i++) {
        if (strncmp(environ[i], "VGPUD_", strlen("VGPUD_")) != 0)
            env[n++] = environ[i];
    }
    *ret_own = n;
    env[n++] = vg_guest_format("VGPUD_PHASE=%s", phase);
    env[n++] = vg_guest_format("VGPUD_DEVICES=%s", work->addresses);
    env[n] = vg_guest_format("VGPUD_DEADLINE_MS=%lld", (long long)(left_ms > 0 ? left_ms : 0));
    return env;
}

static void
hook_add_end(json_object *object, const struct vg_guest_child_end *end)
{
    json_object_object_add(object, "exit",
                           end->signal || end->stuck ? NULL : json_object_new_int(end->exit));
    if (end->signal)
        json_object_object_add(object, "signal", json_object_new_int(end->signal));
    if (end->ended_early)
        json_object_object_add(object, "ended_early", json_object_new_boolean(true));
}

/* Describes how a hook ended, for the answer. */
static int
hook_ended(struct vg_guest_work *work, const char *phase, const char *name,
           const struct vg_guest_child_end *end)
{
    json_object *about = json_object_new_object();

    json_object_object_add(about, "phase", json_object_new_string(phase));
    json_object_object_add(about, "name", json_object_new_string(name));
    json_object_object_add(about, "ms", json_object_new_int64(end->ms));
    hook_add_end(about, end);
    json_object_array_add(work->hooks, about);
    vg_guest_log(LOG_INFO, "hook ended phase=%s name=%s exit=%d signal=%d ms=%lld", phase, name,
                 end->exit, end->signal, (long long)end->ms);
    if (end->exit == 0 && end->signal == 0 && !end->stuck && !end->ended_early)
        return 0;
    if (work->failure)
        return -1;
    if (end->ended_early) {
        bool cancelled = vg_guest_child_stop() == VG_GUEST_STOP_CANCEL;
        vg_guest_work_fail(work, cancelled ? VG_GUEST_CANCELLED : VG_GUEST_TIMEOUT,
                           "hook %s/%s was still running %s", phase, name,
                           cancelled ? "when the host cancelled the request" : "at the deadline");
    } else if (end->signal) {
        vg_guest_work_fail(work, VG_GUEST_HOOK_FAILED, "hook %s/%s was ended by signal %d", phase,
                           name, end->signal);
    } else {
        vg_guest_work_fail(work, VG_GUEST_HOOK_FAILED, "hook %s/%s failed with exit status %d",
                           phase, name, end->exit);
    }
    vg_guest_auto char *output = vg_guest_clean(end->output, VG_GUEST_OUTPUT_MAX);
    json_object_object_add(work->failure, "hook", json_object_new_string(name));
    json_object_object_add(work->failure, "phase", json_object_new_string(phase));
    hook_add_end(work->failure, end);
    json_object_object_add(work->failure, "output", json_object_new_string(output));
    vg_guest_log(LOG_ERR, "hook failed phase=%s name=%s output='%s'", phase, name, output);
    return -1;
}

static int
hook_run(struct vg_guest_work *work, const char *phase, const char *name)
{
    vg_guest_auto char *path = vg_guest_format("%s/%s/%s", work->config->hooks, phase, name);
    struct vg_guest_child_end end;
    json_object *more = json_object_new_object();
    size_t own;

    json_object_object_add(more, "phase", json_object_new_string(phase));
    json_object_object_add(more, "hook", json_object_new_string(name));
    vg_guest_work_progress(work, "hook", more);
    char **env = hook_environment(work, phase, &own);
    int error = vg_guest_child_run((const char *const[]){path, NULL}, env, work->until_ms, &end);
    for (size_t i = own; env[i]; i++)
        free(env[i]);
    free(env);
    if (error != 0)
        return vg_guest_work_fail(work, VG_GUEST_INTERNAL, "hook %s/%s cannot be started: %s",
                                  phase, name, strerror(error));
    return hook_ended(work, phase, name, &end);
}

static json_object *
hook_list_or_fail(struct vg_guest_work *work, const char *phase)
{
    int error = 0;
    json_object *names = hook_list(work->config, phase, &error);

    if (!names) {
        vg_guest_work_fail(work, VG_GUEST_INTERNAL, "%s/%s cannot be read: %s", work->config->hooks,
                           phase, strerror(error));
    } else if (json_object_array_length(names) > HOOKS_MAX) {
        vg_guest_work_fail(work, VG_GUEST_INTERNAL, "%s/%s has more than %d hooks",
                           work->config->hooks, phase, HOOKS_MAX);
        json_object_put(names);
        return NULL;
    }
    return names;
}

/* Runs the hooks, and stores the names of those that ran, including one that failed. */
static int
hooks_prepare(struct vg_guest_work *work, json_object **ret_kept)
{
    json_object *names = hook_list_or_fail(work, "prepare");
    int result = names ? 0 : -1;

    *ret_kept = json_object_new_array();
    for (size_t i = 0; result == 0 && i < json_object_array_length(names); i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        result = vg_guest_work_check(work, "hook");
        if (result == 0) {
            json_object_array_add(*ret_kept, json_object_new_string(name));
            result = hook_run(work, "prepare", name);
        }
    }
    json_object_put(names);
    return result;
}

static bool
hook_is_among(json_object *names, const char *name)
{
    for (size_t i = 0; names && i < json_object_array_length(names); i++) {
        if (strcmp(json_object_get_string(json_object_array_get_idx(names, i)), name) == 0)
            return true;
    }
    return false;
}

/* Runs the hooks in reverse order. Each one is tried, whatever the result of the others. */
static int
hooks_resume(struct vg_guest_work *work, json_object *kept, bool undo)
{
    json_object *names = hook_list_or_fail(work, "resume");
    int result = names ? 0 : -1;

    for (size_t i = names ? json_object_array_length(names) : 0; i-- > 0;) {
        const char *name = json_object_get_string(json_object_array_get_idx(names, i));
        if (undo && !hook_is_among(kept, name))
            continue;
        if (vg_guest_work_check(work, "hook") != 0 || hook_run(work, "resume", name) != 0)
            result = -1;
    }
    json_object_put(names);
    return result;
}

static void
hooks_status(const struct vg_guest_work *work, json_object *about)
{
    static const char *const phases[] = {"prepare", "resume"};

    json_object_object_add(about, "directory", json_object_new_string(work->config->hooks));
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        int error;
        json_object_object_add(about, phases[i], hook_list(work->config, phases[i], &error));
    }
}

const struct vg_guest_provider vg_guest_provider_hooks = {
    .name = "hooks",
    .prepare = hooks_prepare,
    .resume = hooks_resume,
    .status = hooks_status,
};
