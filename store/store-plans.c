/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-plans.h"

#include <string.h>

#include "base/error.h"
#include "store/store.h"

int
vg_store_plans_write(vg_store_pool *pool, const struct vg_saved_plan *plan, GError **err)
{
    struct vg_store_file *file =
        vg_store_pool_get(pool, VG_STORE_STATE_DB, 0, VG_STORE_CREATE, err);

    if (!file)
        return -1;
    int status = vg_store_file_run(file, VG_SQL_BEGIN_WRITE, err, "");
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_PLAN_ADD, err, "siss", plan->id, plan->made_ns,
                                   plan->verdict, plan->text);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_PLAN_PRUNE, err, "i", (int64_t)VG_STORE_PLANS_MAX);
    if (status == 0)
        status = vg_store_file_run(file, VG_SQL_COMMIT, err, "");
    vg_store_pool_put(pool, file, status != 0);
    return status;
}

/* NULL: no such plan, or *err. */
static struct vg_saved_plan *
read_plan(struct vg_store_file *file, const char *id, GError **err)
{
    sqlite3_stmt *statement = vg_store_file_query(file, VG_SQL_PLAN_READ, err, "s", id);

    if (!statement || vg_store_file_step(file, statement, err) <= 0)
        return NULL;
    const char *verdict = vg_store_file_text(file, statement, 1, err);
    const char *text = verdict ? vg_store_file_text(file, statement, 2, err) : NULL;
    if (!text)
        return NULL;
    struct vg_saved_plan *plan = g_new0(struct vg_saved_plan, 1);
    plan->id = g_strdup(id);
    plan->made_ns = sqlite3_column_int64(statement, 0);
    plan->verdict = g_strdup(verdict);
    plan->text = g_strdup(text);
    sqlite3_reset(statement);
    return plan;
}

struct vg_saved_plan *
vg_store_plans_read(vg_store_pool *pool, const char *id, GError **err)
{
    GError *error = NULL;
    struct vg_store_file *file =
        vg_store_pool_get(pool, VG_STORE_STATE_DB, 0, VG_STORE_READ, &error);
    struct vg_saved_plan *plan = file ? read_plan(file, id, &error) : NULL;

    vg_store_pool_put(pool, file, error != NULL);
    if (plan)
        return plan;
    if (error && !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_propagate_error(err, error);
        return NULL;
    }
    g_clear_error(&error);
    vg_error(err, VG_E_NOT_FOUND, "there is no plan '%s'", id);
    return NULL;
}

int
vg_store_plans_list(vg_store_pool *pool, int64_t before_ns, size_t limit, GPtrArray *list,
                    GError **err)
{
    GError *error = NULL;
    struct vg_store_file *file =
        vg_store_pool_get(pool, VG_STORE_STATE_DB, 0, VG_STORE_READ, &error);
    int status = -1;

    if (file) {
        sqlite3_stmt *plans = vg_store_file_query(file, VG_SQL_PLAN_LIST, &error, "ii", before_ns,
                                                  (int64_t)MIN(limit, VG_STORE_PLANS_MAX));
        status = plans ? 1 : -1;
        while (status > 0) {
            status = vg_store_file_step(file, plans, &error);
            if (status <= 0)
                break;
            const char *id = vg_store_file_text(file, plans, 0, &error);
            const char *verdict = id ? vg_store_file_text(file, plans, 2, &error) : NULL;
            if (!verdict) {
                status = -1;
                break;
            }
            struct vg_saved_plan *plan = g_new0(struct vg_saved_plan, 1);
            plan->id = g_strdup(id);
            plan->made_ns = sqlite3_column_int64(plans, 1);
            plan->verdict = g_strdup(verdict);
            g_ptr_array_add(list, plan);
        }
    }
    vg_store_pool_put(pool, file, status != 0);
    if (!error)
        return 0;
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_error_free(error);
        return 0;
    }
    g_propagate_error(err, error);
    return -1;
}

int
vg_store_plans_compare(const void *a, const void *b)
{
    const struct vg_saved_plan *x = *(struct vg_saved_plan *const *)a;
    const struct vg_saved_plan *y = *(struct vg_saved_plan *const *)b;

    if (x->made_ns != y->made_ns)
        return x->made_ns > y->made_ns ? -1 : 1;
    return -strcmp(x->id, y->id);
}
