/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/lost-series.h"

#include <string.h>

/* The last hour is the sum of these parts. */
#define PARTS   12
#define PART_NS (300 * INT64_C(1000000000))
#define HOUR_NS (PARTS * PART_NS)

/* The time between two elections of the top pairs. */
#define ELECT_NS (10 * INT64_C(1000000000))

struct lost_pair {
    float parts[PARTS]; /* ns, by part of the last hour */
    float sum;          /* of all parts, at the last election */
    bool counts;        /* the pair has a counter */
    int64_t ns;         /* value of the counter */
    int64_t left_ns;    /* when it left the top pairs; INT64_MAX: it is one of them */
};

struct lost_victim {
    char name[VG_VM_NAME_MAX];
    GHashTable *pairs; /* name -> struct lost_pair */
    guint n_counters;
    bool has_other;
    int64_t other_ns;
    uint64_t step; /* the last step with this VM */
};

struct vg_lost_series {
    guint top;
    uint64_t step;
    int64_t part;        /* number of the newest part of the hour */
    int64_t elected_ns;  /* end of the window of the last election */
    GHashTable *victims; /* id -> struct lost_victim */
};

static void
lost_series_unref_name(void *name)
{
    g_ref_string_release(name);
}

static void
lost_series_free_victim(void *data)
{
    struct lost_victim *victim = data;

    g_hash_table_unref(victim->pairs);
    g_free(victim);
}

vg_lost_series *
vg_lost_series_new(guint top)
{
    vg_lost_series *series = g_new0(vg_lost_series, 1);

    series->top = top;
    series->victims = g_hash_table_new_full(NULL, NULL, NULL, lost_series_free_victim);
    return series;
}

void
vg_lost_series_free(vg_lost_series *series)
{
    if (!series)
        return;
    g_hash_table_unref(series->victims);
    g_free(series);
}

static struct lost_victim *
lost_series_need_victim(vg_lost_series *series, const struct vg_vm_sample *vm)
{
    struct lost_victim *victim = g_hash_table_lookup(series->victims, GUINT_TO_POINTER(vm->id));

    /* A VM with a new name starts again, because its sums do, too. */
    if (!victim || strcmp(victim->name, vm->name) != 0) {
        victim = g_new0(struct lost_victim, 1);
        g_strlcpy(victim->name, vm->name, sizeof(victim->name));
        victim->pairs =
            g_hash_table_new_full(g_str_hash, g_str_equal, lost_series_unref_name, g_free);
        g_hash_table_replace(series->victims, GUINT_TO_POINTER(vm->id), victim);
    }
    victim->step = series->step;
    return victim;
}

static void
lost_series_begin(struct lost_victim *victim, struct lost_pair *pair)
{
    pair->counts = true;
    pair->ns = 0;
    pair->left_ns = INT64_MAX;
    victim->n_counters++;
}

static void
lost_series_add(const vg_lost_series *series, struct lost_victim *victim, GRefString *name,
                int64_t ns)
{
    struct lost_pair *pair = g_hash_table_lookup(victim->pairs, name);

    /* A VM with this name has no counter of its own. */
    if (strcmp(name, VG_LOST_SERIES_OTHER) == 0) {
        victim->has_other = true;
        victim->other_ns += ns;
        return;
    }
    if (!pair) {
        pair = g_new0(struct lost_pair, 1);
        g_hash_table_insert(victim->pairs, g_ref_string_acquire(name), pair);
        /* As long as there are few pairs, each one gets a counter immediately. */
        if (victim->n_counters < series->top)
            lost_series_begin(victim, pair);
    }
    pair->parts[series->part % PARTS] += (float)ns;
    *(pair->counts ? &pair->ns : &victim->other_ns) += ns;
    victim->has_other |= !pair->counts;
}

/* ---- elections ---- */

static int
lost_series_compare(const void *a, const void *b)
{
    const struct lost_pair *x = *(struct lost_pair *const *)a;
    const struct lost_pair *y = *(struct lost_pair *const *)b;

    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return y->counts - x->counts;
}

/* Sums up the last hour of each pair, and notes which pairs leave the top. Returns the top pairs,
 * borrowed. */
static GPtrArray *
lost_series_first(const vg_lost_series *series, struct lost_victim *victim, int64_t now_ns)
{
    GPtrArray *order = g_ptr_array_new();
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, victim->pairs);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct lost_pair *pair = value;
        pair->sum = 0;
        for (int i = 0; i < PARTS; i++)
            pair->sum += pair->parts[i];
        if (pair->left_ns == INT64_MAX)
            pair->left_ns = now_ns;
        if (pair->sum > 0)
            g_ptr_array_add(order, pair);
    }
    g_ptr_array_sort(order, lost_series_compare);
    g_ptr_array_set_size(order, (int)MIN(order->len, series->top));
    for (guint i = 0; i < order->len; i++)
        ((struct lost_pair *)order->pdata[i])->left_ns = INT64_MAX;
    return order;
}

/* Ends counters of pairs that have not been among the top pairs for an hour. Forgets pairs that
 * have no counter and took nothing for an hour. */
static void
lost_series_end(struct lost_victim *victim, int64_t now_ns)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, victim->pairs);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct lost_pair *pair = value;
        if (pair->counts && pair->left_ns != INT64_MAX && now_ns - pair->left_ns >= HOUR_NS) {
            pair->counts = false;
            victim->n_counters--;
        }
        if (!pair->counts && pair->sum <= 0)
            g_hash_table_iter_remove(&iter);
    }
}

static void
lost_series_elect(const vg_lost_series *series, struct lost_victim *victim, int64_t now_ns)
{
    g_autoptr(GPtrArray) first = lost_series_first(series, victim, now_ns);

    lost_series_end(victim, now_ns);
    for (guint i = 0; i < first->len && victim->n_counters < 2 * series->top; i++) {
        struct lost_pair *pair = first->pdata[i];
        if (!pair->counts)
            lost_series_begin(victim, pair);
    }
}

/* ---- windows ---- */

/* Starts the part of the hour in which a window ends. Its place contains data over an hour old. */
static void
lost_series_turn(vg_lost_series *series, int64_t end_ns)
{
    const int64_t part = end_ns / PART_NS, first = MAX(series->part + 1, part - PARTS + 1);
    GHashTableIter victims, pairs;
    void *victim, *pair;

    if (part <= series->part)
        return;
    g_hash_table_iter_init(&victims, series->victims);
    while (g_hash_table_iter_next(&victims, NULL, &victim)) {
        g_hash_table_iter_init(&pairs, ((struct lost_victim *)victim)->pairs);
        while (g_hash_table_iter_next(&pairs, NULL, &pair)) {
            for (int64_t i = first; i <= part; i++)
                ((struct lost_pair *)pair)->parts[i % PARTS] = 0;
        }
    }
    series->part = part;
}

/* Returns the names of a window's VMs by id. */
static GHashTable *
lost_series_names(const struct vg_window *window)
{
    GHashTable *names = g_hash_table_new_full(NULL, NULL, NULL, lost_series_unref_name);

    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        g_hash_table_replace(names, GUINT_TO_POINTER(vm->id), g_ref_string_new(vm->name));
    }
    return names;
}

/* Holds elections if it is time. They come before the window is counted: counters that end contain
 * all windows so far, and new ones contain none. */
static void
lost_series_elect_all(vg_lost_series *series, int64_t now_ns)
{
    GHashTableIter iter;
    void *victim;

    if (now_ns >= series->elected_ns && now_ns - series->elected_ns < ELECT_NS)
        return;
    series->elected_ns = now_ns;
    g_hash_table_iter_init(&iter, series->victims);
    while (g_hash_table_iter_next(&iter, NULL, &victim))
        lost_series_elect(series, victim, now_ns);
}

static gboolean
lost_series_is_gone(void *id, void *victim, void *series)
{
    (void)id;
    return ((const struct lost_victim *)victim)->step != ((const vg_lost_series *)series)->step;
}

void
vg_lost_series_step(vg_lost_series *series, const struct vg_window *window, bool keep)
{
    g_autoptr(GHashTable) names = lost_series_names(window);

    series->step++;
    lost_series_elect_all(series, window->end_ns);
    lost_series_turn(series, window->end_ns);
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct lost_victim *victim = lost_series_need_victim(series, vm);
        for (guint k = 0; k < vm->lost_to->len; k++) {
            const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, k);
            GRefString *name = g_hash_table_lookup(names, GUINT_TO_POINTER(lost->vm_id));
            if (lost->kind == VG_AGGRESSOR_VM && name)
                lost_series_add(series, victim, name, lost->ns);
        }
    }
    if (!keep)
        g_hash_table_foreach_remove(series->victims, lost_series_is_gone, series);
}

/* ---- reading ---- */

static void
lost_series_clear(void *data)
{
    struct vg_lost_serie *serie = data;

    if (serie->aggressor)
        g_ref_string_release(serie->aggressor);
}

static int
lost_series_compare_listed(const void *a, const void *b)
{
    const struct vg_lost_serie *x = a, *y = b;

    if (x->vm_id != y->vm_id)
        return x->vm_id < y->vm_id ? -1 : 1;
    /* Put "other" last. */
    if (!x->aggressor || !y->aggressor)
        return !x->aggressor - !y->aggressor;
    return strcmp(x->aggressor, y->aggressor);
}

GArray *
vg_lost_series_list(const vg_lost_series *series)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(struct vg_lost_serie));
    GHashTableIter victims, pairs;
    void *id, *value, *name, *data;

    g_array_set_clear_func(list, lost_series_clear);
    g_hash_table_iter_init(&victims, series->victims);
    while (g_hash_table_iter_next(&victims, &id, &value)) {
        const struct lost_victim *victim = value;
        g_hash_table_iter_init(&pairs, victim->pairs);
        while (g_hash_table_iter_next(&pairs, &name, &data)) {
            const struct lost_pair *pair = data;
            struct vg_lost_serie serie = {GPOINTER_TO_UINT(id), name, pair->ns};
            if (!pair->counts)
                continue;
            g_ref_string_acquire(name);
            g_array_append_val(list, serie);
        }
        struct vg_lost_serie other = {GPOINTER_TO_UINT(id), NULL, victim->other_ns};
        if (victim->has_other)
            g_array_append_val(list, other);
    }
    g_array_sort(list, lost_series_compare_listed);
    return list;
}

guint
vg_lost_series_find(const GArray *list, uint32_t vm_id)
{
    guint low = 0, high = list->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(list, struct vg_lost_serie, middle).vm_id < vm_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
