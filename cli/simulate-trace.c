/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a simulation as a trace. Each VM is a process with one vCPU thread, which queues its
 * requests. A kernel thread per engine does the rest. Additional records at the start and end make
 * the trace as long as the simulation. For the old kernel generation, the records are as these
 * kernels wrote them, with rings and global seqnos.
 */
#include "config.h"

#include "cli/simulate-trace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "model/topology.h"
#include "trace/ctf-write.h"

/* The process IDs of VM n, of its vCPU thread, and of kernel threads. */
#define VM_PID(vm)        (1000 + 10 * (int32_t)(vm))
#define VCPU_TID(vm)      (VM_PID(vm) + 1)
#define GVT_TID(engine)   (100 + (int32_t)(engine))
#define SERVICE_TID       99
#define VCPU_COMM         "CPU 0/KVM"
#define SERVICE_COMM      "gvt_service_thr"
#define STATUS_CANCELLED  (-ECANCELED)
#define RECORDS_PER_CAUSE 4

/* The engines' numbers: rings in GVT-g, class and instance in i915. */
static const struct engine_number {
    const char *name;
    uint8_t ring, class, instance;
} engine_numbers[] = {
    {"rcs0", 0, 0, 0},  {"bcs0", 1, 1, 0}, {"vcs0", 2, 2, 0},  {"vcs1", 3, 2, 1},
    {"vecs0", 4, 3, 0}, {"ccs0", 5, 4, 0}, {"ccs1", 6, 4, 1},  {"ccs2", 7, 4, 2},
    {"ccs3", 8, 4, 3},  {"vcs2", 9, 2, 2}, {"vcs3", 10, 2, 3}, {"vecs1", 11, 3, 1},
};

enum class {
    CLASS_BEGIN,
    CLASS_END,
    CLASS_QUEUE,
    CLASS_SUBMIT,
    CLASS_COMPLETE,
    CLASS_SWITCH,
    CLASS_ADD,
    CLASS_READY,
    CLASS_IN,
    CLASS_OUT,
    CLASS_OLD_ADD,
    CLASS_OLD_READY,
    CLASS_OLD_IN,
    CLASS_OLD_OUT,
    CLASS_OLD_NOTIFY
};

#define WORKLOAD_FIELDS                                                                            \
 {"dev", VG_CTF_U32}, {"vgpu_id", VG_CTF_S32}, {"ring_id", VG_CTF_S32},                            \
 {                                                                                                 \
  "workload", VG_CTF_U64                                                                           \
 }
#define REQUEST_FIELDS                                                                             \
 {"dev", VG_CTF_U32}, {"ctx", VG_CTF_U64}, {"class", VG_CTF_U16}, {"instance", VG_CTF_U16},        \
 {                                                                                                 \
  "seqno", VG_CTF_U32                                                                              \
 }
#define OLD_REQUEST_FIELDS                                                                         \
 {"dev", VG_CTF_U32}, {"ring", VG_CTF_U32}, {"ctx", VG_CTF_U32},                                   \
 {                                                                                                 \
  "seqno", VG_CTF_U32                                                                              \
 }

static const struct vg_ctf_field begin_fields[] = {
    {"mode", VG_CTF_STRING}, {"duration_ns", VG_CTF_S64}, {NULL, 0}};
static const struct vg_ctf_field end_fields[] = {{NULL, 0}};
static const struct vg_ctf_field queue_fields[] = {WORKLOAD_FIELDS, {NULL, 0}};
static const struct vg_ctf_field submit_fields[] = {
    WORKLOAD_FIELDS, {"ctx", VG_CTF_U64}, {"seqno", VG_CTF_U32}, {NULL, 0}};
static const struct vg_ctf_field complete_fields[] = {
    WORKLOAD_FIELDS, {"status", VG_CTF_S32}, {NULL, 0}};
static const struct vg_ctf_field simulate_trace_switch_fields[] = {
    {"dev", VG_CTF_U32}, {"prev_vgpu", VG_CTF_S32}, {"next_vgpu", VG_CTF_S32}, {NULL, 0}};
static const struct vg_ctf_field simulate_trace_request_fields[] = {REQUEST_FIELDS, {NULL, 0}};
static const struct vg_ctf_field in_fields[] = {
    REQUEST_FIELDS, {"port", VG_CTF_U32}, {"prio", VG_CTF_S32}, {NULL, 0}};
static const struct vg_ctf_field out_fields[] = {
    REQUEST_FIELDS, {"completed", VG_CTF_U32}, {NULL, 0}};
static const struct vg_ctf_field old_request_fields[] = {
    OLD_REQUEST_FIELDS, {"global", VG_CTF_U32}, {NULL, 0}};
static const struct vg_ctf_field old_in_fields[] = {
    OLD_REQUEST_FIELDS, {"global_seqno", VG_CTF_U32}, {"port", VG_CTF_U32}, {NULL, 0}};
static const struct vg_ctf_field old_notify_fields[] = {{"dev", VG_CTF_U32},
                                                        {"ring", VG_CTF_U32},
                                                        {"seqno", VG_CTF_U32},
                                                        {"waiters", VG_CTF_U8},
                                                        {NULL, 0}};

static const struct vg_ctf_class classes[] = {
    [CLASS_BEGIN] = {"simulation_begin", begin_fields},
    [CLASS_END] = {"simulation_end", end_fields},
    [CLASS_QUEUE] = {"gvt_workload_queue", queue_fields},
    [CLASS_SUBMIT] = {"gvt_workload_submit", submit_fields},
    [CLASS_COMPLETE] = {"gvt_workload_complete", complete_fields},
    [CLASS_SWITCH] = {"gvt_sched_switch", simulate_trace_switch_fields},
    [CLASS_ADD] = {"i915_request_add", simulate_trace_request_fields},
    [CLASS_READY] = {"i915_request_submit", simulate_trace_request_fields},
    [CLASS_IN] = {"i915_request_in", in_fields},
    [CLASS_OUT] = {"i915_request_out", out_fields},
    [CLASS_OLD_ADD] = {"i915_gem_request_add", old_request_fields},
    [CLASS_OLD_READY] = {"i915_gem_request_submit", old_request_fields},
    [CLASS_OLD_IN] = {"i915_gem_request_in", old_in_fields},
    [CLASS_OLD_OUT] = {"i915_gem_request_out", old_request_fields},
    [CLASS_OLD_NOTIFY] = {"intel_engine_notify", old_notify_fields},
};

struct writing {
    const struct vg_gpusched_scenario *scenario;
    vg_gpusched *sim;
    GArray *records; /* struct vg_ctf_record, not yet returned */
    guint given;
    bool begun, ended;
    bool old;                                  /* whether to write records of the old generation */
    uint32_t globals[VG_GPUSCHED_ENGINES_MAX]; /* the seqno of the engine's request */
    char comms[VG_GPUSCHED_ENGINES_MAX][VG_COMM_LEN]; /* the names of the engines' threads */
    GRand *random;
    double lose;
    uint64_t lost; /* since the last record */
};

static volatile sig_atomic_t interrupted;

static void
simulate_trace_on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- records ---- */

static struct vg_ctf_record *
simulate_trace_add(struct writing *writing, const struct vg_gpusched_record *cause,
                   enum class class)
{
    const struct vg_ctf_record record = {
        .class = class,
        .ts_ns = cause->ts_ns,
        .tid = GVT_TID(cause->engine),
        .pid = GVT_TID(cause->engine),
        .procname = writing->comms[cause->engine],
    };

    g_array_append_val(writing->records, record);
    return &g_array_index(writing->records, struct vg_ctf_record, writing->records->len - 1);
}

static const struct engine_number *
simulate_trace_number_of(const struct writing *writing, uint8_t engine)
{
    const char *name = vg_gpusched_engine_names[writing->scenario->engines[engine]];

    for (size_t i = 0; i < G_N_ELEMENTS(engine_numbers); i++) {
        if (strcmp(engine_numbers[i].name, name) == 0)
            return &engine_numbers[i];
    }
    vg_bug("the engine '%s' has no number", name);
}

static void
add_workload(struct writing *writing, const struct vg_gpusched_record *cause, enum class class,
             int64_t status)
{
    struct vg_ctf_record *record = simulate_trace_add(writing, cause, class);

    if (class == CLASS_QUEUE) {
        record->tid = VCPU_TID(cause->vm);
        record->pid = VM_PID(cause->vm);
        record->procname = VCPU_COMM;
    }
    record->values[1].s = (int64_t)cause->vm + 1;
    record->values[2].s = simulate_trace_number_of(writing, cause->engine)->ring;
    record->values[3].u = cause->workload;
    if (class == CLASS_SUBMIT) {
        record->values[4].u = cause->context;
        record->values[5].u = cause->seqno;
    } else if (class == CLASS_COMPLETE) {
        record->values[4].s = status;
    }
}

/* new and old are the record classes of the two generations. */
static struct vg_ctf_record *
simulate_trace_add_request(struct writing *writing, const struct vg_gpusched_record *cause,
                           enum class new, enum class old)
{
    const struct engine_number *number = simulate_trace_number_of(writing, cause->engine);
    struct vg_ctf_record *record = simulate_trace_add(writing, cause, writing->old ? old : new);

    if (writing->old) {
        record->values[1].u = number->ring;
        record->values[2].u = cause->context;
        record->values[3].u = cause->seqno;
    } else {
        record->values[1].u = cause->context;
        record->values[2].u = number->class;
        record->values[3].u = number->instance;
        record->values[4].u = cause->seqno;
    }
    return record;
}

static void
add_in(struct writing *writing, const struct vg_gpusched_record *cause)
{
    struct vg_ctf_record *record =
        simulate_trace_add_request(writing, cause, CLASS_IN, CLASS_OLD_IN);

    if (writing->old)
        record->values[4].u = ++writing->globals[cause->engine];
}

static void
add_out(struct writing *writing, const struct vg_gpusched_record *cause, bool completed)
{
    if (writing->old) {
        struct vg_ctf_record *notify = simulate_trace_add(writing, cause, CLASS_OLD_NOTIFY);
        notify->values[1].u = simulate_trace_number_of(writing, cause->engine)->ring;
        notify->values[2].u = writing->globals[cause->engine];
    }
    struct vg_ctf_record *record =
        simulate_trace_add_request(writing, cause, CLASS_OUT, CLASS_OLD_OUT);
    if (writing->old)
        record->values[4].u = writing->globals[cause->engine];
    else
        record->values[5].u = completed;
}

/* If the engines of a GPU are scheduled separately, the GPU has no owner. */
static void
add_switch(struct writing *writing, const struct vg_gpusched_record *cause)
{
    if (cause->engine != VG_GPUSCHED_ALL_ENGINES)
        return;
    const struct vg_ctf_record record = {
        .class = CLASS_SWITCH,
        .ts_ns = cause->ts_ns,
        .tid = SERVICE_TID,
        .pid = SERVICE_TID,
        .procname = SERVICE_COMM,
        .values = {{.u = 0}, {.s = cause->prev_vgpu}, {.s = cause->next_vgpu}},
    };
    g_array_append_val(writing->records, record);
}

static void
on_record(void *data, const struct vg_gpusched_record *cause)
{
    struct writing *writing = data;

    switch (cause->kind) {
    case VG_GPUSCHED_QUEUED:
        add_workload(writing, cause, CLASS_QUEUE, 0);
        break;
    case VG_GPUSCHED_SUBMITTED:
        add_workload(writing, cause, CLASS_SUBMIT, 0);
        simulate_trace_add_request(writing, cause, CLASS_ADD, CLASS_OLD_ADD);
        simulate_trace_add_request(writing, cause, CLASS_READY, CLASS_OLD_READY);
        break;
    case VG_GPUSCHED_STARTED:
    case VG_GPUSCHED_RESUMED:
        add_in(writing, cause);
        break;
    case VG_GPUSCHED_PREEMPTED:
        add_out(writing, cause, false);
        break;
    case VG_GPUSCHED_DONE:
        add_out(writing, cause, true);
        add_workload(writing, cause, CLASS_COMPLETE, 0);
        break;
    case VG_GPUSCHED_DROPPED:
        add_workload(writing, cause, CLASS_COMPLETE, STATUS_CANCELLED);
        break;
    case VG_GPUSCHED_SWITCH:
        add_switch(writing, cause);
        break;
    case VG_GPUSCHED_VM_START:
    case VG_GPUSCHED_VM_STOP:
    case VG_GPUSCHED_KIND_MAX:
        break;
    }
}

/* ---- handing out ---- */

static void
add_edge(struct writing *writing, enum class class, int64_t ts_ns)
{
    const struct vg_gpusched_scenario *scenario = writing->scenario;
    struct vg_ctf_record record = {.class = class, .ts_ns = ts_ns, .procname = "vgpuctl"};

    if (class == CLASS_BEGIN) {
        record.values[0].text = vg_gpusched_mode_names[scenario->mode];
        record.values[1].s = scenario->duration_ns;
    }
    g_array_append_val(writing->records, record);
}

static int
make_more(struct writing *writing, GError **err)
{
    g_array_set_size(writing->records, 0);
    writing->given = 0;
    if (!writing->begun) {
        writing->begun = true;
        add_edge(writing, CLASS_BEGIN, 0);
        return 0;
    }
    int more = 1;
    while (more == 1 && writing->records->len == 0)
        more = vg_gpusched_step(writing->sim, err);
    if (more == 0) {
        writing->ended = true;
        add_edge(writing, CLASS_END, writing->scenario->duration_ns);
    }
    return more < 0 ? -1 : 0;
}

static bool
is_lost(struct writing *writing, const struct vg_ctf_record *record)
{
    if (writing->lose <= 0 || record->class == CLASS_BEGIN || record->class == CLASS_END ||
        g_rand_double(writing->random) >= writing->lose)
        return false;
    writing->lost++;
    return true;
}

static int
next_record(void *data, struct vg_ctf_record *ret, GError **err)
{
    struct writing *writing = data;

    for (;;) {
        if (interrupted)
            return vg_error(err, VG_E_IO, "interrupted");
        if (writing->given == writing->records->len) {
            if (writing->ended)
                return 0;
            if (make_more(writing, err) < 0)
                return -1;
            continue;
        }
        const struct vg_ctf_record *record =
            &g_array_index(writing->records, struct vg_ctf_record, writing->given++);
        if (is_lost(writing, record))
            continue;
        *ret = *record;
        ret->lost = writing->lost;
        writing->lost = 0;
        return 1;
    }
}

/* ---- the description of the trace ---- */

static void
add_env(GArray *env, GPtrArray *texts, const char *name, char *take_text)
{
    g_ptr_array_add(texts, take_text);
    const struct vg_ctf_env entry = {name, take_text};
    g_array_append_val(env, entry);
}

/* Adds the VMs' names where analyses find them. Reports an invalid VM name now, not during an
 * analysis. */
static int
simulate_trace_add_vms(const struct vg_gpusched_scenario *scenario, GArray *env, GPtrArray *texts,
                       GError **err)
{
    g_autoptr(vg_topology) topology = vg_topology_new();

    for (guint i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        if (vg_topology_name_vm(topology, VM_PID(i), vm->name, NULL, err) < 0)
            return -1;
        char *name = g_strdup_printf("vm_%d", VM_PID(i));
        g_ptr_array_add(texts, name);
        add_env(env, texts, name, g_strdup(vm->name));
    }
    return 0;
}

static int
write_trace(struct writing *writing, const char *dir, GError **err)
{
    const struct vg_gpusched_scenario *scenario = writing->scenario;
    g_autoptr(GArray) env = g_array_new(FALSE, FALSE, sizeof(struct vg_ctf_env));
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);

    add_env(env, texts, "hostname", g_strdup("simulated"));
    add_env(env, texts, "domain", g_strdup("kernel"));
    add_env(env, texts, "tracer_name", g_strdup("vgpuctl-simulate"));
    add_env(env, texts, "mode", g_strdup(vg_gpusched_mode_names[scenario->mode]));
    add_env(env, texts, "generation", g_strdup(vg_gpusched_generation_names[scenario->generation]));
    add_env(env, texts, "seed", g_strdup_printf("%" G_GUINT64_FORMAT, scenario->seed));
    add_env(env, texts, "duration_ns", g_strdup_printf("%" G_GINT64_FORMAT, scenario->duration_ns));
    if (simulate_trace_add_vms(scenario, env, texts, err) < 0)
        return -1;
    const struct vg_ctf_plan plan = {
        .classes = classes,
        .n_classes = G_N_ELEMENTS(classes),
        .env = &g_array_index(env, struct vg_ctf_env, 0),
        .n_env = env->len,
        .next = next_record,
        .data = writing,
    };
    return vg_ctf_write(dir, &plan, err);
}

static bool
is_of_gvtg(enum vg_gpusched_mode mode)
{
    return mode == VG_GPUSCHED_GVTG || mode == VG_GPUSCHED_NO_CARRY ||
           mode == VG_GPUSCHED_WORK_CONSERVING;
}

static void
name_threads(struct writing *writing)
{
    for (uint32_t i = 0; i < writing->scenario->n_engines; i++)
        g_snprintf(writing->comms[i], VG_COMM_LEN, "gvt:%s",
                   vg_gpusched_engine_names[writing->scenario->engines[i]]);
}

struct vg_gpusched_result *
vg_simulate_trace_write(const struct vg_gpusched_scenario *scenario, const char *dir, double lose,
                        GError **err)
{
    struct writing writing = {
        .scenario = scenario,
        .lose = lose,
        /* Kernels with preemption of requests use the new records. */
        .old = scenario->generation == VG_GPUSCHED_OLD && is_of_gvtg(scenario->mode),
    };
    struct sigaction action = {.sa_handler = simulate_trace_on_signal}, old_int, old_term;
    struct vg_gpusched_result *result = NULL;
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, on_record, &writing, err);

    if (!sim)
        return NULL;
    writing.sim = sim;
    writing.records =
        g_array_sized_new(FALSE, FALSE, sizeof(struct vg_ctf_record), RECORDS_PER_CAUSE);
    writing.random = g_rand_new_with_seed((guint32)scenario->seed);
    name_threads(&writing);
    sigaction(SIGINT, &action, &old_int);
    sigaction(SIGTERM, &action, &old_term);
    if (write_trace(&writing, dir, err) == 0)
        result = vg_gpusched_get_result(sim);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    g_array_unref(writing.records);
    g_rand_free(writing.random);
    return result;
}
