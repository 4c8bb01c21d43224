/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the vgpu-proxy where a VM's programs continue, among the sockets of a host. Makes no
 * choice if several sockets qualify. Pure.
 */
#ifndef VG_MOVE_PROXY_CHOICE_H
#define VG_MOVE_PROXY_CHOICE_H

#include <stdbool.h>

#include <glib.h>

#include "model/proxy-move.h"
#include "model/proxy-socket.h"

/* Where the programs could continue; initially zeroed. */
struct vg_proxy_choice {
    GPtrArray *sockets; /* struct vg_proxy_socket, of one host; owned */
    char *host;         /* the host that has the sockets; owned */
    char *what;         /* "GPU 'X' of this host", "host 'h2'"; owned */
    bool is_far;        /* the host is not the VM's own */
};

void vg_proxy_choice_clear(struct vg_proxy_choice *choice);

/* Adds a name to a list (char *) for display, unless the list already contains it or is full. */
void vg_proxy_choice_add_name(GPtrArray *names, const char *name);

/* Returns names joined as "a, b", or a copy of `none`. The caller frees it. */
char *vg_proxy_choice_join(GPtrArray *names, const char *none);

/* Lists the GPUs of sockets in words; the caller frees it. */
char *vg_proxy_choice_list_gpus(const GPtrArray *sockets);

/* Returns whether one of the sockets has a GPU with this name or address. */
bool vg_proxy_choice_has_gpu(const GPtrArray *sockets, const char *gpu);

/* Drops the sockets of other GPUs. Fails with VG_E_NOT_FOUND if no socket is left. */
int vg_proxy_choice_keep_gpu(struct vg_proxy_choice *choice, const char *gpu, GError **err);

/* Chooses a VM's socket, and sets to, host, gpu and why of the move. Fails with VG_E_CONFLICT if
 * several sockets qualify, and with VG_E_REFUSED if the VM has no socket there that its programs
 * can reach. */
int vg_proxy_choice_choose(struct vg_proxy_choice *choice, const char *vm, const char *uuid,
                           struct vg_proxy_move *move, GError **err);

#endif
