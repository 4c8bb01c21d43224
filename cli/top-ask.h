/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries vgpud on a separate thread, so that keys are handled while vgpud is down or hangs.
 */
#ifndef VG_CLI_TOP_ASK_H
#define VG_CLI_TOP_ASK_H

#include <glib.h>

#include "cli/top-look.h"
#include "client/client.h"

struct vg_top_question {
    char *vm;     /* the VM whose details are wanted, or NULL */
    int span_min; /* minutes of its history */
};

struct vg_top_answer {
    vg_top_look *look; /* NULL on failure, with: */
    GError *error;
};
typedef struct vg_top_answer vg_top_answer;
void vg_top_answer_free(struct vg_top_answer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_answer, vg_top_answer_free)

/* Queries once, on the calling thread. A VM or a history that does not exist is part of the
 * result. */
vg_top_look *vg_top_look_ask(vg_client *client, const struct vg_top_question *question,
                             GError **err);

typedef struct vg_top_asker vg_top_asker;

/* Takes ownership of the client, even on failure. */
vg_top_asker *vg_top_asker_new(vg_client *take_client, GError **err);

/* Ends the thread; a running query is cancelled within a second. NULL is allowed. */
void vg_top_asker_free(vg_top_asker *asker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_asker, vg_top_asker_free)

/* Sends a query. Only one at a time: call again only after the answer has been taken. */
void vg_top_asker_ask(vg_top_asker *asker, const char *vm, int span_min);

/* Returns the answer, or NULL if it has not arrived. */
struct vg_top_answer *vg_top_asker_take(vg_top_asker *asker);

/* Becomes readable when there is an answer; owned by the asker. */
int vg_top_asker_fd(const vg_top_asker *asker);

#endif
