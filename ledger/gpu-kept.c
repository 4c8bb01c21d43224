/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests that ended in the open window. If there is no space for all of them, those that are
 * kept come from the whole window.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

struct gpu_kept_request {
    struct vg_gpu_life life;
    uint64_t number;   /* number of earlier requests in the window */
    uint32_t left_out; /* number of requests left out directly before it */
};

struct gpu_kept {
    GArray *requests;  /* struct gpu_kept_request */
    uint32_t left_out; /* number of requests left out at the end */
    uint64_t n;        /* number of requests that ended in the window */
    uint64_t every;    /* on average, one in so many is kept; a power of 2 */
};

struct gpu_kept *
gpu_kept_new(void)
{
    struct gpu_kept *kept = g_new0(struct gpu_kept, 1);

    kept->requests = g_array_new(FALSE, FALSE, sizeof(struct gpu_kept_request));
    kept->every = 1;
    return kept;
}

void
gpu_kept_free(struct gpu_kept *kept)
{
    if (!kept)
        return;
    g_array_unref(kept->requests);
    g_free(kept);
}

void
gpu_kept_begin_window(struct gpu_kept *kept)
{
    g_array_set_size(kept->requests, 0);
    kept->left_out = 0;
    kept->n = 0;
    kept->every = 1;
}

/* Returns whether to keep the request with this number. The choice is random (the mixer of
 * splitmix64), because VMs may take turns, but reproducible. The first request is always kept. */
static bool
gpu_kept_is_chosen(const struct gpu_kept *kept, uint64_t number)
{
    uint64_t mixed = number;

    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    mixed ^= mixed >> 31;
    return (mixed & (kept->every - 1)) == 0;
}

static uint32_t
gpu_kept_sum(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Drops about half of the kept requests. */
static void
gpu_kept_thin_out(struct gpu_kept *kept)
{
    uint32_t left_out = 0;
    guint n = 0;

    kept->every *= 2;
    for (guint i = 0; i < kept->requests->len; i++) {
        struct gpu_kept_request *one = &g_array_index(kept->requests, struct gpu_kept_request, i);
        left_out = gpu_kept_sum(left_out, one->left_out);
        if (!gpu_kept_is_chosen(kept, one->number)) {
            left_out = gpu_kept_sum(left_out, 1);
            continue;
        }
        one->left_out = left_out;
        left_out = 0;
        g_array_index(kept->requests, struct gpu_kept_request, n++) = *one;
    }
    g_array_set_size(kept->requests, n);
    kept->left_out = gpu_kept_sum(kept->left_out, left_out);
}

void
gpu_kept_add(struct gpu_kept *kept, const struct vg_gpu_life *life)
{
    const uint64_t number = kept->n++;

    while (gpu_kept_is_chosen(kept, number) && kept->requests->len == VG_WINDOW_GPU_REQUESTS_MAX)
        gpu_kept_thin_out(kept);
    if (!gpu_kept_is_chosen(kept, number)) {
        kept->left_out = gpu_kept_sum(kept->left_out, 1);
        return;
    }
    const struct gpu_kept_request one = {
        .life = *life, .number = number, .left_out = kept->left_out};
    kept->left_out = 0;
    g_array_append_val(kept->requests, one);
}

uint32_t
gpu_kept_each(const struct gpu_kept *kept, gpu_kept_fn *fn, void *data)
{
    for (guint i = 0; i < kept->requests->len; i++) {
        const struct gpu_kept_request *one =
            &g_array_index(kept->requests, struct gpu_kept_request, i);
        fn(data, &one->life, one->left_out);
    }
    return kept->left_out;
}
