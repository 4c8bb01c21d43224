/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-total.h"

#include <string.h>

static void
total_vm_free(void *data)
{
    struct vg_store_total_vm *vm = data;

    g_array_unref(vm->losses);
    g_array_unref(vm->processes);
    g_free(vm->key);
    g_free(vm->name);
    g_free(vm);
}

uint32_t
vg_store_total_number(struct vg_store_total *total, const char *name)
{
    void *number;

    if (g_hash_table_lookup_extended(total->numbers, name, NULL, &number))
        return GPOINTER_TO_UINT(number);
    char *copy = g_strdup(name);
    g_hash_table_insert(total->numbers, copy, GUINT_TO_POINTER(total->names->len));
    g_ptr_array_add(total->names, copy);
    return total->names->len - 1;
}

void
vg_store_total_init(struct vg_store_total *total)
{
    *total = (struct vg_store_total){
        .vms = g_ptr_array_new_with_free_func(total_vm_free),
        .by_key = g_hash_table_new(g_str_hash, g_str_equal),
        .names = g_ptr_array_new_with_free_func(g_free),
        .numbers = g_hash_table_new(g_str_hash, g_str_equal),
        .processes = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss)),
        .programs = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss)),
    };
    vg_store_host_init(&total->host);
    (void)vg_store_total_number(total, VG_STORE_REST);
}

void
vg_store_total_clear(struct vg_store_total *total)
{
    vg_store_host_clear(&total->host);
    g_hash_table_unref(total->by_key);
    g_ptr_array_unref(total->vms);
    g_hash_table_unref(total->numbers);
    g_ptr_array_unref(total->names);
    g_array_unref(total->processes);
    g_array_unref(total->programs);
}

struct vg_store_total_vm *
vg_store_total_need_vm(struct vg_store_total *total, const char *key, const char *name,
                       int64_t at_ns)
{
    struct vg_store_total_vm *vm = g_hash_table_lookup(total->by_key, key);

    if (!vm) {
        vm = g_new0(struct vg_store_total_vm, 1);
        vm->named_ns = INT64_MIN;
        vm->key = g_strdup(key);
        vm->losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
        vm->processes = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
        g_ptr_array_add(total->vms, vm);
        g_hash_table_insert(total->by_key, vm->key, vm);
    }
    if (!vm->name || (at_ns >= vm->named_ns && strcmp(vm->name, name) != 0)) {
        g_free(vm->name);
        vm->name = g_strdup(name);
    }
    vm->named_ns = MAX(vm->named_ns, at_ns);
    return vm;
}

void
vg_store_total_add_period(struct vg_store_total *total, const struct vg_store_win *win)
{
    struct vg_store_win *sum = &total->win;

    sum->begin_ns = sum->windows == 0 ? win->begin_ns : MIN(sum->begin_ns, win->begin_ns);
    sum->end_ns = sum->windows == 0 ? win->end_ns : MAX(sum->end_ns, win->end_ns);
    sum->windows += win->windows;
    sum->lost_events += win->lost_events;
    total->length_ns += win->end_ns - win->begin_ns;
}

void
vg_store_total_add_window(struct vg_store_total *total, const struct vg_store_window *window)
{
    const struct vg_store_win win = {
        .begin_ns = window->begin_ns,
        .end_ns = window->end_ns,
        .windows = 1,
        .lost_events = (int64_t)window->lost_events,
    };
    struct vg_store_cursor cursor = {window->packed};
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct vg_store_loss));
    struct vg_store_sample sample;

    vg_store_total_add_period(total, &win);
    vg_store_host_add(&total->host, &window->host);
    for (guint i = 0; i < window->cast->n_slots; i++) {
        const struct vg_store_vm *slot = &window->cast->slots[i];
        struct vg_store_total_vm *vm =
            vg_store_total_need_vm(total, slot->key, slot->name, window->end_ns);
        vg_store_window_next(&cursor, &sample, losses);
        vg_store_sample_add(&vm->sample, &sample);
        for (guint k = 0; k < losses->len; k++) {
            const struct vg_store_loss *loss = &g_array_index(losses, struct vg_store_loss, k);
            const char *name = vg_store_window_aggressor(window, loss->aggressor);
            vg_store_losses_add(vm->losses, vg_store_total_number(total, name), loss->ns,
                                loss->count);
        }
    }
}
