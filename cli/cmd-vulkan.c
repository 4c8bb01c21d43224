/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl vulkan enable|disable: sets up Vulkan for a VM that has no GPU of its own.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/online-args.h"

enum { KEY_HOSTMEM = 0xb00, KEY_RENDER_NODE, KEY_LOOSEN, KEY_DRY_RUN, KEY_YES };

struct vulkan_args {
    struct vg_online_args online;
    int64_t hostmem_bytes; /* 0 for vgpud's default */
    const char *render_node;
    bool loosen_sandbox;
    bool dry_run;
    bool yes;
};

static int
vulkan_request(const struct vulkan_args *args, bool dry_run, vg_client *client, json_object **ret,
               GError **err)
{
    g_autofree char *path = vg_client_vm_path(args->online.object, "/vulkan");
    g_autoptr(json_object) body = json_object_new_object();

    vg_json_add_bool(body, "enabled", strcmp(args->online.verb->name, "enable") == 0);
    if (args->hostmem_bytes > 0)
        vg_json_add_int64(body, "hostmem_bytes", args->hostmem_bytes);
    if (args->render_node)
        vg_json_add_string(body, "render_node", args->render_node);
    if (args->loosen_sandbox)
        vg_json_add_bool(body, "loosen_sandbox", true);
    vg_json_add_bool(body, "dry_run", dry_run);
    return vg_client_post(client, path, body, ret, err);
}

static void
vulkan_add_lines(GString *text, json_object *lines)
{
    for (size_t i = 0; i < vg_output_length(lines); i++) {
        g_autofree char *line =
            vg_printable_text(json_object_get_string(json_object_array_get_idx(lines, i)));
        g_string_append_printf(text, "%s\n", line);
    }
}

/* Describes the changes as lines of XML, with notes. */
static char *
vulkan_text(json_object *change)
{
    GString *text = g_string_new(NULL);
    const char *vm = json_object_get_string(vg_output_member(change, "vm"));
    const bool enabled = json_object_get_boolean(vg_output_member(change, "enabled"));
    const bool dry_run = json_object_get_boolean(vg_output_member(change, "dry_run"));

    if (!json_object_get_boolean(vg_output_member(change, "changed"))) {
        g_string_append_printf(text, "nothing changed: the definition of %s already matches\n", vm);
        return g_string_free(text, FALSE);
    }
    g_string_append_printf(text, "The definition of %s %s:\n", vm,
                           dry_run   ? "would change as follows"
                           : enabled ? "now has Vulkan. Changes"
                                     : "no longer has Vulkan. Changes");
    vulkan_add_lines(text, vg_output_member(change, "changes"));
    vulkan_add_lines(text, vg_output_member(change, "notes"));
    if (json_object_get_boolean(vg_output_member(change, "running")))
        g_string_append_printf(text, "%s is running; the change takes effect at its next start\n",
                               vm);
    return g_string_free(text, FALSE);
}

static int
vulkan_print(const struct vulkan_args *args, json_object *change, GError **err)
{
    if (args->online.format != VG_OUTPUT_TABLE && args->online.format != VG_OUTPUT_WIDE)
        return vg_output_print(args->online.format, change, NULL, 0, err);
    g_autofree char *text = vulkan_text(change);
    return vg_cli_print(text, err);
}

/* Prints the changes to stderr and requests confirmation. *ret_wanted is the answer. */
static int
vulkan_is_wanted(const struct vulkan_args *args, vg_client *client, bool *ret_wanted, GError **err)
{
    g_autoptr(json_object) change = NULL;

    if (vulkan_request(args, true, client, &change, err) < 0)
        return -1;
    *ret_wanted = true;
    if (!json_object_get_boolean(vg_output_member(change, "changed")))
        return 0;
    g_autofree char *text = vulkan_text(change);
    fputs(text, stderr);
    *ret_wanted = vg_cli_agrees("Change it?");
    return 0;
}

static int
vulkan_set(void *data, vg_client *client, GError **err)
{
    const struct vulkan_args *args = data;
    g_autoptr(json_object) change = NULL;
    bool wanted = true;

    if (!args->dry_run && !args->yes && vulkan_is_wanted(args, client, &wanted, err) < 0)
        return -1;
    if (!wanted)
        return vg_error(err, VG_E_REFUSED, "nothing changed");
    if (vulkan_request(args, args->dry_run, client, &change, err) < 0)
        return -1;
    return vulkan_print(args, change, err);
}

/* ---- arguments ---- */

static int64_t
vulkan_parse_size(const char *text, const struct argp_state *state)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}, {"T", 40}, {"TiB", 40}};
    char *end;
    const uint64_t number = g_ascii_strtoull(text, &end, 10);

    for (size_t i = 0; i < G_N_ELEMENTS(units) && g_ascii_isdigit(text[0]); i++)
        if (strcmp(end, units[i].name) == 0 && number > 0 &&
            number <= (uint64_t)(VG_JSON_INT_MAX >> units[i].shift))
            return (int64_t)(number << units[i].shift);
    vg_cli_usage(state, "--hostmem must be a power of two, such as 256M or 4G, not '%s'", text);
    return 0;
}

static void
vulkan_check(const struct vulkan_args *args, const struct argp_state *state)
{
    if (strcmp(args->online.verb->name, "enable") != 0 &&
        (args->hostmem_bytes > 0 || args->render_node || args->loosen_sandbox))
        argp_error(state,
                   "--hostmem, --render-node and --loosen-sandbox are valid only with `vulkan "
                   "enable`");
    if (args->online.format == VG_OUTPUT_CSV)
        argp_error(state, "the change cannot be printed in this format; use -o json or -o yaml");
    if (!args->dry_run && !args->yes && !isatty(STDIN_FILENO))
        argp_error(state,
                   "cannot ask for confirmation without a terminal; use --yes, or --dry-run to "
                   "show the change only");
}

static error_t
vulkan_parse(int key, char *arg, struct argp_state *state)
{
    struct vulkan_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_HOSTMEM:
        args->hostmem_bytes = vulkan_parse_size(arg, state);
        break;
    case KEY_RENDER_NODE:
        args->render_node = arg;
        break;
    case KEY_LOOSEN:
        args->loosen_sandbox = true;
        break;
    case KEY_DRY_RUN:
        args->dry_run = true;
        break;
    case KEY_YES:
        args->yes = true;
        break;
    case ARGP_KEY_END:
        vulkan_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_vulkan(int argc, char **argv)
{
    static const char hint[] = "specify a VM; `vgpuctl vm list` shows all VMs";
    static const struct vg_online_verb verbs[] = {
        {"enable", VG_OBJECT_REQUIRED, hint, vulkan_set},
        {"disable", VG_OBJECT_REQUIRED, hint, vulkan_set},
    };
    static const struct argp_option options[] = {
        {"hostmem", KEY_HOSTMEM, "SIZE", 0,
         "enable: amount of host memory that the guest can map, such as 256M (default: 4G)", 1},
        {"render-node", KEY_RENDER_NODE, "PATH", 0,
         "enable: QEMU's render node, like /dev/dri/renderD128 (default: libvirt chooses)", 1},
        {"loosen-sandbox", KEY_LOOSEN, NULL, 0,
         "enable: exempt this VM's QEMU from libvirt's sandbox if the sandbox keeps it from "
         "starting its render server",
         1},
        {"dry-run", KEY_DRY_RUN, NULL, 0, "only show the change", 1},
        {"yes", KEY_YES, NULL, 0, "do not ask for confirmation", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = vulkan_parse,
        .args_doc = "enable VM\ndisable VM",
        .doc = "Adds Vulkan (virtio-gpu with Venus) to the definition of a VM without a GPU of "
               "its own, or removes it. With Vulkan, programs in the VM use the host's GPU. "
               "Requires the role operator.",
        .children = vg_online_once_children,
    };
    struct vulkan_args args = {.online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
