/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/proxy-choice.h"

#include "base/error.h"
#include "model/vm-name.h"

#define NAMED_MAX 8u /* the maximum number of names in a sentence */

void
vg_proxy_choice_clear(struct vg_proxy_choice *choice)
{
    if (choice->sockets)
        g_ptr_array_unref(choice->sockets);
    g_free(choice->host);
    g_free(choice->what);
}

/* ---- listing the choices ---- */

void
vg_proxy_choice_add_name(GPtrArray *names, const char *name)
{
    if (name && *name && names->len < NAMED_MAX &&
        !g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
        g_ptr_array_add(names, g_strdup(name));
}

char *
vg_proxy_choice_join(GPtrArray *names, const char *none)
{
    if (names->len == 0)
        return g_strdup(none);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* Lists the sockets, each with its GPU. */
static char *
choice_list(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++) {
        const struct vg_proxy_socket *socket = sockets->pdata[i];
        g_autofree char *text =
            g_strdup_printf("%s (%s%s)", socket->socket,
                            socket->gpu[0] ? "GPU " : "its GPU is unknown", socket->gpu);
        vg_proxy_choice_add_name(names, text);
    }
    return vg_proxy_choice_join(names, "none");
}

char *
vg_proxy_choice_list_gpus(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++)
        vg_proxy_choice_add_name(names, ((const struct vg_proxy_socket *)sockets->pdata[i])->gpu);
    return vg_proxy_choice_join(names, "none");
}

static char *
choice_list_vms(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++)
        vg_proxy_choice_add_name(names, ((const struct vg_proxy_socket *)sockets->pdata[i])->vm);
    return vg_proxy_choice_join(names, "nobody");
}

static bool
choice_is_gpu(const struct vg_proxy_socket *socket, const char *gpu)
{
    return socket->gpu[0] && (g_ascii_strcasecmp(socket->gpu, gpu) == 0 ||
                              g_ascii_strcasecmp(socket->gpu_name, gpu) == 0);
}

bool
vg_proxy_choice_has_gpu(const GPtrArray *sockets, const char *gpu)
{
    for (guint i = 0; i < sockets->len; i++) {
        if (choice_is_gpu(sockets->pdata[i], gpu))
            return true;
    }
    return false;
}

int
vg_proxy_choice_keep_gpu(struct vg_proxy_choice *choice, const char *gpu, GError **err)
{
    if (!vg_proxy_choice_has_gpu(choice->sockets, gpu)) {
        g_autofree char *gpus = vg_proxy_choice_list_gpus(choice->sockets);
        return vg_error(err, VG_E_NOT_FOUND,
                        "no vgpu-proxy on %s serves GPU '%s'; GPUs known to be served there: %s",
                        choice->what, gpu, gpus);
    }
    for (guint i = choice->sockets->len; i > 0; i--) {
        if (!choice_is_gpu(choice->sockets->pdata[i - 1], gpu))
            g_ptr_array_remove_index(choice->sockets, i - 1);
    }
    return 0;
}

/* Retains only those sockets of the VM that its programs can reach. */
static int
choice_filter_vm(struct vg_proxy_choice *choice, const char *vm, const char *uuid, GError **err)
{
    g_autofree char *vms = choice_list_vms(choice->sockets);
    g_autofree char *unreached = NULL;

    for (guint i = choice->sockets->len; i > 0; i--) {
        const struct vg_proxy_socket *socket = choice->sockets->pdata[i - 1];
        const bool is_of = vg_vm_is(socket->vm, vm, uuid);
        const bool is_reached =
            socket->address[0] && (!choice->is_far || vg_proxy_address_is_far(socket->address));
        if (is_of && is_reached)
            continue;
        if (is_of && !unreached)
            unreached = g_strdup(socket->socket);
        g_ptr_array_remove_index(choice->sockets, i - 1);
    }
    if (choice->sockets->len > 0)
        return 0;
    if (unreached)
        return vg_error(err, VG_E_REFUSED,
                        "programs cannot reach the socket of '%s' on %s, %s: its address must be "
                        "tcp: with an address of that host%s",
                        vm, choice->what, unreached, choice->is_far ? "" : ", or vsock:");
    return vg_error(err, VG_E_REFUSED,
                    "no configured vgpu-proxy on %s has a socket for '%s'; there are sockets for "
                    "%s",
                    choice->what, vm, vms);
}

static void
choice_take(const struct vg_proxy_choice *choice, struct vg_proxy_move *move)
{
    const struct vg_proxy_socket *socket = choice->sockets->pdata[0];

    g_free(move->to);
    move->to = g_strconcat("proxy:", socket->address, NULL);
    move->host = g_strdup(choice->host);
    move->gpu = g_strdup(socket->gpu);
    move->why = g_strdup_printf(
        "the vgpu-proxy with control socket %s on host '%s' provides it for this VM, and %s%s",
        socket->proxy, choice->host,
        socket->gpu[0] ? "serves GPU " : "does not report which GPU it serves", socket->gpu);
}

int
vg_proxy_choice_choose(struct vg_proxy_choice *choice, const char *vm, const char *uuid,
                       struct vg_proxy_move *move, GError **err)
{
    if (choice_filter_vm(choice, vm, uuid, err) < 0)
        return -1;
    if (choice->sockets->len > 1) {
        g_autofree char *list = choice_list(choice->sockets);
        return vg_error(err, VG_E_CONFLICT,
                        "%s has %u sockets for '%s': %s; use HOST/GPU or the address", choice->what,
                        choice->sockets->len, vm, list);
    }
    choice_take(choice, move);
    return 0;
}
