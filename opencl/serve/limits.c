/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a client's concurrent resources.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/serve/pool.h"
#include "opencl/serve/private.h"
#include "opencl/track/memory.h"

/* Stores that this client has HAS bytes. Returns whether all clients of the VM together are within
 * their limit. */
static bool
limits_claim(const struct vg_serve *serve, uint64_t has)
{
    struct vg_serve_pool *pool = serve->limits.pool;
    uint64_t sum = 0;

    if (!pool)
        return true;
    atomic_store(&pool->has[serve->limits.place], has);
    const uint64_t most = atomic_load(&pool->most);
    const unsigned n = atomic_load(&pool->n);
    for (unsigned i = 0; most != UINT64_MAX && i < n && i < VG_SERVE_POOL_MAX; i++) {
        const uint64_t one = atomic_load(&pool->has[i]);
        sum = one > UINT64_MAX - sum ? UINT64_MAX : sum + one;
    }
    return sum <= most;
}

const char *
vg_serve_may_not_have(const struct vg_serve *serve, uint64_t bytes)
{
    /* This process has one client. */
    uint64_t has = vg_cl_mem_bytes();

    if (has > serve->limits.memory || bytes > serve->limits.memory - has)
        return "more memory than its limit";
    if (limits_claim(serve, has + bytes))
        return NULL;
    vg_serve_settle_memory(serve);
    return "more memory than the limit that its VM's programs share";
}

void
vg_serve_settle_memory(const struct vg_serve *serve)
{
    struct vg_serve_pool *pool = serve->limits.pool;
    const uint64_t has = vg_cl_mem_bytes();

    if (pool && atomic_load_explicit(&pool->has[serve->limits.place], memory_order_relaxed) != has)
        atomic_store(&pool->has[serve->limits.place], has);
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
    const uint64_t most = serve->limits.pool ? serve->limits.pool->most : UINT64_MAX;
    bytes = bytes < serve->limits.memory ? bytes : serve->limits.memory;
    bytes = bytes < most ? bytes : most;
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
    pthread_cond_broadcast(&serve->less);
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_map_bytes(struct vg_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    serve->n_mapped += size;
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_unmap_bytes(struct vg_serve *serve, size_t size)
{
    pthread_mutex_lock(&serve->lock);
    serve->n_mapped -= size;
    pthread_mutex_unlock(&serve->lock);
    vg_serve_leave_bytes(serve, size);
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
