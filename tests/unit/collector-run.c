/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/collector-run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/queue.h"

#define REPORTS_MAX 100000
#define PATIENCE_NS (100 * VG_NS_PER_S)
#define STEPS_MAX   10000

struct collector_run {
    vg_collector *collector;
    vg_thread *thread;
    vg_queue *reports;
    struct vg_report_sink sink;
    void (*step)(void); /* NULL: time passes by itself */
};

static void
put(void *data, struct vg_report *take_report)
{
    struct collector_run *run = data;

    vg_queue_put(run->reports, take_report);
}

static void
free_report(void *report)
{
    vg_report_free(report);
}

static void
work(vg_thread *self, void *arg)
{
    struct collector_run *run = arg;

    run->collector->ops->run(run->collector, self, &run->sink);
}

static void
wake(void *arg)
{
    struct collector_run *run = arg;

    if (run->collector->ops->wake)
        run->collector->ops->wake(run->collector);
}

struct collector_run *
collector_run_start(vg_collector *take_collector)
{
    struct collector_run *run = g_new0(struct collector_run, 1);
    g_autoptr(GError) err = NULL;

    run->collector = take_collector;
    run->reports = vg_queue_new(REPORTS_MAX, VG_QUEUE_DROP, free_report);
    run->sink = (struct vg_report_sink){.put = put, .data = run};
    run->thread = vg_thread_new("col-test", work, wake, run, &err);
    if (!run->thread)
        fail_msg("%s", err->message);
    return run;
}

void
collector_run_stop(struct collector_run *run)
{
    vg_thread_free(run->thread);
    vg_collector_free(run->collector);
    vg_queue_free(run->reports);
    g_free(run);
}

vg_report *
collector_run_next(struct collector_run *run, int64_t timeout_ns)
{
    return vg_queue_get(run->reports, timeout_ns);
}

void
collector_run_step_with(struct collector_run *run, void (*step)(void))
{
    run->step = step;
}

vg_report *
collector_run_any(struct collector_run *run)
{
    vg_report *report = vg_queue_get(run->reports, run->step ? 0 : PATIENCE_NS);

    for (unsigned i = 0; !report && run->step && i < STEPS_MAX; i++) {
        run->step();
        report = vg_queue_get(run->reports, 0);
    }
    if (!report)
        fail_msg("no report came");
    return report;
}

vg_report *
collector_run_wait(struct collector_run *run, enum vg_report_kind kind)
{
    for (;;) {
        vg_report *report = collector_run_any(run);
        if (report->kind == kind)
            return report;
        if (report->kind == VG_REPORT_STATUS)
            print_message("# %s: %s\n", vg_collector_state_names[report->state], report->text);
        vg_report_free(report);
    }
}

vg_report *
collector_run_state(struct collector_run *run, enum vg_collector_state state)
{
    for (;;) {
        vg_report *report = collector_run_wait(run, VG_REPORT_STATUS);
        if (report->state == state)
            return report;
        vg_report_free(report);
    }
}

void
collector_run_await_beats(const vg_thread *thread, unsigned n)
{
    int64_t hangs_ns = vg_clock_monotonic_ns() + PATIENCE_NS;

    for (int64_t before_ns = INT64_MAX; n > 0;) {
        int64_t silence_ns = vg_thread_silence_ns(thread);
        n -= silence_ns < before_ns;
        before_ns = silence_ns;
        assert_true(vg_clock_monotonic_ns() < hangs_ns);
        g_usleep(1000);
    }
}

const vg_thread *
collector_run_thread(const struct collector_run *run)
{
    return run->thread;
}
