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
    GArray *copies;     /* struct cell, by slot; processes': only since the last reading */
    GHashTable *spent;  /* slot -> struct vg_bpf_cell: the sum of processes' deleted cells */
};

struct loss {
    uint32_t holder;
    int64_t ns;
    uint64_t count;
    int64_t cell_ns; /* for processes: the part in cells that are deleted before the next reading */
    uint64_t cell_count;
};

struct vg_bpf_given {
    GArray *reported; /* struct loss, since the start */
    GArray *sums;     /* struct loss, of one reading */
    /* Losses to processes. The above arrays also contain these losses. */
    GArray *reported_processes; /* of the previous reading */
    GArray *processes;          /* of one reading */
};

/* ---- cells ---- */

vg_bpf_cells *
vg_bpf_cells_new(int map_fd)
{
    vg_bpf_cells *cells = g_new0(vg_bpf_cells, 1);

    cells->map_fd = map_fd;
    cells->copies = g_array_new(FALSE, FALSE, sizeof(struct cell));
    cells->spent = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return cells;
}

void
vg_bpf_cells_free(vg_bpf_cells *cells)
{
    if (!cells)
        return;
    g_array_unref(cells->copies);
    g_hash_table_unref(cells->spent);
    g_free(cells);
}

static void
add_spent(vg_bpf_cells *cells, const struct cell *cell)
{
    void *key = GUINT_TO_POINTER(cell->key.slot);
    struct vg_bpf_cell *spent = g_hash_table_lookup(cells->spent, key);

    if (!spent) {
        spent = g_new0(struct vg_bpf_cell, 1);
        g_hash_table_insert(cells->spent, key, spent);
    }
    spent->ns += cell->value.ns;
    spent->count += cell->value.count;
}

/* Deletes processes' cells in the kernel to free space for later ones. */
static void
take_processes(vg_bpf_cells *cells)
{
    for (unsigned i = 0; i < cells->copies->len; i++) {
        const struct cell *cell = &g_array_index(cells->copies, struct cell, i);
        if (!VG_BPF_IS_PROCESS(cell->key.holder))
            continue;
        bpf_map_delete_elem(cells->map_fd, &cell->key);
        add_spent(cells, cell);
    }
}

/* Drops processes' cells. The others keep their order. */
static void
drop_processes(vg_bpf_cells *cells)
{
    guint kept = 0;

    for (guint i = 0; i < cells->copies->len; i++) {
        const struct cell *cell = &g_array_index(cells->copies, struct cell, i);
        if (!VG_BPF_IS_PROCESS(cell->key.holder))
            g_array_index(cells->copies, struct cell, kept++) = *cell;
    }
    g_array_set_size(cells->copies, kept);
}

static int
compare_slots(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;

    return (x->key.slot > y->key.slot) - (x->key.slot < y->key.slot);
}

/* Finds the first copy of a slot, or its place if there is none. */
static guint
first_of(const vg_bpf_cells *cells, uint32_t slot)
{
    guint low = 0, high = cells->copies->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(cells->copies, struct cell, middle).key.slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the copy at an index if it is of this slot, or NULL. */
static const struct cell *
copy_at(const vg_bpf_cells *cells, guint i, uint32_t slot)
{
    const struct cell *cell =
        i < cells->copies->len ? &g_array_index(cells->copies, struct cell, i) : NULL;

    return cell && cell->key.slot == slot ? cell : NULL;
}

void
vg_bpf_cells_update(vg_bpf_cells *cells, uint64_t evictions)
{
    struct vg_bpf_cell_key key, *last = NULL;
    struct cell cell;

    if (evictions == cells->evictions) {
        drop_processes(cells);
        return;
    }
    cells->evictions = evictions;
    g_array_set_size(cells->copies, 0);
    while (bpf_map_get_next_key(cells->map_fd, last, &key) == 0) {
        cell.key = key;
        if (bpf_map_lookup_elem(cells->map_fd, &key, &cell.value) == 0)
            g_array_append_val(cells->copies, cell);
        last = &cell.key;
    }
    take_processes(cells);
    g_array_sort(cells->copies, compare_slots);
}

void
vg_bpf_cells_delete(vg_bpf_cells *cells, uint32_t slot)
{
    const struct cell *cell;
    guint first = first_of(cells, slot), n = 0;

    for (; (cell = copy_at(cells, first + n, slot)); n++)
        bpf_map_delete_elem(cells->map_fd, &cell->key);
    g_array_remove_range(cells->copies, first, n);
    g_hash_table_remove(cells->spent, GUINT_TO_POINTER(slot));
}

/* ---- losses of a thread ---- */

vg_bpf_given *
vg_bpf_given_new(void)
{
    vg_bpf_given *given = g_new0(vg_bpf_given, 1);

    given->reported = g_array_new(FALSE, FALSE, sizeof(struct loss));
    given->sums = g_array_new(FALSE, FALSE, sizeof(struct loss));
    given->reported_processes = g_array_new(FALSE, FALSE, sizeof(struct loss));
    given->processes = g_array_new(FALSE, FALSE, sizeof(struct loss));
    return given;
}

void
vg_bpf_given_free(vg_bpf_given *given)
{
    g_array_unref(given->reported);
    g_array_unref(given->sums);
    g_array_unref(given->reported_processes);
    g_array_unref(given->processes);
    g_free(given);
}

static struct loss *
bpf_losses_find(GArray *losses, uint32_t holder)
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
bpf_losses_add(GArray *losses, uint32_t holder, int64_t ns, uint64_t count)
{
    struct loss *loss = bpf_losses_find(losses, holder);

    loss->ns += ns;
    loss->count += count;
}

static void
add_cell(GArray *processes, const struct cell *cell)
{
    struct loss *loss = bpf_losses_find(processes, cell->key.holder);

    loss->ns += (int64_t)cell->value.ns;
    loss->count += cell->value.count;
    loss->cell_ns += (int64_t)cell->value.ns;
    loss->cell_count += cell->value.count;
}

/* Sums up everything that the thread ever lost, by holder. */
static void
sum_up(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
       const vg_bpf_cells *cells)
{
    GArray *sums = given->sums;
    const struct cell *cell;

    g_array_set_size(sums, 0);
    g_array_set_size(given->processes, 0);
    for (unsigned i = 0; i < reading->n_losses; i++) {
        const struct vg_bpf_loss *loss = &reading->losses[i];
        bool process = VG_BPF_IS_PROCESS(loss->holder);
        bpf_losses_add(sums, process ? VG_BPF_HOLDER_USER : loss->holder, loss->ns, loss->count);
        if (process)
            bpf_losses_add(given->processes, loss->holder, loss->ns, loss->count);
    }
    for (guint i = first_of(cells, slot); (cell = copy_at(cells, i, slot)); i++) {
        if (VG_BPF_IS_PROCESS(cell->key.holder))
            add_cell(given->processes, cell);
        else
            bpf_losses_add(sums, cell->key.holder, (int64_t)cell->value.ns, cell->value.count);
    }
    const struct vg_bpf_cell *spent = g_hash_table_lookup(cells->spent, GUINT_TO_POINTER(slot));
    if (spent)
        bpf_losses_add(sums, VG_BPF_HOLDER_USER, (int64_t)spent->ns, spent->count);
}

/* Distributes the loss that was reported for all processes among them. The next reading does not
 * contain what a process had in a cell. */
static void
report_processes(vg_bpf_given *given, int64_t left_ns, uint64_t left_count,
                 const struct vg_bpf_losses_sink *sink)
{
    for (unsigned i = 0; i < given->processes->len; i++) {
        struct loss *sum = &g_array_index(given->processes, struct loss, i);
        struct loss reported = *bpf_losses_find(given->reported_processes, sum->holder);
        int64_t ns = CLAMP(sum->ns - reported.ns, 0, left_ns);
        uint64_t count =
            sum->count > reported.count ? MIN(sum->count - reported.count, left_count) : 0;
        left_ns -= ns;
        left_count -= count;
        if (ns > 0 || count > 0)
            sink->tell_process(sink->data, (int32_t)(sum->holder & VG_BPF_PID_MASK), ns, count);
        /* Do not report losses again that were reported too early. */
        sum->ns = MAX(MAX(sum->ns, reported.ns) - sum->cell_ns, 0);
        sum->count -= sum->cell_count;
    }
    GArray *reported = given->reported_processes;
    given->reported_processes = given->processes;
    given->processes = reported;
}

void
vg_bpf_given_take(vg_bpf_given *given, const struct vg_bpf_reading *reading, uint32_t slot,
                  const vg_bpf_cells *cells, int64_t waited_ns,
                  const struct vg_bpf_losses_sink *sink)
{
    int64_t left_ns = waited_ns, user_ns = 0;
    uint64_t user_count = 0;

    sum_up(given, reading, slot, cells);
    for (unsigned i = 0; i < given->sums->len; i++) {
        const struct loss *sum = &g_array_index(given->sums, struct loss, i);
        struct loss *reported = bpf_losses_find(given->reported, sum->holder);
        int64_t ns = CLAMP(sum->ns - reported->ns, 0, left_ns);
        uint64_t count = sum->count > reported->count ? sum->count - reported->count : 0;
        reported->ns += ns;
        reported->count += count;
        left_ns -= ns;
        if (ns > 0 || count > 0)
            sink->tell(sink->data, sum->holder, ns, count);
        if (sum->holder == VG_BPF_HOLDER_USER) {
            user_ns = ns;
            user_count = count;
        }
    }
    report_processes(given, user_ns, user_count, sink);
    if (left_ns == 0)
        return;
    /* The holder of losses that found no space anywhere is unknown. */
    bpf_losses_find(given->reported, VG_BPF_HOLDER_UNKNOWN)->ns += left_ns;
    sink->tell(sink->data, VG_BPF_HOLDER_UNKNOWN, left_ns, 0);
}

void
vg_bpf_given_forgive(vg_bpf_given *given)
{
    g_array_set_size(given->reported, 0);
    g_array_append_vals(given->reported, given->sums->data, given->sums->len);
}
