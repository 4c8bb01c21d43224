/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/history.h"

#include <string.h>

#include "model/event.h"

const char *const vg_stored_names[] = {
    [VG_STORED_WINDOWS] = "windows",
    [VG_STORED_MINUTES] = "minutes",
    [VG_STORED_HOURS] = "hours",
};

const char *const vg_store_state_names[] = {
    [VG_STORE_OPENING] = "opening",
    [VG_STORE_OK] = "ok",
    [VG_STORE_FAILING] = "failing",
    [VG_STORE_STATE_MAX] = NULL,
};

static void
clear_row(void *data)
{
    struct vg_history_row *row = data;

    g_clear_pointer(&row->lost_to, g_array_unref);
}

static void
clear_loss(void *data)
{
    struct vg_history_loss *loss = data;

    g_ref_string_release(loss->aggressor);
}

GArray *
vg_history_losses_new(void)
{
    GArray *losses = g_array_new(FALSE, FALSE, sizeof(struct vg_history_loss));

    g_array_set_clear_func(losses, clear_loss);
    return losses;
}

void
vg_history_add_loss(GArray *losses, GRefString *aggressor, int64_t ns, uint64_t count)
{
    for (guint i = 0; i < losses->len; i++) {
        struct vg_history_loss *loss = &g_array_index(losses, struct vg_history_loss, i);
        if (loss->aggressor != aggressor && strcmp(loss->aggressor, aggressor) != 0)
            continue;
        loss->ns += ns;
        loss->count += count;
        return;
    }
    struct vg_history_loss loss = {g_ref_string_acquire(aggressor), ns, count};
    g_array_append_val(losses, loss);
}

GArray *
vg_history_rows_new(void)
{
    GArray *rows = g_array_new(FALSE, TRUE, sizeof(struct vg_history_row));

    g_array_set_clear_func(rows, clear_row);
    return rows;
}

void
vg_host_figures_add(struct vg_host_figures *sum, const struct vg_host_figures *more)
{
    int64_t *to = (int64_t *)sum;
    const int64_t *from = (const int64_t *)more;

    /* All members are 8-byte integers. */
    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
        to[i] = vg_time_sum(to[i], from[i]);
}

static void
history_clear_measured(void *data)
{
    struct vg_history_measured *measured = data;

    g_free(measured->by);
}

GArray *
vg_history_measured_new(void)
{
    GArray *measured = g_array_new(FALSE, FALSE, sizeof(struct vg_history_measured));

    g_array_set_clear_func(measured, history_clear_measured);
    return measured;
}

void
vg_history_add_measured(GArray *measured, const char *by, int64_t ns, int64_t who_ns)
{
    for (guint i = 0; i < measured->len; i++) {
        struct vg_history_measured *known = &g_array_index(measured, struct vg_history_measured, i);
        if (strcmp(known->by, by) != 0)
            continue;
        known->ns = vg_time_sum(known->ns, ns);
        known->who_ns = vg_time_sum(known->who_ns, who_ns);
        return;
    }
    struct vg_history_measured fresh = {g_strdup(by), ns, who_ns};
    g_array_append_val(measured, fresh);
}

static void
history_clear_step(void *data)
{
    struct vg_history_step *step = data;

    g_clear_pointer(&step->measured, g_array_unref);
    g_clear_pointer(&step->programs, g_array_unref);
}

GArray *
vg_history_steps_new(void)
{
    GArray *steps = g_array_new(FALSE, TRUE, sizeof(struct vg_history_step));

    g_array_set_clear_func(steps, history_clear_step);
    return steps;
}

static void
free_vm(void *data)
{
    struct vg_history_vm *vm = data;

    g_free(vm->key);
    g_free(vm->name);
    g_clear_pointer(&vm->processes, g_array_unref);
    clear_row(&vm->row);
    g_free(vm);
}

vg_history_host *
vg_history_host_new(void)
{
    vg_history_host *host = g_new0(vg_history_host, 1);

    host->vms = g_ptr_array_new_with_free_func(free_vm);
    host->processes = g_array_new(FALSE, FALSE, sizeof(struct vg_history_process));
    host->programs = g_array_new(FALSE, FALSE, sizeof(struct vg_history_process));
    return host;
}

void
vg_history_host_free(vg_history_host *host)
{
    if (!host)
        return;
    g_ptr_array_unref(host->vms);
    g_array_unref(host->processes);
    g_array_unref(host->programs);
    g_free(host->source);
    g_free(host);
}

struct vg_saved_plan *
vg_saved_plan_copy(const struct vg_saved_plan *plan, bool with_text)
{
    struct vg_saved_plan *copy = g_new0(struct vg_saved_plan, 1);

    copy->id = g_strdup(plan->id);
    copy->made_ns = plan->made_ns;
    copy->verdict = g_strdup(plan->verdict);
    copy->text = with_text ? g_strdup(plan->text) : NULL;
    return copy;
}

void
vg_saved_plan_free(void *data)
{
    struct vg_saved_plan *plan = data;

    if (!plan)
        return;
    g_free(plan->id);
    g_free(plan->verdict);
    g_free(plan->text);
    g_free(plan);
}
