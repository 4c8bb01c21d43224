/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/tools/fake-backend.h"

#include "tests/tools/fake-private.h"

void
fake_work(const fake_backend *fake)
{
    g_usleep((gulong)fake->options.job_ms * 1000);
}

fake_backend *
fake_backend_new(const struct fake_options *options)
{
    fake_backend *fake = g_new0(fake_backend, 1);

    fake->options = *options;
    fake->table = (struct vg_backend){
        .data = fake,
        .measurement = &fake_measurement,
        .access = &fake_access,
        .plans = &fake_plans,
        .moves = &fake_moves,
        .acts = &fake_acts,
    };
    if (g_strcmp0(options->without, "plans") == 0)
        fake->table.plans = NULL;
    if (g_strcmp0(options->without, "moves") == 0)
        fake->table.moves = NULL;
    pthread_mutex_init(&fake->lock, NULL);
    fake->plans = g_ptr_array_new_with_free_func(vg_saved_plan_free);
    fake->audit = g_ptr_array_new_with_free_func(vg_audit_entry_free);
    fake->moves = g_ptr_array_new_with_free_func(vg_migration_free);
    fake->kept = g_ptr_array_new_with_free_func(vg_reservation_free);
    fake_add_known_tokens(fake);
    if (options->churn)
        fake->churn = fake_churn_new(options->vms);
    fake->view = fake_make_view(fake);
    return fake;
}

void
fake_backend_free(fake_backend *fake)
{
    vg_view_unref(fake->view);
    vg_gpu_log_unref(fake->gpu_log);
    fake_churn_free(fake->churn);
    g_ptr_array_unref(fake->plans);
    g_ptr_array_unref(fake->tokens);
    g_ptr_array_unref(fake->moves);
    g_ptr_array_unref(fake->kept);
    g_ptr_array_unref(fake->audit);
    pthread_mutex_destroy(&fake->lock);
    g_free(fake);
}

const struct vg_backend *
fake_backend_table(const fake_backend *fake)
{
    return &fake->table;
}

void
fake_backend_next_view(fake_backend *fake)
{
    vg_view *view = fake_make_view(fake);

    pthread_mutex_lock(&fake->lock);
    vg_view *old = fake->view;
    fake->view = view;
    pthread_mutex_unlock(&fake->lock);
    vg_view_unref(old);
}
