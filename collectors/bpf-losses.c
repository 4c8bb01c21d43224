/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/bpf-losses.h"

#include <bpf/bpf.h>

struct cell {
    struct vg_bpf_cell_key key;
    struct vg_bpf_cell value;
};

struct vg_bpf_cells {
    int map_fd;
    uint64_t evictions; /* as of the last reading */
    GArray *copies;     /* struct cell */
};

struct loss {
    uint32_t holder;
    int64_t ns;
    uint64_t count;
};

struct vg_bpf_given {
    GArray *told; /* struct loss, since the beginning */
    GArray *sums; /* struct loss, of one reading */
};

/* ---- cells ---- */

vg_bpf_cells *
vg_bpf_cells_new(int map_fd)
{
    vg_bpf_cells *cells = g_new0(vg_bpf_cells, 1);

    cells->map_fd = map_fd;
    cells->copies = g_array_new(FALSE, FALSE, sizeof(struct cell));
    return cells;
}

void
vg_bpf_cells_free(vg_bpf_cells *cells)
{
    if (!cells)
        return;
    g_array_unref(cells->copies);
    g_free(cells);
}

void
vg_bpf_cells_update(vg_bpf_cells *cells, uint64_t evictions)
{
    struct vg_bpf_cell_key key, *last = NULL;
    struct cell cell;

    if (evictions == cells->evictions)
        return;
    cells->evictions = evictions;
    g_array_set_size(cells->copies, 0);
    while (bpf_map_get_next_key(cells->map_fd, last, &key) == 0) {
        cell.key = key;
        if (bpf_map_lookup_elem(cells->map_fd, &key, &cell.value) == 0)
            g_array_append_val(cells->copies, cell);
        last = &cell.key;
    }
}

void
vg_bpf_cells_delete(vg_bpf_cells *cells, uint32_t slot)
{
    for (unsigned i = cells->copies->len; i > 0; i--) {
        const struct cell *cell = &g_array_index(cells->copies, struct cell, i - 1);
        if (cell->key.slot != slot)
            continue;
        bpf_map_delete_elem(cells->map_fd, &cell->key);
        g_array_remove_index_fast(cells->copies, i - 1);
    }
}

/* ---- losses of a thread ---- */

vg_bpf_given *
vg_bpf_given_new(void)
{
    vg_bpf_given *given = g_new0(vg_bpf_given, 1);

    given->told = g_array_new(FALSE, FALSE, sizeof(struct loss));
    given->sums = g_array_new(FALSE, FALSE, sizeof(struct loss));
    return given;
}

void
vg_bpf_given_free(vg_bpf_given *given)
{
    g_array_unref(given->told);
    g_array_unref(given->sums);
    g_free(given);
}

static struct loss *
find(GArray *losses, uint32_t holder)
{
    for (unsigned i = 0; i < losses->len; i++) {
        struct loss *loss = &g_array_index(losses, struct loss, i);
        if (loss->holder == holder)
            return loss;
    }
    struct loss fresh = {.holder = holder};
    g_array_append_val(losses, fresh);
    return &g_array_index(losses, struct loss, losses->len - 1);
}

static void
add(GArray *losses, uint32_t holder, int64_t ns, uint64_t count)
{
    struct loss *loss = find(losses, holder);

    loss->ns += ns;
    loss->count += count;
}

/* Everything that the thread ever lost, by holder. */
static void
sum_up(GArray *sums, const struct vg_bpf_reading *reading, uint32_t slot, const vg_bpf_cells *cells)
{
    g_array_set_size(sums, 0);
    for (unsigned i = 0; i < reading->n_losses; i++)
        add(sums, reading->losses[i].holder, reading->losses[i].ns, reading->losses[i].count);
    for (unsigned i = 0; i < cells->copies->len; i++) {
        const struct cell *cell = &g_array_index(cells->copies, struct cell, i);
        if (cell->key.slot == slot)
            add(sums, cell->key.holder, (int64_t)cell->value.ns, cell->value.count);
    }
}

void
vg_bpf_given_take(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
                  const vg_bpf_cells *cells, int64_t waited_ns,
                  void (*tell)(void *data, uint32_t holder, int64_t ns, uint64_t count), void *data)
{
    int64_t left_ns = waited_ns;

    sum_up(given->sums, reading, slot, cells);
    for (unsigned i = 0; i < given->sums->len; i++) {
        const struct loss *sum = &g_array_index(given->sums, struct loss, i);
        struct loss *told = find(given->told, sum->holder);
        int64_t ns = CLAMP(sum->ns - told->ns, 0, left_ns);
        uint64_t count = sum->count > told->count ? sum->count - told->count : 0;
        told->ns += ns;
        told->count += count;
        left_ns -= ns;
        if (ns > 0 || count > 0)
            tell(data, sum->holder, ns, count);
    }
    if (left_ns == 0)
        return;
    /* Of what found no room anywhere, nobody knows. */
    find(given->told, VG_BPF_HOLDER_UNKNOWN)->ns += left_ns;
    tell(data, VG_BPF_HOLDER_UNKNOWN, left_ns, 0);
}

void
vg_bpf_given_forgive(vg_bpf_given *given)
{
    g_array_set_size(given->told, 0);
    g_array_append_vals(given->told, given->sums->data, given->sums->len);
}
