/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks vgpud for looks, on a thread of its own, so that keys are answered while vgpud is not there
 * or hangs.
 */
#ifndef VG_CLI_TOP_ASK_H
#define VG_CLI_TOP_ASK_H

#include <glib.h>

#include "cli/top-look.h"
#include "client/client.h"

struct vg_top_question {
    char *vm;     /* the VM that is wanted in detail, or NULL */
    int span_min; /* of its history */
};

struct vg_top_answer {
    vg_top_look *look; /* or NULL and */
    GError *error;
};
typedef struct vg_top_answer vg_top_answer;
void vg_top_answer_free(struct vg_top_answer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_answer, vg_top_answer_free)

/* One look, by the calling thread. A VM or a history that is not there is part of the look. */
vg_top_look *vg_top_look_ask(vg_client *client, const struct vg_top_question *question,
                             GError **err);

typedef struct vg_top_asker vg_top_asker;

/* The client belongs to it from now on, also on failure. */
vg_top_asker *vg_top_asker_new(vg_client *take_client, GError **err);

/* Ends the thread; a question that is under way is given up within a second. NULL is fine. */
void vg_top_asker_free(vg_top_asker *asker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_top_asker, vg_top_asker_free)

/* Puts a question. There may be one at a time: the next is for when its answer was taken. */
void vg_top_asker_ask(vg_top_asker *asker, const char *vm, int span_min);

/* The answer, or NULL: there is none yet. */
struct vg_top_answer *vg_top_asker_take(vg_top_asker *asker);

/* Readable when there is an answer; owned by the asker. */
int vg_top_asker_fd(const vg_top_asker *asker);

#endif
