/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-host.h"

#include "base/clock.h"
#include "model/event.h"

/* The members are in the order of the columns of `host`. */
G_STATIC_ASSERT(sizeof(struct vg_host_figures) == VG_SQL_HOST_COLUMNS * sizeof(int64_t));

void
vg_store_host_init(struct vg_store_host *host)
{
    *host = (struct vg_store_host){.measured = vg_history_measured_new()};
}

void
vg_store_host_clear(struct vg_store_host *host)
{
    g_clear_pointer(&host->measured, g_array_unref);
}

void
vg_store_host_add(struct vg_store_host *sum, const struct vg_store_host *more)
{
    vg_host_figures_add(&sum->figures, &more->figures);
    for (guint i = 0; i < more->measured->len; i++) {
        const struct vg_history_measured *measured =
            &g_array_index(more->measured, struct vg_history_measured, i);
        vg_history_add_measured(sum->measured, measured->by, measured->ns, measured->who_ns);
    }
}

/* Sums up the waiting time of all VMs' GPU requests. Returns false if it is unknown. */
static bool
store_host_add_gpus(const GArray *vms, int64_t *ret_wait_ns)
{
    bool known = vms->len == 0;

    *ret_wait_ns = 0;
    for (guint i = 0; i < vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(vms, struct vg_vm_sample, i);
        known = known || vm->gpu_known;
        for (guint k = 0; k < vm->gpus->len; k++) {
            const struct vg_gpu_sample *gpu = &g_array_index(vm->gpus, struct vg_gpu_sample, k);
            if (gpu->lacks & VG_GPU_NO_REQUESTS)
                return false;
            *ret_wait_ns = vg_time_sum(*ret_wait_ns, gpu->wait_ns);
        }
    }
    return known;
}

void
vg_store_host_add_window(struct vg_store_host *sum, const struct vg_window *window,
                         const struct vg_provenance *provenance)
{
    const struct vg_host_sample *host = &window->host;
    const struct vg_pressure *pressure = host->pressure;
    const int64_t length_ns = window->end_ns - window->begin_ns;
    struct vg_host_figures figures = {0};

    if (host->own_ns >= 0) {
        figures.own_of_ns = length_ns;
        figures.own_ns = host->own_ns;
    }
    if (host->idle_ns >= 0 && host->steal_ns >= 0) {
        figures.idle_of_ns = length_ns;
        figures.idle_ns = host->idle_ns;
        figures.steal_ns = host->steal_ns;
    }
    if (host->load[0] >= 0) {
        figures.load_of_ns = length_ns;
        figures.load_us = (int64_t)(host->load[0] * (double)length_ns / VG_NS_PER_US + 0.5);
    }
    /* Kernels before 5.13 have no "full" pressure for CPUs. It is not stored. */
    if (pressure[VG_RESOURCE_CPU].some_ns >= 0 && pressure[VG_RESOURCE_MEMORY].full_ns >= 0 &&
        pressure[VG_RESOURCE_IO].full_ns >= 0) {
        figures.pressure_of_ns = length_ns;
        figures.cpu_some_ns = pressure[VG_RESOURCE_CPU].some_ns;
        figures.memory_some_ns = pressure[VG_RESOURCE_MEMORY].some_ns;
        figures.memory_full_ns = pressure[VG_RESOURCE_MEMORY].full_ns;
        figures.io_some_ns = pressure[VG_RESOURCE_IO].some_ns;
        figures.io_full_ns = pressure[VG_RESOURCE_IO].full_ns;
    }
    int64_t gpu_wait_ns;
    if (store_host_add_gpus(window->vms, &gpu_wait_ns)) {
        figures.gpu_of_ns = length_ns;
        figures.gpu_wait_ns = gpu_wait_ns;
    }
    vg_host_figures_add(&sum->figures, &figures);
    vg_history_add_measured(sum->measured, provenance->source, length_ns,
                            vg_provenance_knows(provenance, VG_MEASURE_LOST_TO) ? length_ns : 0);
}

/* ---- files ---- */

static int
store_host_read_figures(struct vg_store_file *file, int64_t win, struct vg_host_figures *sum,
                        GError **err)
{
    sqlite3_stmt *row = vg_store_file_query(file, VG_SQL_HOST, err, "i", win);
    struct vg_host_figures figures = {0};
    int status = row ? vg_store_file_step(file, row, err) : -1;

    if (status <= 0)
        return status;
    /* Files of earlier versions have fewer columns. */
    const int columns = MIN(VG_SQL_HOST_COLUMNS, sqlite3_column_count(row) - 1);
    for (int i = 0; i < columns; i++)
        ((int64_t *)&figures)[i] = sqlite3_column_int64(row, i + 1);
    sqlite3_reset(row);
    vg_host_figures_add(sum, &figures);
    return 0;
}

int
vg_store_host_read(struct vg_store_file *file, int64_t win, struct vg_store_host *sum, GError **err)
{
    if (!vg_store_file_knows(file, VG_SQL_HOST))
        return 0;
    if (store_host_read_figures(file, win, &sum->figures, err) != 0)
        return -1;
    sqlite3_stmt *rows = vg_store_file_query(file, VG_SQL_MEASURED, err, "i", win);
    int status = rows ? 1 : -1;
    while (status > 0) {
        status = vg_store_file_step(file, rows, err);
        if (status <= 0)
            break;
        const char *by = vg_store_file_text(file, rows, 0, err);
        if (!by)
            return -1;
        vg_history_add_measured(sum->measured, by, sqlite3_column_int64(rows, 1),
                                sqlite3_column_int64(rows, 2));
    }
    return status;
}

static bool
store_host_is_known(const struct vg_host_figures *figures)
{
    return figures->own_of_ns > 0 || figures->idle_of_ns > 0 || figures->load_of_ns > 0 ||
           figures->pressure_of_ns > 0 || figures->gpu_of_ns > 0;
}

static int
store_host_write_figures(struct vg_store_file *file, int64_t win,
                         const struct vg_host_figures *figures, GError **err)
{
    sqlite3_stmt *add = vg_store_file_query(file, VG_SQL_HOST_ADD, err, "i", win);

    if (!add)
        return -1;
    for (int i = 0; i < VG_SQL_HOST_COLUMNS; i++)
        sqlite3_bind_int64(add, i + 2, ((const int64_t *)figures)[i]);
    return vg_store_file_finish(file, add, err);
}

int
vg_store_host_write(struct vg_store_file *file, int64_t win, const struct vg_store_host *host,
                    GError **err)
{
    if (store_host_is_known(&host->figures) &&
        store_host_write_figures(file, win, &host->figures, err) != 0)
        return -1;
    for (guint i = 0; i < host->measured->len; i++) {
        const struct vg_history_measured *measured =
            &g_array_index(host->measured, struct vg_history_measured, i);
        int64_t by = vg_store_file_need(file, VG_NAMES_COLLECTOR, measured->by, NULL, err);
        if (by < 0 || vg_store_file_run(file, VG_SQL_MEASURED_ADD, err, "iiii", win, by,
                                        measured->ns, measured->who_ns) != 0)
            return -1;
    }
    return 0;
}
