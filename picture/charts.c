/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects what the analysis sees, and identifies the users in the pictures.
 */
#include "config.h"

#include "picture/charts.h"

#include <string.h>

#include "picture/charts-private.h"

static void
user_free(void *data)
{
    struct chart_user *user = data;

    g_free(user->name);
    g_free(user);
}

vg_charts *
vg_charts_new(const vg_recording *recording)
{
    vg_charts *charts = g_new0(vg_charts, 1);

    charts->recording = recording;
    charts->users = g_ptr_array_new_with_free_func(user_free);
    charts->engines = g_ptr_array_new_with_free_func(g_free);
    charts->uses = g_ptr_array_new_with_free_func(g_free);
    charts->by_process = g_hash_table_new(NULL, NULL);
    charts->by_use = g_hash_table_new(NULL, NULL);
    return charts;
}

void
vg_charts_free(vg_charts *charts)
{
    if (!charts)
        return;
    vg_gpu_slices_free(charts->slices);
    vg_intervals_free(charts->intervals);
    vg_step_sums_free(charts->sums);
    g_hash_table_unref(charts->by_use);
    g_hash_table_unref(charts->by_process);
    g_ptr_array_unref(charts->uses);
    g_ptr_array_unref(charts->engines);
    g_ptr_array_unref(charts->users);
    g_free(charts);
}

/* ---- who ---- */

/* Finds the user of a process. Merged users continue as one that has all their figures. */
static struct chart_user *
find_merged(struct vg_charts *charts, const struct vg_process *process)
{
    struct chart_user *found = NULL;

    for (guint i = 0; process && i < charts->users->len; i++) {
        struct chart_user *user = g_ptr_array_index(charts->users, i);
        if (!user->process || vg_process_resolve(user->process) != process)
            continue;
        if (!found) {
            found = user;
            continue;
        }
        found->told_demand_ns += user->told_demand_ns;
        found->told_observed_ns += user->told_observed_ns;
        user->told_demand_ns = user->told_observed_ns = 0;
    }
    return found;
}

static struct chart_user *
charts_user(struct vg_charts *charts, uint32_t id, const char *comm)
{
    struct chart_user *user = g_hash_table_lookup(charts->by_process, GUINT_TO_POINTER(id));

    if (user)
        return user;
    struct vg_process *process =
        id == CHARTS_NOBODY ? NULL : vg_topology_process_at(charts->topology, id);
    user = find_merged(charts, process);
    if (!user) {
        user = g_new0(struct chart_user, 1);
        user->index = charts->users->len;
        user->process = process;
        g_strlcpy(user->comm, comm, sizeof(user->comm));
        g_ptr_array_add(charts->users, user);
    }
    g_hash_table_insert(charts->by_process, GUINT_TO_POINTER(id), user);
    return user;
}

static struct chart_engine *
charts_engine(struct vg_charts *charts, uint16_t device, uint16_t name)
{
    for (guint i = 0; i < charts->engines->len; i++) {
        struct chart_engine *engine = g_ptr_array_index(charts->engines, i);
        if (engine->device == device && engine->name == name)
            return engine;
    }
    struct chart_engine *engine = g_new0(struct chart_engine, 1);
    engine->device = device;
    engine->name = name;
    engine->row = charts->rows++;
    engine->busy =
        (struct chart_busy){vg_step_sums_add_series(charts->sums), .until_ns = INT64_MIN};
    g_ptr_array_add(charts->engines, engine);
    return engine;
}

static struct chart_use *
charts_use(struct vg_charts *charts, const struct vg_gpu_change *what)
{
    G_STATIC_ASSERT(VG_NAMES_MAX <= 1 << 16);
    void *key =
        GSIZE_TO_POINTER((size_t)what->process << 32 | (size_t)what->device << 16 | what->engine);
    struct chart_use *use = g_hash_table_lookup(charts->by_use, key);

    if (use)
        return use;
    use = g_new0(struct chart_use, 1);
    use->engine = charts_engine(charts, what->device, what->engine);
    use->user = charts_user(charts, what->process, what->comm);
    use->row = charts->rows++;
    use->busy = (struct chart_busy){vg_step_sums_add_series(charts->sums), .until_ns = INT64_MIN};
    g_ptr_array_add(charts->uses, use);
    g_hash_table_insert(charts->by_use, key, use);
    return use;
}

char *
charts_engine_name(const struct vg_charts *charts, const struct chart_engine *engine)
{
    const vg_names *names = charts->recording->names;
    const char *device = engine->device == VG_NAME_NONE ? VG_GPU_DEVICE_UNNAMED
                                                        : vg_names_text(names, engine->device);

    return g_strdup_printf("%s %s", device, vg_names_text(names, engine->name));
}

/* ---- GPUs ---- */

/* Notes that one more request has been running since this time. This may be found out late. Then
 * only the time in the last gap was not busy yet, as in gpu_meter_ran(). */
static void
run_more(struct chart_busy *busy, int64_t t_ns)
{
    int64_t since_ns = MAX(t_ns, busy->until_ns);

    if (busy->running++ == 0 || since_ns < busy->since_ns)
        busy->since_ns = since_ns;
}

static void
run_less(struct vg_charts *charts, struct chart_busy *busy, int64_t t_ns)
{
    if (--busy->running > 0)
        return;
    vg_step_sums_spread(charts->sums, busy->series, busy->since_ns, t_ns,
                        (double)(t_ns - busy->since_ns));
    busy->until_ns = MAX(t_ns, busy->until_ns);
}

static void
on_level(void *data, const struct vg_gpu_change *what, bool more)
{
    struct vg_charts *charts = data;

    if (what->stage != VG_GPU_STAGE_RUNNING)
        return;
    struct chart_use *use = charts_use(charts, what);
    struct chart_engine *engine = charts_engine(charts, what->device, what->engine);
    if (more) {
        run_more(&use->busy, what->t_ns);
        run_more(&engine->busy, what->t_ns);
    } else {
        run_less(charts, &use->busy, what->t_ns);
        run_less(charts, &engine->busy, what->t_ns);
    }
}

static void
on_slice(void *data, const struct vg_gpu_slice *slice)
{
    struct vg_charts *charts = data;
    struct chart_use *use = charts_use(charts, &slice->what);
    struct vg_interval interval = {
        .begin_ns = slice->what.t_ns,
        .end_ns = slice->end_ns,
        .row = use->row,
        .identity = use->user->index,
        .kind = (uint16_t)slice->what.stage,
    };

    use->seen = true;
    charts->stages++;
    vg_intervals_add(charts->intervals, &interval);
    if (slice->what.stage != VG_GPU_STAGE_RUNNING)
        return;
    interval.row = use->engine->row;
    vg_intervals_add(charts->intervals, &interval);
}

void
vg_charts_gpu(vg_charts *charts, const struct vg_gpu_change *change)
{
    vg_gpu_slices_take(charts->slices, change);
}

bool
vg_charts_have_requests(const vg_charts *charts)
{
    return charts->stages > 0;
}

/* ---- CPUs ---- */

/* Adds what the VMs' vCPUs did since the last time, until t_ns. */
static void
take_vms(struct vg_charts *charts, const struct vg_window *window, int64_t t_ns)
{
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        int64_t demand_ns = vm->cpu.run_ns + vm->cpu.preempt_ns + vm->cpu.wake_wait_ns;
        if (vm->cpu.observed_ns == 0)
            continue;
        struct chart_user *user = charts_user(charts, vm->id, "");
        if (!user->has_cpu) {
            user->demand = vg_step_sums_add_series(charts->sums);
            user->observed = vg_step_sums_add_series(charts->sums);
            user->has_cpu = true;
        }
        vg_step_sums_spread(charts->sums, user->demand, charts->peeked_ns, t_ns,
                            (double)(demand_ns - user->told_demand_ns));
        vg_step_sums_spread(charts->sums, user->observed, charts->peeked_ns, t_ns,
                            (double)(vm->cpu.observed_ns - user->told_observed_ns));
        user->told_demand_ns = demand_ns;
        user->told_observed_ns = vm->cpu.observed_ns;
    }
    charts->peeked_ns = t_ns;
}

static void
peek(struct vg_charts *charts, int64_t t_ns)
{
    struct vg_window window;

    vg_window_reader_peek(charts->reader, t_ns, &window);
    take_vms(charts, &window, t_ns);
    vg_window_clear(&window);
}

/* Between two events nothing changes, so checking the ends of the first and the last step is
 * enough. */
void
vg_charts_time(vg_charts *charts, int64_t t_ns)
{
    int64_t step_ns = vg_step_sums_reach(charts->sums, t_ns);
    int64_t first = (charts->peeked_ns - charts->begin_ns) / step_ns + 1;
    int64_t last = (t_ns - 1 - charts->begin_ns) / step_ns;

    if (last < first)
        return;
    peek(charts, charts->begin_ns + first * step_ns);
    if (last > first)
        peek(charts, charts->begin_ns + last * step_ns);
}

/* ---- all of it ---- */

void
vg_charts_begin(vg_charts *charts, const vg_window_reader *reader, int64_t begin_ns)
{
    static const struct vg_gpu_slices_ops ops = {on_slice, on_level};

    charts->reader = reader;
    charts->topology = vg_window_reader_topology(reader);
    charts->begin_ns = charts->end_ns = charts->peeked_ns = begin_ns;
    charts->sums = vg_step_sums_new(begin_ns);
    charts->slices = vg_gpu_slices_new(&ops, charts);
    charts->intervals = vg_intervals_new(begin_ns, VG_CHARTS_INTERVALS_MAX);
}

static void
name_user(struct vg_charts *charts, struct chart_user *user)
{
    struct vg_process *process = user->process ? vg_process_resolve(user->process) : NULL;
    char name[VG_VM_NAME_MAX];

    user->same = user;
    if (!process)
        user->name = g_strdup("host");
    else if (process->is_vm)
        user->name = g_strdup(vg_process_vm_name(process, name));
    else
        user->name =
            g_strdup_printf("%s (%d)", user->comm[0] ? user->comm : "process", process->pid);
    for (guint i = 0; process && i < user->index; i++) {
        struct chart_user *other = g_ptr_array_index(charts->users, i);
        if (other->process && vg_process_resolve(other->process) == process) {
            user->same = other->same;
            return;
        }
    }
}

/* Two processes may have been known for a VM until they proved to be one. */
static void
unite_uses(struct vg_charts *charts)
{
    for (guint i = 0; i < charts->uses->len; i++) {
        struct chart_use *use = g_ptr_array_index(charts->uses, i);
        use->same = use;
        for (guint k = 0; k < i && use->same == use; k++) {
            struct chart_use *other = g_ptr_array_index(charts->uses, k);
            if (other->engine == use->engine && other->user->same == use->user->same)
                use->same = other->same;
        }
        use->same->seen |= use->seen;
    }
}

void
vg_charts_finish(vg_charts *charts, const struct vg_window *whole)
{
    charts->end_ns = whole->end_ns;
    take_vms(charts, whole, whole->end_ns);
    vg_gpu_slices_finish(charts->slices, whole->end_ns);
    vg_intervals_finish(charts->intervals);
    for (guint i = 0; i < charts->users->len; i++)
        name_user(charts, g_ptr_array_index(charts->users, i));
    unite_uses(charts);
    charts->reader = NULL;
}
