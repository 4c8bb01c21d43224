/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a client may have at a time.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/memory.h"
#include "opencl/wire/serve-private.h"

bool
vg_serve_may_have(const struct vg_serve *serve, uint64_t bytes)
{
    /* This process has one client. */
    uint64_t has = vg_cl_mem_bytes();

    return has <= serve->limits.memory && bytes <= serve->limits.memory - has;
}

struct vg_serve_counts *
vg_serve_counts_of(const struct vg_serve *serve)
{
    return serve->limits.counts;
}

bool
vg_serve_may_have_binaries(const struct vg_serve *serve)
{
    return serve->limits.is_with_binaries;
}

void
vg_serve_limit_info(const struct vg_serve *serve, cl_device_info param,
                    const struct vg_serve_value *value)
{
    cl_ulong bytes;

    if ((param != CL_DEVICE_GLOBAL_MEM_SIZE && param != CL_DEVICE_MAX_MEM_ALLOC_SIZE) ||
        !value->bytes || value->has != sizeof bytes || value->size < sizeof bytes)
        return;
    memcpy(&bytes, value->bytes, sizeof bytes);
    bytes = bytes < serve->limits.memory ? bytes : serve->limits.memory;
    memcpy(value->bytes, &bytes, sizeof bytes);
}

/* ---- data ---- */

bool
vg_serve_take_bytes(struct vg_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    bool may = size <= serve->limits.data - serve->n_data;
    serve->n_data += may ? size : 0;
    pthread_mutex_unlock(&serve->lock);
    return may;
}

void
vg_serve_leave_bytes(struct vg_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    serve->n_data -= size;
    pthread_mutex_unlock(&serve->lock);
}

bool
vg_serve_take_place(struct vg_serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    bool may = serve->n_objects < serve->limits.objects;
    serve->n_objects += may;
    pthread_mutex_unlock(&serve->lock);
    return may;
}

void
vg_serve_leave_place(struct vg_serve *serve)
{
    pthread_mutex_lock(&serve->lock);
    serve->n_objects--;
    pthread_mutex_unlock(&serve->lock);
}

void *
vg_serve_take_data(struct vg_serve *serve, size_t size)
{
    if (!vg_serve_take_bytes(serve, size))
        return NULL;
    void *data = malloc(size);
    if (!data)
        vg_serve_leave_bytes(serve, size);
    return data;
}

void
vg_serve_free_data(struct vg_serve *serve, void *data, size_t size)
{
    if (data && vg_wire_link_leave(serve->link, data)) {
        vg_serve_area_end(serve);
        return;
    }
    if (!data)
        return;
    free(data);
    vg_serve_leave_bytes(serve, size);
}
