/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/status.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/proxy-note.h"
#include "guest/util.h"

static const char *
status_text(json_object *object, const char *name)
{
    const char *text = json_object_get_string(json_object_object_get(object, name));

    return text ? text : "none";
}

static void
status_print_list(json_object *object, const char *name)
{
    json_object *list = json_object_object_get(object, name);
    size_t n = list ? json_object_array_length(list) : 0;

    printf("  %-9s", name);
    for (size_t i = 0; i < n; i++)
        printf(" %s", json_object_get_string(json_object_array_get_idx(list, i)));
    printf("%s\n", n == 0 ? " none" : "");
}

static void
status_print_device(json_object *device)
{
    json_object *holders = json_object_object_get(device, "holders");
    size_t n = json_object_array_length(holders);
    int64_t total = json_object_get_int64(json_object_object_get(device, "holders_total"));

    printf("GPU %s\n", status_text(device, "address"));
    printf("  path      %s\n", status_text(device, "path"));
    printf("  IDs       vendor %s, device %s, class %s\n", status_text(device, "vendor"),
           status_text(device, "device"), status_text(device, "class"));
    printf("  driver    %s\n", status_text(device, "driver"));
    status_print_list(device, "nodes");
    for (size_t i = 0; i < n; i++) {
        json_object *holder = json_object_array_get_idx(holders, i);
        printf("  held by   %s (%s), %s %s\n", status_text(holder, "pid"),
               status_text(holder, "comm"), status_text(holder, "path"),
               status_text(holder, "how"));
    }
    if (total > (int64_t)n)
        printf("  held by   %lld more\n", (long long)(total - (int64_t)n));
    if (total == 0)
        printf("  held by   no process\n");
}

static void
status_print_hooks(json_object *provider)
{
    printf("  %-9s %s\n", "directory", status_text(provider, "directory"));
    status_print_list(provider, "prepare");
    status_print_list(provider, "resume");
}

static void
status_print_units(json_object *provider)
{
    json_object *why = json_object_object_get(provider, "why");

    status_print_list(provider, "stop");
    if (why)
        printf("  unknown   %s\n", json_object_get_string(why));
}

static void
status_print_program(json_object *program)
{
    json_object *bytes = json_object_object_get(program, "bytes");
    json_object *why = json_object_object_get(program, "why");
    const char *movable = json_object_get_string(json_object_object_get(program, "movable"));
    const char *at = json_object_get_string(json_object_object_get(program, "at"));
    const char *unheld = json_object_get_string(json_object_object_get(program, "unheld"));

    printf("  process   %s (%s), ", status_text(program, "pid"), status_text(program, "comm"));
    if (bytes)
        printf("%lld MiB of GPU memory", (long long)json_object_get_int64(bytes) >> 20);
    else
        printf("its GPU memory is unknown");
    if (at)
        printf(", at %s", at);
    if (movable && strcmp(movable, "unknown") == 0)
        printf(", it is unknown whether it could be restored");
    if (unheld)
        printf(", threads that fault cannot be held: %s", unheld);
    printf("%s%s\n", why ? ", cannot be released: " : "", why ? json_object_get_string(why) : "");
}

/* Prints a stopped process, and what ends the hold of its threads. */
static void
status_print_held(json_object *held)
{
    printf("  held      %s (%s), threads: %s; `vgpu-guestd restore` restores it, and `kill %s` "
           "releases the threads, which get SIGSEGV if their memory is not restored\n",
           status_text(held, "pid"), status_text(held, "comm"), status_text(held, "threads"),
           status_text(held, "tracer"));
}

static void
status_print_driver(json_object *driver)
{
    json_object *faults = json_object_object_get(driver, "faults");
    size_t n = faults ? json_object_array_length(faults) : 0;

    printf("  driver    %s\n", status_text(driver, "version"));
    for (size_t i = 0; i < n; i++) {
        json_object *fault = json_object_array_get_idx(faults, i);
        printf("  %-9s %s (%s)\n", status_text(fault, "action"), status_text(fault, "what"),
               status_text(fault, "source"));
    }
}

static void
status_print_programs(json_object *provider)
{
    json_object *programs = json_object_object_get(provider, "programs");
    json_object *list = json_object_object_get(programs, "list");
    size_t n = json_object_array_length(list);
    int64_t total = json_object_get_int64(json_object_object_get(programs, "total"));
    bool can = json_object_get_boolean(json_object_object_get(provider, "releasable"));
    json_object *connected = json_object_object_get(provider, "connected");

    if (connected)
        printf("  connected %s\n", json_object_get_string(connected));
    if (json_object_object_get(provider, "driver"))
        status_print_driver(json_object_object_get(provider, "driver"));

    for (size_t i = 0; i < n; i++)
        status_print_program(json_object_array_get_idx(list, i));
    if (total > (int64_t)n)
        printf("  process   %lld more\n", (long long)(total - (int64_t)n));
    json_object *held = json_object_object_get(provider, "held");
    for (size_t i = 0; held && i < json_object_array_length(held); i++)
        status_print_held(json_object_array_get_idx(held, i));
    json_object *forked = json_object_object_get(programs, "forked");
    if (forked)
        printf(
            "  forked    children that can release GPU files: %s (%s descriptors, %s mappings)\n",
            status_text(forked, "processes"), status_text(forked, "descriptors"),
            status_text(forked, "maps"));
    if (total == 0)
        printf("  process   none\n");
    else
        printf("  total     %lld MiB of GPU memory, %s%s\n",
               (long long)json_object_get_int64(json_object_object_get(programs, "bytes")) >> 20,
               can ? "can be released now" : "cannot be released now: ",
               can ? "" : status_text(provider, "why"));
}

int
vg_guest_status_print(const struct vg_guest_config *config)
{
    struct vg_guest_order order = {.request = {.type = VG_GUEST_STATUS}};

    vg_guest_child_init();
    signal(SIGINT, SIG_DFL);
    json_object *object = vg_guest_look_json(config, &order);
    json_object *providers = json_object_object_get(object, "providers");
    json_object *devices = json_object_object_get(object, "devices");
    size_t n = json_object_array_length(devices);
    bool there = access(config->port, F_OK) == 0;

    printf("port        %s%s\n", config->port,
           there ? "" : ": does not exist; does the VM have a channel of this name?");
    for (size_t i = 0; i < json_object_array_length(providers); i++) {
        json_object *provider = json_object_array_get_idx(providers, i);
        printf("provider %s\n", status_text(provider, "name"));
        if (json_object_object_get(provider, "programs"))
            status_print_programs(provider);
        else if (json_object_object_get(provider, "stop"))
            status_print_units(provider);
        else
            status_print_hooks(provider);
    }
    for (size_t i = 0; i < n; i++)
        status_print_device(json_object_array_get_idx(devices, i));
    if (n == 0)
        printf("GPUs        none found\n");
    vg_guest_auto char *proxy = vg_guest_proxy_noted(config->root);
    if (proxy)
        printf("OpenCL      %s, if no vendor's library is installed\n", proxy);
    if (geteuid() != 0)
        printf("Not root: GPUs that other users' processes hold are not shown.\n");
    json_object_put(object);
    return 0;
}
