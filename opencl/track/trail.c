/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/trail.h"

#include <stdlib.h>

/* Returns the next object; NULL at the end. */
static struct vg_cl_object *
trail_next(struct vg_cl_trail *trail)
{
    struct vg_cl_object *next = NULL;

    pthread_mutex_lock(&trail->lock);
    while (trail->n_done == trail->n && !trail->is_over)
        pthread_cond_wait(&trail->more, &trail->lock);
    if (trail->n_done < trail->n)
        next = trail->objects[trail->n_done++];
    pthread_mutex_unlock(&trail->lock);
    return next;
}

static void *
trail_run(void *data)
{
    struct vg_cl_object *object;

    while ((object = trail_next(data)))
        vg_cl_object_drop(object);
    return NULL;
}

void
vg_cl_trail_begin(struct vg_cl_trail *trail, size_t most)
{
    *trail = (struct vg_cl_trail){.objects = calloc(most ? most : 1, sizeof *trail->objects)};
    trail->most = trail->objects ? most : 0;
    pthread_mutex_init(&trail->lock, NULL);
    pthread_cond_init(&trail->more, NULL);
    /* One object has none to be read behind it. */
    trail->has_thread =
        trail->most > 1 && pthread_create(&trail->thread, NULL, trail_run, trail) == 0;
}

void
vg_cl_trail_add(struct vg_cl_trail *trail, struct vg_cl_object *mem)
{
    pthread_mutex_lock(&trail->lock);
    if (trail->has_thread && trail->n < trail->most)
        trail->objects[trail->n++] = mem;
    pthread_cond_signal(&trail->more);
    pthread_mutex_unlock(&trail->lock);
}

size_t
vg_cl_trail_end(struct vg_cl_trail *trail)
{
    pthread_mutex_lock(&trail->lock);
    trail->is_over = true;
    pthread_cond_signal(&trail->more);
    pthread_mutex_unlock(&trail->lock);
    if (trail->has_thread)
        pthread_join(trail->thread, NULL);
    pthread_cond_destroy(&trail->more);
    pthread_mutex_destroy(&trail->lock);
    free(trail->objects);
    return trail->n_done;
}
