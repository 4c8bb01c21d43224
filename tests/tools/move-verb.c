/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one verb of actuators/virt-move.h and prints what it tells, and what comes of it, each as
 * one line of JSON:
 *
 *     move-verb [OPTIONS] URI look UUID [ALIAS...]
 *     move-verb [OPTIONS] URI gpus UUID
 *     move-verb [OPTIONS] URI detach | attach UUID
 *     move-verb [OPTIONS] URI precheck | migrate UUID PEER-URI TARGET-URI
 *     move-verb [OPTIONS] URI pick|try-pick [TAKEN...]
 *     move-verb [OPTIONS] URI hello | prepare | resume UUID
 *
 * Devices, as gpus prints them, come from standard input. -n NAME=FILE: a device that is named,
 * with -s domains that can have it; -t: seconds of the deadline; -b: MiB/s of a migration; -d: ms
 * up to which its downtime limit may be raised; -c: cancel after so many things told; -r: the
 * directory with sys and proc that tell of the first host's GPUs; -p: gpu_placement is pack.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actuators/virt-move.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "host/virt-event.h"

#define NAMED_MAX 8
#define INPUT_MAX (4 << 20)

struct tool {
    vg_virt_link *host, *other;
    const char *root; /* NULL: "/" */
    struct vg_named_device named[NAMED_MAX];
    size_t n_named;
    bool packs;
    int64_t bandwidth, downtime_ms;
    int cancel_after; /* 0: never */
    int told;
    atomic_bool cancel;
    struct vg_verb verb;
    GPtrArray *devices;
    char **args; /* after the verb */
    int n_args;
    json_object *out;
};

static void
print(json_object *take_object)
{
    puts(json_object_to_json_string_ext(take_object, JSON_C_TO_STRING_PLAIN));
    fflush(stdout);
    json_object_put(take_object);
}

static void
tell(void *data, const struct vg_migration_progress *progress, const char *text)
{
    struct tool *tool = data;
    json_object *object = json_object_new_object();

    if (progress)
        vg_json_add(object, "progress", vg_record_write(&vg_migration_progress_record, progress));
    if (text)
        vg_json_add_string(object, "text", text);
    print(object);
    if (tool->cancel_after > 0 && ++tool->told >= tool->cancel_after)
        atomic_store(&tool->cancel, true);
}

static void
free_device(void *device)
{
    vg_record_free(&vg_move_device_record, device);
}

static int
read_devices(struct tool *tool, GError **err)
{
    g_autofree char *text = g_malloc(INPUT_MAX);
    size_t size = fread(text, 1, INPUT_MAX, stdin);

    tool->devices = g_ptr_array_new_with_free_func(free_device);
    if (size == 0)
        return 0;
    g_autoptr(json_object) list = vg_json_parse(text, size, INPUT_MAX, 8, err);
    if (!list)
        return -1;
    struct vg_json_node root = vg_json_root(list);
    if (vg_json_array(&root, VG_MIGRATION_DEVICES_MAX, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(&root); i++) {
        struct vg_json_node item = vg_json_item(&root, i);
        void *device = vg_record_read(&vg_move_device_record, &item, err);
        if (!device)
            return -1;
        g_ptr_array_add(tool->devices, device);
    }
    return 0;
}

static void
add_devices(json_object *object, const GPtrArray *devices)
{
    json_object *list = json_object_new_array();

    for (unsigned i = 0; i < devices->len; i++)
        vg_json_append(list, vg_record_write(&vg_move_device_record, devices->pdata[i]));
    vg_json_add(object, "devices", list);
}

/* ---- the verbs ---- */

static int
do_look(struct tool *tool, GError **err)
{
    static const char *const places[] = {
        [VG_DOMAIN_ABSENT] = "absent",     [VG_DOMAIN_HERE] = "here",
        [VG_DOMAIN_STILL] = "still",       [VG_DOMAIN_LEAVING] = "leaving",
        [VG_DOMAIN_INCOMING] = "incoming",
    };
    struct vg_domain_look look;

    if (vg_virt_look(tool->host, tool->args[0], (const char *const *)&tool->args[1], &look, err) <
        0)
        return -1;
    vg_json_add_string(tool->out, "place", places[look.place]);
    if (look.stands)
        vg_json_add_string(tool->out, "stands", look.stands);
    vg_json_add_bool(tool->out, "defined", look.defined);
    vg_json_add_int64(tool->out, "present", look.present);
    return 0;
}

static int
do_gpus(struct tool *tool, GError **err)
{
    g_autoptr(GPtrArray) gpus =
        vg_virt_gpus(tool->host, tool->args[0], tool->named, tool->n_named, err);

    if (!gpus)
        return -1;
    add_devices(tool->out, gpus);
    return 0;
}

static int
do_detach(struct tool *tool, GError **err)
{
    return vg_virt_detach(tool->host, tool->args[0], tool->devices, &tool->verb, err);
}

static int
do_attach(struct tool *tool, GError **err)
{
    for (unsigned i = 0; i < tool->devices->len; i++) {
        const struct vg_move_device *device = tool->devices->pdata[i];
        if (vg_virt_attach(tool->host, tool->args[0], device,
                           device->target_xml ? device->target_xml : device->source_xml,
                           &tool->verb, err) < 0)
            return -1;
    }
    return 0;
}

static int
do_precheck(struct tool *tool, GError **err)
{
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) doubts = g_ptr_array_new_with_free_func(g_free);
    struct vg_precheck check = {.uuid = tool->args[0],
                                .peer_uri = tool->args[1],
                                .devices = tool->devices,
                                .doubts = doubts};
    json_object *list = json_object_new_array(), *unsure = json_object_new_array();

    vg_json_add(tool->out, "problems", list);
    vg_json_add(tool->out, "doubts", unsure);
    if (vg_virt_precheck(tool->host, tool->other, &check, problems, err) < 0)
        return -1;
    for (unsigned i = 0; i < problems->len; i++)
        vg_json_append(list, vg_json_new_string(problems->pdata[i]));
    for (unsigned i = 0; i < doubts->len; i++)
        vg_json_append(unsure, vg_json_new_string(doubts->pdata[i]));
    vg_json_add_int64(tool->out, "memory_bytes", check.memory_bytes);
    return 0;
}

static int
do_migrate(struct tool *tool, GError **err)
{
    const struct vg_virt_migration migration = {
        .uuid = tool->args[0],
        .peer_uri = tool->args[1],
        .target = tool->other,
        .devices = tool->devices,
        .bandwidth_bytes_per_s = tool->bandwidth,
        .downtime_max_ns = tool->downtime_ms * VG_NS_PER_MS,
    };
    struct vg_migration_progress progress = {0};
    int result = vg_virt_migrate(tool->host, &migration, &tool->verb, &progress, err);

    vg_json_add(tool->out, "progress", vg_record_write(&vg_migration_progress_record, &progress));
    return result;
}

static int
do_pick_some(struct tool *tool, bool dry_run, GError **err)
{
    g_autoptr(GPtrArray) taken = g_ptr_array_new();

    for (int i = 0; i < tool->n_args; i++)
        g_ptr_array_add(taken, tool->args[i]);
    if (vg_virt_pick(tool->host, tool->devices, taken, dry_run, tool->packs, tool->named,
                     tool->n_named, err) < 0)
        return -1;
    add_devices(tool->out, tool->devices);
    return 0;
}

static int
do_pick(struct tool *tool, GError **err)
{
    return do_pick_some(tool, false, err);
}

static int
do_try_pick(struct tool *tool, GError **err)
{
    return do_pick_some(tool, true, err);
}

static int
do_guest(struct tool *tool, int result, struct vg_guest_answer *answer)
{
    if (result == 0) {
        json_object *object = json_object_new_object();
        vg_json_add_bool(object, "ok", answer->ok);
        vg_json_add_string(object, "text", answer->text);
        vg_json_add_int64(object, "ram_bytes", answer->ram_bytes);
        vg_json_add_int64(object, "pause_ns", answer->pause_ns);
        vg_json_add(tool->out, "answer", object);
    }
    vg_guest_answer_clear(answer);
    return result;
}

static int
do_hello(struct tool *tool, GError **err)
{
    struct vg_guest_answer answer = {0};

    return do_guest(tool, vg_guest_hello(tool->host, tool->args[0], &tool->verb, &answer, err),
                    &answer);
}

static int
do_prepare(struct tool *tool, GError **err)
{
    struct vg_guest_answer answer = {0};

    return do_guest(
        tool,
        vg_guest_prepare(tool->host, tool->args[0], tool->devices, NULL, &tool->verb, &answer, err),
        &answer);
}

static int
do_resume(struct tool *tool, GError **err)
{
    struct vg_guest_answer answer = {0};

    return do_guest(
        tool, vg_guest_resume(tool->host, tool->args[0], tool->devices, &tool->verb, &answer, err),
        &answer);
}

static const struct action {
    const char *name;
    int n_args; /* at least */
    bool devices;
    int (*run)(struct tool *tool, GError **err);
} actions[] = {
    {"look", 1, false, do_look},        {"gpus", 1, false, do_gpus},
    {"detach", 1, true, do_detach},     {"attach", 1, true, do_attach},
    {"precheck", 3, true, do_precheck}, {"migrate", 3, true, do_migrate},
    {"pick", 0, true, do_pick},         {"try-pick", 0, true, do_try_pick},
    {"hello", 1, false, do_hello},      {"prepare", 1, true, do_prepare},
    {"resume", 1, true, do_resume},
};

/* ---- the command line ---- */

static int
run(struct tool *tool, const struct action *action, const char *uri, GError **err)
{
    if (action->devices && read_devices(tool, err) < 0)
        return -1;
    tool->host = vg_virt_link_open(uri, err);
    if (!tool->host)
        return -1;
    if (tool->root)
        vg_virt_link_set_root(tool->host, tool->root);
    if (action->n_args == 3) {
        tool->other = vg_virt_link_open(tool->args[2], err);
        if (!tool->other)
            return -1;
    }
    return action->run(tool, err);
}

static bool
add_named(struct tool *tool, const char *text, int64_t slots)
{
    const char *file = strchr(text, '=');
    char *xml = NULL;

    if (!file || tool->n_named == NAMED_MAX || !g_file_get_contents(file + 1, &xml, NULL, NULL))
        return false;
    tool->named[tool->n_named++] = (struct vg_named_device){
        .name = g_strndup(text, (size_t)(file - text)), .xml = xml, .slots = slots};
    return true;
}

static bool
read_options(struct tool *tool, int argc, char **argv)
{
    double seconds = 60;
    int64_t slots = 1;

    for (int option = getopt(argc, argv, "n:s:t:b:d:c:r:p"); option != -1;
         option = getopt(argc, argv, "n:s:t:b:d:c:r:p")) {
        if (option == 'n') {
            if (!add_named(tool, optarg, slots))
                return false;
        } else if (option == 's') {
            slots = atoi(optarg);
        } else if (option == 't') {
            seconds = atof(optarg);
        } else if (option == 'b') {
            tool->bandwidth = (int64_t)atoi(optarg) << 20;
        } else if (option == 'd') {
            tool->downtime_ms = atoi(optarg);
        } else if (option == 'c') {
            tool->cancel_after = atoi(optarg);
        } else if (option == 'r') {
            tool->root = optarg;
        } else if (option == 'p') {
            tool->packs = true;
        } else {
            return false;
        }
    }
    tool->verb = (struct vg_verb){
        .deadline_ns = vg_clock_monotonic_ns() + (int64_t)(seconds * (double)VG_NS_PER_S),
        .cancel = &tool->cancel,
        .tell = tell,
        .data = tool,
    };
    return true;
}

static void
clear(struct tool *tool)
{
    vg_virt_link_close(tool->host);
    vg_virt_link_close(tool->other);
    vg_virt_event_stop();
    for (size_t i = 0; i < tool->n_named; i++) {
        g_free((char *)tool->named[i].name);
        g_free((char *)tool->named[i].xml);
    }
    if (tool->devices)
        g_ptr_array_unref(tool->devices);
}

int
main(int argc, char **argv)
{
    struct tool tool = {.downtime_ms = 2000};
    const struct action *action = NULL;
    g_autoptr(GError) err = NULL;

    /* Of a connection that libvirt writes to after the other side has gone. */
    signal(SIGPIPE, SIG_IGN);
    if (read_options(&tool, argc, argv) && argc - optind >= 2) {
        tool.args = argv + optind + 2;
        tool.n_args = argc - optind - 2;
        for (size_t i = 0; i < G_N_ELEMENTS(actions); i++)
            if (strcmp(actions[i].name, argv[optind + 1]) == 0 && tool.n_args >= actions[i].n_args)
                action = &actions[i];
    }
    if (!action) {
        fprintf(stderr, "usage: move-verb [-n NAME=FILE] [-s SLOTS] [-t SECONDS] [-b MIB/S] [-d MS]"
                        " [-c N] [-r ROOT] URI VERB ARGUMENT...\n");
        return 2;
    }
    tool.out = json_object_new_object();
    int result = run(&tool, action, argv[optind], &err);
    vg_json_add_bool(tool.out, "ok", result == 0);
    if (result < 0) {
        vg_json_add_int64(tool.out, "code", err->code);
        vg_json_add_string(tool.out, "error", err->message);
    }
    print(tool.out);
    clear(&tool);
    return result < 0;
}
