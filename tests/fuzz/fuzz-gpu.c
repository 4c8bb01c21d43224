/* SPDX-License-Identifier: Apache-2.0
 *
 * Any field values in any GPU tracepoint: the adapters reject the record or make an event that
 * keeps its promises, and the GPU ledger's identities hold whatever the events say, of the period
 * and of each window.
 *
 * The input is a script: of each event one byte is the time since the one before, or closes a
 * window; one picks the event, one says which of its fields exist, one is the CPU; then come its
 * fields.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger.h"
#include "tests/fuzz/check-event.h"
#include "tests/fuzz/field-script.h"

/* Bytes of time with a meaning of their own. */
#define CLOSE_WINDOW 0xff
#define DAYS_PASS    0xfe
#define AGES_PASS    0xfd
#define DAY_NS       (INT64_C(86400) * 1000000000)

static const struct vg_adapter *const families[] = {
    vg_adapt_gvt, vg_adapt_i915,       vg_adapt_drm,   vg_adapt_amdgpu,
    vg_adapt_xe,  vg_adapt_vgpu_proxy, vg_adapt_sched,
};

static const int64_t numbers[] = {0,
                                  1,
                                  -1,
                                  2,
                                  3,
                                  4,
                                  100,
                                  101,
                                  102,
                                  103,
                                  254,
                                  65534,
                                  65535,
                                  4194304,
                                  4194305,
                                  INT32_MAX,
                                  UINT32_MAX,
                                  INT64_C(1) << 32,
                                  INT64_MAX,
                                  INT64_MIN,
                                  (int64_t)UINT64_C(0xffff94d7a00d4694),
                                  (int64_t)UINT64_C(0xffff94d7a00d4695)};

static const char *const strings[] = {
    "gfx",
    "rcs0",
    "rcs5",
    "bcs7",
    "gsccs1",
    "rcs",
    "rcs9999999",
    "401:7",
    "401:8",
    "402:7",
    "18446744073709551615:1",
    "(nil)",
    "0x10",
    "ffff94d7a00d4694",
    "ffff94d7a00d4695",
    "0000000076f0d517",
    "0:0",
    "1:1",
    "2:65534",
    "9:9",
    "drm_sched",
    "amd_sched",
    "amdgpu",
    "i915",
    "0000:04:00.0",
    "0000:05:00.0",
    "card0",
    "xe",
    "signaled",
    "gvt workload 0",
    "kworker/u32:0",
    "CPU 0/KVM",
    "qemu-system-x86",
    "",
};

/* ---- figures ---- */

static void
check_sample(const struct vg_gpu_sample *sample, int64_t length_ns)
{
    require(sample->vgpu_queue_ns >= 0 && sample->dependency_ns >= 0 &&
            sample->driver_queue_ns >= 0);
    require(sample->wait_ns ==
            sample->vgpu_queue_ns + sample->dependency_ns + sample->driver_queue_ns);
    require(sample->busy_ns >= 0 && sample->exec_ns >= 0);
    require(sample->busy_ns <= length_ns && sample->busy_ns <= sample->exec_ns);
    require(sample->mem_bytes >= 0 && sample->mem_peak_bytes >= sample->mem_bytes);
    require(sample->suspended_ns >= 0 && sample->queue_len_avg >= 0);
    require(sample->coalesced <= sample->requests);
    require(sample->latency_p50_ns <= sample->latency_p95_ns &&
            sample->latency_p95_ns <= sample->latency_p99_ns &&
            sample->latency_p99_ns <= sample->latency_max_ns);
}

/* Of all engines; those of users are at most as many. */
static uint64_t
check_window(const struct vg_window *window, int64_t length_ns)
{
    uint64_t of_engines = 0, of_users = 0;

    for (guint i = 0; i < window->gpus->len; i++) {
        const struct vg_gpu_sample *sample = &g_array_index(window->gpus, struct vg_gpu_sample, i);
        check_sample(sample, length_ns);
        of_engines += sample->requests;
    }
    for (guint i = 0; i < window->gpu_processes->len; i++) {
        const struct vg_gpu_process_sample *process =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        check_sample(&process->gpu, length_ns);
        of_users += process->gpu.requests;
    }
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        require(vm->gpu_active_ns >= 0 && vm->gpu_active_ns <= length_ns);
        for (guint k = 0; k < vm->gpus->len; k++) {
            const struct vg_gpu_sample *sample = &g_array_index(vm->gpus, struct vg_gpu_sample, k);
            check_sample(sample, length_ns);
            of_users += sample->requests;
        }
    }
    require(of_users <= of_engines);
    return of_engines;
}

/* ---- the ledger under test ---- */

struct run {
    struct field_script script;
    vg_names *names;
    vg_gpu_ledger *ledger;
    struct vg_adapt_env env;
    GPtrArray *event_names;
    int64_t begin_ns, window_ns, now;
    uint64_t in_windows; /* requests */
    uint64_t in_period;
};

static void
read_period(struct run *run)
{
    struct vg_window window;

    vg_window_init(&window, false);
    vg_gpu_ledger_read_period(run->ledger, run->now, &window);
    uint64_t requests = check_window(&window, run->now - run->begin_ns);
    require(requests >= run->in_period && requests == run->in_windows);
    run->in_period = requests;
    vg_window_clear(&window);
}

static void
close_window(struct run *run)
{
    struct vg_window window;

    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(run->ledger, run->now, &window);
    run->in_windows += check_window(&window, run->now - run->window_ns);
    run->window_ns = run->now;
    vg_window_clear(&window);
    read_period(run);
}

static void
pass_time(struct run *run, uint8_t byte)
{
    int64_t ns = byte == AGES_PASS ? VG_TIME_MAX / 4 : byte == DAYS_PASS ? 90 * DAY_NS : byte;

    if (byte == CLOSE_WINDOW)
        close_window(run);
    else
        run->now = MIN(run->now + ns, VG_TIME_MAX);
}

static void
feed_one(struct run *run)
{
    struct field_script *script = &run->script;
    struct vg_binding binding;
    struct vg_event event = {0};

    pass_time(run, field_script_byte(script));
    event.ts_ns = run->now;
    const char *name =
        g_ptr_array_index(run->event_names, field_script_byte(script) % run->event_names->len);
    script->present = field_script_byte(script);
    event.cpu = (int16_t)(field_script_byte(script) % 4) - 1;
    vg_binding_init(&binding, name, NULL, &field_script_reader, script);
    if (vg_binding_read(&binding, &run->env, &script, &event))
        return;
    check_event(&event);
    vg_gpu_ledger_feed(run->ledger, &event);
}

static GPtrArray *
all_event_names(void)
{
    GPtrArray *names = g_ptr_array_new();

    for (size_t f = 0; f < G_N_ELEMENTS(families); f++) {
        for (const struct vg_adapter *a = families[f]; a->names[0]; a++) {
            for (size_t i = 0; i < G_N_ELEMENTS(a->names) && a->names[i]; i++)
                g_ptr_array_add(names, (void *)a->names[i]);
        }
    }
    return names;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(vg_names) names = vg_names_new();
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_gpu_ledger) ledger = vg_gpu_ledger_new(topology, names);
    g_autoptr(GPtrArray) event_names = all_event_names();
    struct vg_gpu_ledger_stats stats;
    struct run run = {
        .script = {.data = data,
                   .left = size,
                   .numbers = numbers,
                   .n_numbers = G_N_ELEMENTS(numbers),
                   .strings = strings,
                   .n_strings = G_N_ELEMENTS(strings)},
        .names = names,
        .ledger = ledger,
        .event_names = event_names,
        .begin_ns = 1000,
        .window_ns = 1000,
        .now = 1000,
    };

    vg_adapt_env_init(&run.env, NULL, names);
    vg_gpu_ledger_begin(ledger, run.now);
    while (run.script.left > 0)
        feed_one(&run);
    close_window(&run);
    vg_gpu_ledger_read_stats(ledger, &stats);
    require(stats.bytes <= VG_GPU_LEDGER_BYTES_MAX);
    require(stats.open <= VG_GPU_OPEN_REQUESTS_MAX && stats.contexts <= VG_GPU_CONTEXTS_MAX);
    return 0;
}
