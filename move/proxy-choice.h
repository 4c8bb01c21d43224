/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the vgpu-proxy at which the programs of a VM are to continue, among the sockets of a
 * host. Where that is not clear, nothing is chosen. Pure.
 */
#ifndef VG_MOVE_PROXY_CHOICE_H
#define VG_MOVE_PROXY_CHOICE_H

#include <stdbool.h>

#include <glib.h>

#include "model/proxy-move.h"
#include "model/proxy-socket.h"

/* Where the programs could go; zeroed before. */
struct vg_proxy_choice {
    GPtrArray *sockets; /* struct vg_proxy_socket, of one host; owned */
    char *host;         /* the host that has the sockets; owned */
    char *what;         /* "GPU 'X' of this host", "host 'h2'"; owned */
    bool is_far;        /* it is another host than the VM's */
};

void vg_proxy_choice_clear(struct vg_proxy_choice *choice);

/* Adds a name to a list (char *) that is to be shown, unless the list has it or is long enough. */
void vg_proxy_choice_add_name(GPtrArray *names, const char *name);

/* Joins names as "a, b", or returns a copy of none. The caller frees it. */
char *vg_proxy_choice_join(GPtrArray *names, const char *none);

/* Lists the GPUs of sockets in words; the caller frees it. */
char *vg_proxy_choice_list_gpus(const GPtrArray *sockets);

/* Returns whether one of the sockets has a GPU of this name or address. */
bool vg_proxy_choice_has_gpu(const GPtrArray *sockets, const char *gpu);

/* Keeps only the sockets of a GPU. VG_E_NOT_FOUND: there is none. */
int vg_proxy_choice_keep_gpu(struct vg_proxy_choice *choice, const char *gpu, GError **err);

/* Chooses the socket of a VM, and sets to, host, gpu and why of the move. VG_E_CONFLICT: that could
 * be several; VG_E_REFUSED: the VM has no socket there that its programs reach. */
int vg_proxy_choice_choose(struct vg_proxy_choice *choice, const char *vm, const char *uuid,
                           struct vg_proxy_move *move, GError **err);

#endif
