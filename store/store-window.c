/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-window.h"

#include <stddef.h>
#include <string.h>

/* The numbers of aggressors in packed windows: 0 for "rest", then the kinds except VM, then
 * slots. */
#define FIRST_SLOT (VG_AGGRESSOR_HOST_UNKNOWN + 1)
G_STATIC_ASSERT(VG_AGGRESSOR_VM == 0);

/* ---- samples and losses ---- */

void
vg_store_sample_add(struct vg_store_sample *sum, const struct vg_store_sample *more)
{
    sum->windows += more->windows;
    sum->flags |= more->flags;
    sum->gpu_active_ns += more->gpu_active_ns;
    vg_cpu_figures_add(&sum->cpu, &more->cpu);
}

void
vg_store_losses_add(GArray *losses, uint32_t aggressor, int64_t ns, uint64_t count)
{
    for (guint i = 0; i < losses->len; i++) {
        struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, i);
        if (loss->aggressor != aggressor)
            continue;
        loss->ns += ns;
        loss->count += count;
        return;
    }
    struct vg_store_loss loss = {.aggressor = aggressor, .ns = ns, .count = count};
    g_array_append_val(losses, loss);
}

/* The rest always comes last. */
static int
compare_losses(const void *a, const void *b)
{
    const struct vg_store_loss *x = a, *y = b;

    if ((x->aggressor == 0) != (y->aggressor == 0))
        return x->aggressor == 0 ? 1 : -1;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->aggressor > y->aggressor) - (x->aggressor < y->aggressor);
}

void
vg_store_losses_cut(GArray *losses, int64_t top)
{
    if (losses->len > 1)
        g_array_sort(losses, compare_losses);
    if (losses->len <= top)
        return;
    struct vg_store_loss rest = {0};
    for (guint i = (guint)top; i < losses->len; i++) {
        rest.ns += g_array_index(losses, struct vg_store_loss, i).ns;
        rest.count += g_array_index(losses, struct vg_store_loss, i).count;
    }
    g_array_set_size(losses, (guint)top);
    g_array_append_val(losses, rest);
}

/* ---- processes ---- */

char *
vg_store_took_key(const char *comm, const char *cgroup)
{
    const size_t length = strnlen(comm, VG_COMM_LEN - 1);

    return g_strdup_printf("%c%.*s%s", (int)(VG_STORE_TOOK_FIRST + length), (int)length, comm,
                           cgroup);
}

/* ---- casts ---- */

static const char *
key_of(const struct vg_vm_sample *vm)
{
    return vm->uuid[0] ? vm->uuid : vm->name;
}

static const struct vg_vm_sample *
sample_at(const struct vg_window *window, guint i)
{
    return &g_array_index(window->vms, struct vg_vm_sample, i);
}

static bool
cast_fits(const struct vg_store_cast *cast, const struct vg_window *window)
{
    if (cast->n_samples != window->vms->len)
        return false;
    for (guint i = 0; i < cast->n_samples; i++) {
        const struct vg_store_vm *vm = &cast->slots[cast->slot_of[i]];
        const struct vg_vm_sample *sample = sample_at(window, i);
        if (cast->ids[i] != sample->id || strcmp(vm->key, key_of(sample)) != 0 ||
            strcmp(vm->name, sample->name) != 0)
            return false;
    }
    return true;
}

static struct vg_store_cast *
cast_new(const struct vg_window *window)
{
    struct vg_store_cast *cast = g_new0(struct vg_store_cast, 1);
    g_autoptr(GHashTable) slots = g_hash_table_new(g_str_hash, g_str_equal);
    guint n = window->vms->len;

    atomic_init(&cast->refs, 1);
    cast->slots = g_new0(struct vg_store_vm, n);
    cast->slot_of = g_new0(guint, n);
    cast->ids = g_new0(uint32_t, n);
    cast->n_samples = n;
    for (guint i = 0; i < n; i++) {
        const struct vg_vm_sample *sample = sample_at(window, i);
        void *slot;
        if (!g_hash_table_lookup_extended(slots, key_of(sample), NULL, &slot)) {
            slot = GUINT_TO_POINTER(cast->n_slots);
            cast->slots[cast->n_slots].key = g_strdup(key_of(sample));
            cast->n_slots++;
            g_hash_table_insert(slots, (void *)key_of(sample), slot);
        }
        cast->slot_of[i] = GPOINTER_TO_UINT(slot);
        cast->ids[i] = sample->id;
        g_free(cast->slots[cast->slot_of[i]].name);
        cast->slots[cast->slot_of[i]].name = g_strdup(sample->name);
    }
    return cast;
}

struct vg_store_cast *
vg_store_cast_ref(struct vg_store_cast *cast)
{
    atomic_fetch_add(&cast->refs, 1);
    return cast;
}

void
vg_store_cast_unref(struct vg_store_cast *cast)
{
    if (!cast || atomic_fetch_sub(&cast->refs, 1) != 1)
        return;
    for (guint i = 0; i < cast->n_slots; i++) {
        g_free(cast->slots[i].key);
        g_free(cast->slots[i].name);
    }
    g_free(cast->slots);
    g_free(cast->slot_of);
    g_free(cast->ids);
    g_free(cast);
}

/* ---- packing: base-128 numbers, most of them small ---- */

static void
put_number(GByteArray *bytes, uint64_t number)
{
    uint8_t buf[10];
    guint n = 0;

    for (; number >= 0x80; number >>= 7)
        buf[n++] = (uint8_t)(number | 0x80);
    buf[n++] = (uint8_t)number;
    g_byte_array_append(bytes, buf, n);
}

static uint64_t
get_number(struct vg_store_cursor *cursor)
{
    uint64_t number = 0;

    for (unsigned int shift = 0;; shift += 7) {
        uint8_t byte = *cursor->at++;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return number;
    }
}

/* Both structures consist of 8-byte integers only. */
#define SAMPLE_NUMBERS (sizeof(struct vg_store_sample) / sizeof(uint64_t))

static void
pack(GByteArray *bytes, const struct vg_store_sample *sample, const GArray *losses)
{
    uint64_t numbers[SAMPLE_NUMBERS];

    memcpy(numbers, sample, sizeof(numbers));
    for (guint i = 0; i < SAMPLE_NUMBERS; i++)
        put_number(bytes, numbers[i]);
    put_number(bytes, losses->len);
    for (guint i = 0; i < losses->len; i++) {
        const struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, i);
        put_number(bytes, loss->aggressor);
        put_number(bytes, (uint64_t)loss->ns);
        put_number(bytes, loss->count);
    }
}

void
vg_store_window_next(struct vg_store_cursor *cursor, struct vg_store_sample *ret, GArray *losses)
{
    uint64_t numbers[SAMPLE_NUMBERS];

    for (guint i = 0; i < SAMPLE_NUMBERS; i++)
        numbers[i] = get_number(cursor);
    memcpy(ret, numbers, sizeof(numbers));
    g_array_set_size(losses, (guint)get_number(cursor));
    for (guint i = 0; i < losses->len; i++) {
        struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, i);
        loss->aggressor = (uint32_t)get_number(cursor);
        loss->ns = (int64_t)get_number(cursor);
        loss->count = get_number(cursor);
    }
}

/* ---- windows ---- */

/* Returns the number of the aggressor in an entry of the window. */
static uint32_t
aggressor_of(const struct vg_store_cast *cast, const struct vg_lost_to *lost)
{
    if (lost->kind != VG_AGGRESSOR_VM)
        return (uint32_t)lost->kind;
    for (guint i = 0; i < cast->n_samples; i++) {
        if (cast->ids[i] == lost->vm_id)
            return FIRST_SLOT + cast->slot_of[i];
    }
    return VG_AGGRESSOR_HOST_UNKNOWN;
}

/* Collects the sample and losses of a slot, summed up over its processes. */
static void
store_window_collect(const struct vg_window *window, const struct vg_store_cast *cast, guint slot,
                     guint from, struct vg_store_sample *ret, GArray *losses)
{
    *ret = (struct vg_store_sample){0};
    g_array_set_size(losses, 0);
    for (guint i = from; i < cast->n_samples; i++) {
        if (cast->slot_of[i] != slot)
            continue;
        const struct vg_vm_sample *vm = sample_at(window, i);
        struct vg_store_sample sample = {
            .flags = (vm->guest_known ? VG_SAMPLE_GUEST_KNOWN : 0) |
                     (vm->gpu_known ? VG_SAMPLE_GPU_KNOWN : 0) |
                     (int64_t)vm->lacks << VG_SAMPLE_LACKS_SHIFT,
            .gpu_active_ns = vm->gpu_active_ns,
            .cpu = vm->cpu,
        };
        vg_store_sample_add(ret, &sample);
        for (guint j = 0; j < vm->lost_to->len; j++) {
            const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, j);
            vg_store_losses_add(losses, aggressor_of(cast, lost), lost->ns, lost->count);
        }
        if (cast->n_slots == cast->n_samples)
            break; /* no other process shares a slot */
    }
    ret->windows = 1;
}

static void
store_window_clear_took(void *data)
{
    g_free(((struct vg_store_took *)data)->key);
}

static void
store_window_add_took(GArray *all, guint slot, const GArray *processes, guint top)
{
    for (guint i = 0; i < MIN(processes->len, top); i++) {
        const struct vg_lost_process *process =
            &g_array_index(processes, struct vg_lost_process, i);
        /* A process without a name ended before its name could be read. */
        if (!process->comm[0])
            continue;
        struct vg_store_took took = {slot, vg_store_took_key(process->comm, process->cgroup),
                                     process->ns, process->count};
        g_array_append_val(all, took);
    }
}

/* Lists the processes behind host:user, sorted by time in descending order for each process of a
 * VM, and the host's programs by CPU time, if they were read in this window. */
static GArray *
store_window_took(const struct vg_window *window, const struct vg_store_cast *cast)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct vg_store_took));

    g_array_set_clear_func(all, store_window_clear_took);
    for (guint i = 0; i < cast->n_samples; i++)
        store_window_add_took(all, cast->slot_of[i], sample_at(window, i)->lost_processes,
                              VG_STORE_TOOK_WINDOW);
    if (window->programs_ns > 0)
        store_window_add_took(all, VG_STORE_TOOK_PROGRAM, window->programs, VG_WINDOW_PROGRAMS_MAX);
    return all;
}

struct vg_store_window *
vg_store_window_new(const struct vg_provenance *provenance, const struct vg_window *window,
                    int64_t begin_ns, int64_t end_ns, struct vg_store_cast *cast)
{
    GByteArray *bytes = g_byte_array_new();
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    struct vg_store_sample sample;

    cast = cast && cast_fits(cast, window) ? vg_store_cast_ref(cast) : cast_new(window);
    guint slot = 0;
    for (guint i = 0; i < cast->n_samples; i++) {
        if (cast->slot_of[i] != slot)
            continue; /* a later process of a slot */
        store_window_collect(window, cast, slot, i, &sample, losses);
        pack(bytes, &sample, losses);
        slot++;
    }
    struct vg_store_window *new = g_malloc0(sizeof(*new) + bytes->len);
    atomic_init(&new->refs, 1);
    new->source = g_strdup(provenance->series);
    new->begin_ns = begin_ns;
    new->end_ns = end_ns;
    new->lost_events = window->lost_events;
    vg_store_host_init(&new->host);
    vg_store_host_add_window(&new->host, window, provenance);
    new->took = store_window_took(window, cast);
    new->cast = cast;
    new->size = bytes->len;
    if (bytes->len > 0)
        memcpy(new->packed, bytes->data, bytes->len);
    g_byte_array_unref(bytes);
    return new;
}

struct vg_store_window *
vg_store_window_ref(struct vg_store_window *window)
{
    atomic_fetch_add(&window->refs, 1);
    return window;
}

void
vg_store_window_unref(void *data)
{
    struct vg_store_window *window = data;

    if (atomic_fetch_sub(&window->refs, 1) != 1)
        return;
    vg_store_cast_unref(window->cast);
    vg_store_host_clear(&window->host);
    g_array_unref(window->took);
    g_free(window->source);
    g_free(window);
}

const char *
vg_store_window_aggressor(const struct vg_store_window *window, uint32_t aggressor)
{
    if (aggressor == 0)
        return VG_STORE_REST;
    if (aggressor < FIRST_SLOT)
        return vg_aggressor_name((enum vg_aggressor_kind)aggressor);
    return window->cast->slots[aggressor - FIRST_SLOT].name;
}

int
vg_store_slot_of(const struct vg_store_window *window, const char *vm)
{
    for (guint i = 0; i < window->cast->n_slots; i++) {
        if (strcmp(window->cast->slots[i].key, vm) == 0)
            return (int)i;
    }
    return -1;
}
