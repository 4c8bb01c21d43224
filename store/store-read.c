/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-read.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store-collect.h"
#include "store/store-took.h"

/* ---- the source ---- */

struct choice {
    GHashTable *names; /* names of sources, used as a set */
    char *newest;      /* the source of the VM's newest window */
    int64_t newest_ns;
};

static int
list_sources(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    struct choice *choice = data;
    sqlite3_stmt *list = vg_store_file_query(file, VG_SQL_SOURCES, err, "");
    int status = list ? 1 : -1;

    (void)r;
    while (status > 0) {
        status = vg_store_file_step(file, list, err);
        if (status <= 0)
            break;
        const char *name = vg_store_file_text(file, list, 1, err);
        if (!name)
            return -1;
        g_hash_table_add(choice->names, g_strdup(name));
    }
    return status;
}

static void
consider(struct choice *choice, const char *source, int64_t end_ns)
{
    if (choice->newest && end_ns <= choice->newest_ns)
        return;
    g_free(choice->newest);
    choice->newest = g_strdup(source);
    choice->newest_ns = end_ns;
}

/* Reads the end of a source's newest window in a file, for the query's VM or any VM. */
static int
newest_of(struct vg_store_reading *r, struct vg_store_file *file, int64_t source, int64_t vm,
          int64_t *ret_ns, GError **err)
{
    if (r->steps || !r->query->vm)
        return vg_store_file_get(file, VG_SQL_WIN_NEWEST_IN, ret_ns, err, "iii", source,
                                 r->whole.from_ns, r->whole.to_ns);
    return vg_store_file_get(file, VG_SQL_WIN_NEWEST_OF_VM, ret_ns, err, "iiii", source,
                             r->whole.from_ns, r->whole.to_ns, vm);
}

static int
find_newest(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    struct choice *choice = data;
    int64_t vm = choice->newest ? 0
                 : r->query->vm ? vg_store_file_find(file, VG_NAMES_VM, r->query->vm, err)
                                : 1;
    sqlite3_stmt *list = vm > 0 ? vg_store_file_query(file, VG_SQL_SOURCES, err, "") : NULL;
    struct choice here = {0};
    int status = list ? 1 : vm == 0 ? 0 : -1;

    while (status > 0) {
        int64_t end_ns;
        status = vg_store_file_step(file, list, err);
        if (status <= 0)
            break;
        int found = newest_of(r, file, sqlite3_column_int64(list, 0), vm, &end_ns, err);
        const char *name = found > 0 ? vg_store_file_text(file, list, 1, err) : NULL;
        if (name)
            consider(&here, name, end_ns);
        else if (found != 0)
            status = -1;
    }
    /* Files are read newest first, so older files cannot have a newer window. */
    if (here.newest)
        consider(choice, here.newest, here.newest_ns);
    g_free(here.newest);
    return status;
}

static char *
choose_source(struct vg_store_reading *r, const GPtrArray *windows)
{
    struct choice choice = {.names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL)};
    GHashTableIter iter;
    void *name = NULL;

    for (int kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS; kind++)
        vg_store_each_file(r, kind, &r->whole, true, list_sources, &choice);
    for (guint i = 0; i < windows->len; i++) {
        const struct vg_store_window *window = windows->pdata[i];
        g_hash_table_add(choice.names, g_strdup(window->source));
    }
    if (g_hash_table_size(choice.names) < 2) {
        g_hash_table_iter_init(&iter, choice.names);
        if (g_hash_table_iter_next(&iter, &name, NULL))
            choice.newest = g_strdup(name);
        g_hash_table_unref(choice.names);
        return choice.newest;
    }
    for (int kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS && !choice.newest; kind++)
        vg_store_each_file(r, kind, &r->whole, true, find_newest, &choice);
    for (guint i = 0; i < windows->len; i++) {
        const struct vg_store_window *window = windows->pdata[i];
        if (window->end_ns > r->whole.from_ns && window->end_ns <= r->whole.to_ns &&
            (!r->query->vm || vg_store_slot_of(window, r->query->vm) >= 0))
            consider(&choice, window->source, window->end_ns);
    }
    g_hash_table_unref(choice.names);
    return choice.newest;
}

/* ---- the answer ---- */

static int
store_read_find_vm(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    int64_t id = r->known ? 0 : vg_store_file_find(file, VG_NAMES_VM, r->query->vm, err);

    (void)data;
    r->known = r->known || id > 0;
    return id < 0 ? -1 : 0;
}

/* Returns whether the store has, or ever had, windows of the VM. */
static bool
store_read_is_known(struct vg_store_reading *r, const GPtrArray *windows)
{
    const struct vg_store_range ever = {INT64_MIN, INT64_MAX};

    for (guint i = 0; i < windows->len && !r->known; i++)
        r->known = vg_store_slot_of(windows->pdata[i], r->query->vm) >= 0;
    for (int kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS && !r->known; kind++)
        vg_store_each_file(r, kind, &ever, true, store_read_find_vm, NULL);
    return r->known;
}

static int
store_read_compare_rows(const void *a, const void *b)
{
    const struct vg_history_row *x = a, *y = b;

    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int
compare_losses(const void *a, const void *b)
{
    const struct vg_history_loss *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return strcmp(x->aggressor, y->aggressor);
}

/* Returns the requested buckets that contain the VM. Takes their lost_to. */
static GArray *
take_rows(struct vg_store_reading *r)
{
    GArray *rows = vg_history_rows_new();

    for (guint i = 0; i < r->buckets->len; i++) {
        struct vg_store_bucket *bucket = &g_array_index(r->buckets, struct vg_store_bucket, i);
        if (!bucket->present)
            continue;
        if (bucket->row.end_ns <= r->query->since_ns || bucket->row.end_ns > r->query->until_ns)
            continue;
        g_array_sort(bucket->row.lost_to, compare_losses);
        g_array_append_val(rows, bucket->row);
        bucket->row.lost_to = NULL;
    }
    g_array_sort(rows, store_read_compare_rows);
    return rows;
}

static int
store_read_compare_measured(const void *a, const void *b)
{
    const struct vg_history_measured *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return strcmp(x->by, y->by);
}

static int
store_read_compare_steps(const void *a, const void *b)
{
    const struct vg_history_step *x = a, *y = b;

    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Returns the buckets as steps of the host. Takes their measured. Steps are complete, even those
 * partly outside the period. */
static GArray *
store_read_take_steps(struct vg_store_reading *r)
{
    GArray *steps = vg_history_steps_new();

    for (guint i = 0; i < r->buckets->len; i++) {
        struct vg_store_bucket *bucket = &g_array_index(r->buckets, struct vg_store_bucket, i);
        struct vg_history_step step = bucket->step;
        step.begin_ns = bucket->row.begin_ns;
        step.end_ns = bucket->row.end_ns;
        step.lost_events = bucket->row.lost_events;
        g_array_sort(step.measured, store_read_compare_measured);
        step.programs = vg_store_took_list(&r->names, bucket->programs, VG_HISTORY_PROGRAMS_MAX);
        g_array_append_val(steps, step);
        bucket->step.measured = NULL;
    }
    g_array_sort(steps, store_read_compare_steps);
    return steps;
}

static int
check_query(const struct vg_history_query *query, bool steps, GError **err)
{
    if (!steps && (!query->vm || !*query->vm))
        return vg_error(err, VG_E_INVALID, "the query names no VM");
    if ((steps || query->step_ns != 0) &&
        (query->step_ns < VG_NS_PER_S || query->step_ns > VG_HISTORY_STEP_MAX_NS))
        return vg_error(err, VG_E_INVALID,
                        "a step must be 1 s to 366 days, or 0 for unmerged windows");
    return 0;
}

/* Makes the answer without the files known to be damaged. */
static GArray *
store_read_once(struct vg_store_reading *r, const GPtrArray *windows, GError **err)
{
    const struct vg_history_query *query = r->query;
    g_autofree char *chosen = query->source ? NULL : choose_source(r, windows);
    GArray *rows = NULL;

    r->source = query->source ? query->source : chosen;
    if (r->source && !vg_store_collect(r, windows))
        vg_error(
            err, VG_E_INVALID,
            "the result would have more than %d rows; request a larger step or a shorter period",
            VG_HISTORY_ROWS_MAX);
    else
        rows = r->steps ? store_read_take_steps(r) : take_rows(r);
    if (!r->steps && rows && rows->len == 0 && !store_read_is_known(r, windows)) {
        g_clear_pointer(&rows, g_array_unref);
        vg_error(err, VG_E_NOT_FOUND, "nothing is stored about VM '%s'", query->vm);
    }
    r->source = NULL;
    return rows;
}

static GArray *
store_read_array(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                 const struct vg_history_query *query, bool steps, GError **ret_failed,
                 GError **err)
{
    g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) spoilt = g_array_new(FALSE, FALSE, sizeof(struct vg_store_spoilt));
    GError *failed = NULL;
    GArray *rows = NULL;
    bool again = true;

    if (check_query(query, steps, err) != 0)
        return NULL;
    /* If damage is detected in the middle of a file, a part of the file was already added. */
    while (again) {
        g_autoptr(GError) bad = NULL;
        struct vg_store_reading r;
        guint known = spoilt->len;
        g_clear_pointer(&rows, g_array_unref);
        vg_store_reading_init(&r, directory, pool, query, left_out, spoilt);
        r.steps = steps;
        rows = store_read_once(&r, windows, &bad);
        vg_store_reading_clear(&r);
        again = spoilt->len > known && !g_error_matches(r.failed, VG_ERROR, VG_E_TIMEOUT);
        if (!failed || g_error_matches(r.failed, VG_ERROR, VG_E_TIMEOUT)) {
            g_clear_error(&failed);
            failed = g_steal_pointer(&r.failed);
        }
        g_clear_error(&r.failed);
        if (!again && bad)
            g_propagate_error(err, g_steal_pointer(&bad));
    }
    for (guint i = 0; query->left_out && i < left_out->len; i++)
        g_ptr_array_add(query->left_out, g_strdup(left_out->pdata[i]));
    *ret_failed = failed;
    return rows;
}

GArray *
vg_store_read_rows(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                   const struct vg_history_query *query, GError **ret_failed, GError **err)
{
    return store_read_array(directory, pool, windows, query, false, ret_failed, err);
}

GArray *
vg_store_read_steps_of(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                       const struct vg_history_query *query, GError **ret_failed, GError **err)
{
    return store_read_array(directory, pool, windows, query, true, ret_failed, err);
}

/* ---- a host ---- */

static struct vg_history_vm *
make_vm(const struct vg_store_total *total, const struct vg_store_total_vm *of,
        GRefString *const *names)
{
    struct vg_history_vm *vm = g_new0(struct vg_history_vm, 1);
    const struct vg_store_sample *sample = &of->sample;

    vm->key = g_strdup(of->key);
    vm->name = g_strdup(of->name);
    vm->row = (struct vg_history_row){
        .begin_ns = total->win.begin_ns,
        .end_ns = total->win.end_ns,
        .windows = sample->windows,
        .cpu = sample->cpu,
        .guest_known = sample->flags & VG_SAMPLE_GUEST_KNOWN,
        .gpu_known = sample->flags & VG_SAMPLE_GPU_KNOWN,
        .lacks = (unsigned int)(sample->flags >> VG_SAMPLE_LACKS_SHIFT),
        .gpu_active_ns = sample->gpu_active_ns,
        .lost_events = (uint64_t)total->win.lost_events,
        .lost_to = vg_history_losses_new(),
    };
    for (guint i = 0; i < of->losses->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(of->losses, struct vg_store_loss, i);
        struct vg_history_loss to = {g_ref_string_acquire(names[loss->aggressor]), loss->ns,
                                     loss->count};
        g_array_append_val(vm->row.lost_to, to);
    }
    g_array_sort(vm->row.lost_to, compare_losses);
    vm->processes = vg_store_took_list(total, of->processes, VG_HISTORY_PROCESSES_MAX);
    return vm;
}

static vg_history_host *
make_host(const char *source, const struct vg_store_total *total)
{
    vg_history_host *host = vg_history_host_new();
    g_autoptr(GPtrArray) names =
        g_ptr_array_new_with_free_func((GDestroyNotify)g_ref_string_release);

    for (guint i = 0; i < total->names->len; i++)
        g_ptr_array_add(names, g_ref_string_new(total->names->pdata[i]));
    g_array_unref(host->processes);
    host->processes = vg_store_took_list(total, total->processes, VG_HISTORY_PROCESSES_MAX);
    g_array_unref(host->programs);
    host->programs = vg_store_took_list(total, total->programs, VG_HISTORY_PROCESSES_MAX);
    host->source = g_strdup(source);
    host->begin_ns = total->win.begin_ns;
    host->end_ns = total->win.end_ns;
    host->windows = total->win.windows;
    host->length_ns = total->length_ns;
    host->lost_events = (uint64_t)total->win.lost_events;
    for (guint i = 0; i < total->vms->len; i++)
        g_ptr_array_add(host->vms,
                        make_vm(total, total->vms->pdata[i], (GRefString *const *)names->pdata));
    return host;
}

vg_history_host *
vg_store_read_total(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                    const struct vg_history_query *query, GError **ret_failed)
{
    g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) spoilt = g_array_new(FALSE, FALSE, sizeof(struct vg_store_spoilt));
    vg_history_host *host = NULL;
    GError *failed = NULL;
    bool again = true;

    while (again) {
        struct vg_store_total total;
        struct vg_store_reading r;
        guint known = spoilt->len;
        vg_store_total_init(&total);
        vg_store_reading_init(&r, directory, pool, query, left_out, spoilt);
        r.total = &total;
        g_autofree char *chosen = query->source ? NULL : choose_source(&r, windows);
        r.source = query->source ? query->source : chosen;
        if (r.source)
            vg_store_collect(&r, windows);
        again = spoilt->len > known && !g_error_matches(r.failed, VG_ERROR, VG_E_TIMEOUT);
        if (!again)
            host = make_host(r.source, &total);
        if (!failed || g_error_matches(r.failed, VG_ERROR, VG_E_TIMEOUT)) {
            g_clear_error(&failed);
            failed = g_steal_pointer(&r.failed);
        }
        g_clear_error(&r.failed);
        vg_store_reading_clear(&r);
        vg_store_total_clear(&total);
    }
    for (guint i = 0; query->left_out && i < left_out->len; i++)
        g_ptr_array_add(query->left_out, g_strdup(left_out->pdata[i]));
    *ret_failed = failed;
    return host;
}

/* ---- names ---- */

static int
find_name(struct vg_store_reading *r, struct vg_store_file *file, void *data, GError **err)
{
    char **key = data;

    if (*key)
        return 0;
    sqlite3_stmt *find = vg_store_file_query(file, VG_SQL_VM_OF_NAME, err, "s", r->query->vm);
    int status = find ? vg_store_file_step(file, find, err) : -1;
    if (status > 0) {
        *key = g_strdup(vg_store_file_text(file, find, 0, err));
        sqlite3_reset(find);
        status = *key ? 1 : -1;
    }
    return status < 0 ? -1 : 0;
}

static const char *
key_in_window(const struct vg_store_window *window, const char *name)
{
    for (guint i = 0; i < window->cast->n_slots; i++) {
        if (strcmp(window->cast->slots[i].name, name) == 0)
            return window->cast->slots[i].key;
    }
    return NULL;
}

char *
vg_store_read_key(const char *directory, vg_store_pool *pool, const GPtrArray *windows,
                  const char *name, GError **ret_failed)
{
    const struct vg_store_range ever = {INT64_MIN, INT64_MAX};
    const struct vg_history_query query = {.vm = name};
    g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) spoilt = g_array_new(FALSE, FALSE, sizeof(struct vg_store_spoilt));
    struct vg_store_reading r;
    char *key = NULL;

    for (guint i = windows->len; i > 0 && !key; i--)
        key = g_strdup(key_in_window(windows->pdata[i - 1], name));
    vg_store_reading_init(&r, directory, pool, &query, left_out, spoilt);
    for (int kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS && !key; kind++)
        vg_store_each_file(&r, kind, &ever, true, find_name, &key);
    vg_store_reading_clear(&r);
    *ret_failed = r.failed;
    return key;
}
