/* SPDX-License-Identifier: Apache-2.0
 *
 * The ladder of sources: which one is used, when it is left, and when it is taken again. Sources
 * are made up here and do what the test tells them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/live.h"
#include "host/proc-scan.h"
#include "tests/unit/collector-run.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-proc.h"

#define WINDOW_NS (50 * VG_NS_PER_MS)
#define HANGS_MS  100000

struct fake {
    struct vg_cpu_source base; /* first */
    struct vg_cpu_source_ops ops;
    atomic_bool broken;
    atomic_int cost_percent; /* of a core, at level 0; half of it at level 1 */
    atomic_uint level;
    atomic_int opened; /* minus closed */
    atomic_int drained;
    int hint_fd;
    struct vg_cpu_hint hint; /* told whenever the file is readable */
    atomic_int watched;      /* VMs */
    atomic_int vcpus;        /* of the first one */
};

static int
fake_open(vg_cpu_source *source, GError **err)
{
    struct fake *fake = (struct fake *)source;

    atomic_fetch_add(&fake->opened, 1);
    return fake->broken ? vg_error(err, VG_E_EXTERNAL, "%s is broken", fake->ops.name) : 0;
}

static void
fake_close(vg_cpu_source *source)
{
    atomic_fetch_sub(&((struct fake *)source)->opened, 1);
}

static int
fake_watch(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err)
{
    struct fake *fake = (struct fake *)source;

    (void)self, (void)err;
    if (vms->len > 0)
        fake->vcpus = (int)((const struct vg_proc_vm *)vms->pdata[0])->vcpus->len;
    fake->watched = (int)vms->len;
    return 0;
}

static int
fake_fd(const vg_cpu_source *source)
{
    return ((const struct fake *)source)->hint_fd;
}

static void
fake_hints(vg_cpu_source *source, GArray *hints)
{
    const struct fake *fake = (const struct fake *)source;
    struct vg_cpu_hint other = {.pid = fake->hint.pid, .tid = fake->hint.tid + 1};
    uint64_t told;

    if (read(fake->hint_fd, &told, sizeof(told)) != sizeof(told))
        return;
    g_strlcpy(other.comm, "CPU 9/KVM", sizeof(other.comm));
    g_array_append_val(hints, other);
    g_strlcpy(other.comm, "CPU bound", sizeof(other.comm));
    g_array_append_val(hints, other);
    g_array_append_val(hints, fake->hint);
}

static int
fake_read(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, struct vg_window *window,
          struct vg_provenance *provenance, GError **err)
{
    struct fake *fake = (struct fake *)source;

    (void)vms, (void)self, (void)window;
    if (fake->broken)
        return vg_error(err, VG_E_EXTERNAL, "%s broke", fake->ops.name);
    vg_provenance_set_all(provenance, fake->ops.name, 1);
    provenance->cost_ns = WINDOW_NS * fake->cost_percent / 100 / (fake->level + 1);
    return 0;
}

static int
fake_set_level(vg_cpu_source *source, unsigned level, GError **err)
{
    (void)err;
    ((struct fake *)source)->level = level;
    return 0;
}

static void
fake_free(vg_cpu_source *source)
{
    struct fake *fake = (struct fake *)source;

    /* Whatever was opened has been closed, once. */
    assert_int_equal(fake->opened, 0);
}

static void
fake_init(struct fake *fake, const char *name, unsigned levels)
{
    *fake = (struct fake){.ops = {.name = name,
                                  .levels = levels,
                                  .open = fake_open,
                                  .close = fake_close,
                                  .watch = fake_watch,
                                  .read = fake_read,
                                  .set_level = fake_set_level,
                                  .free = fake_free}};
    fake->base.ops = &fake->ops;
}

struct ladder {
    struct fake best;
    struct fake last;
    struct collector_run *run;
};

static void
start(struct ladder *l, double budget)
{
    const struct vg_live_options options = {.proc =
                                                "/proc/self/fdinfo", /* no process is in there */
                                            .window_ns = WINDOW_NS,
                                            .budget = budget,
                                            .retry_ns = 10 * WINDOW_NS,
                                            .patience_ns = 10 * WINDOW_NS};
    vg_cpu_source *const sources[] = {&l->best.base, &l->last.base};

    l->run = fake_clock_run(vg_live_new(&options, sources, 2));
}

/* The next window that this source measured; *ret_others: windows of others before it. */
static vg_report *
wait_for_source(struct ladder *l, const char *source, unsigned *ret_others)
{
    for (unsigned n = 0; n < 200; n++) {
        vg_report *report = collector_run_wait(l->run, VG_REPORT_WINDOW);
        if (strcmp(report->provenance.source, source) == 0) {
            *ret_others = n;
            return report;
        }
        vg_report_free(report);
    }
    fail_msg("no window comes from %s", source);
    return NULL;
}

static void
test_best_first(void **state)
{
    struct ladder l;
    unsigned others;

    (void)state;
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    start(&l, 0);
    g_autoptr(vg_report) ok = collector_run_state(l.run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "0 VMs, by best");
    g_autoptr(vg_report) window = wait_for_source(&l, "best", &others);
    assert_int_equal(others, 0);
    assert_int_equal(window->provenance.missed, 0);
    assert_string_equal(window->provenance.series, "live");
    fake_clock_end(l.run);
}

static void
put_hog(const char *proc, uint64_t ticks)
{
    const struct fake_task hog = {.pid = 10, .tid = 10, .comm = "hog", .ticks = ticks};
    g_autofree char *from = g_build_filename(proc, "10/task/10/stat", NULL);
    g_autofree char *to = g_build_filename(proc, "10/stat", NULL);
    g_autofree char *text = NULL;
    gsize size;

    fake_proc_task(proc, &hog);
    assert_true(g_file_get_contents(from, &text, &size, NULL));
    fake_proc_write(to, text, size);
}

/* Windows name the host's programs every few seconds, each time of all the time before. */
static void
test_programs(void **state)
{
    struct vg_live_options options = {.proc = *state, .window_ns = VG_NS_PER_S};
    const int64_t tick_ns = VG_NS_PER_S / sysconf(_SC_CLK_TCK);
    struct fake fake;
    vg_cpu_source *const sources[] = {&fake.base};
    int64_t begin_ns = 0;

    put_hog(*state, 5);
    fake_init(&fake, "best", 1);
    struct collector_run *run = fake_clock_run(vg_live_new(&options, sources, 1));
    for (uint64_t i = 0; i < 3; i++) {
        g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
        for (int n = 0; i > 0 && report->window.programs_ns == 0; n++) {
            assert_true(n < 10000);
            vg_report_free(report);
            report = collector_run_wait(run, VG_REPORT_WINDOW);
        }
        const struct vg_window *window = &report->window;
        assert_int_equal(window->programs->len, i > 0 ? 1 : 0);
        if (i > 0) {
            const struct vg_lost_process *hog =
                &g_array_index(window->programs, struct vg_lost_process, 0);
            assert_string_equal(hog->comm, "hog");
            assert_int_equal(hog->ns, 100 * tick_ns);
            assert_int_equal(window->programs_ns, window->end_ns - begin_ns);
            assert_true(window->programs_ns >= VG_NS_PER_S);
        }
        begin_ns = window->end_ns;
        put_hog(*state, 5 + 100 * (i + 1));
    }
    fake_clock_end(run);
}

static void
test_falls_and_climbs(void **state)
{
    struct ladder l;
    unsigned others;

    (void)state;
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    start(&l, 0);
    vg_report_free(wait_for_source(&l, "best", &others));
    l.best.broken = true;
    g_autoptr(vg_report) worse = collector_run_state(l.run, VG_COLLECTOR_DEGRADED);
    assert_string_equal(worse->text, "by last; best is not used: best broke");
    g_autoptr(vg_report) window = wait_for_source(&l, "last", &others);
    /* The window in which it broke is missing, and nothing else is; the next one says so. */
    assert_int_equal(others, 0);
    assert_int_equal(window->provenance.missed, 1);
    g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
    assert_int_equal(next->window.begin_ns, window->window.end_ns);
    assert_int_equal(next->provenance.missed, 0);
    l.best.broken = false;
    g_autoptr(vg_report) back = wait_for_source(&l, "best", &others);
    /* Up again nothing is missing. */
    assert_int_equal(back->provenance.missed, 0);
    assert_in_range(others, 1, 40);
    fake_clock_end(l.run);
}

static void
test_nothing_works(void **state)
{
    struct ladder l;
    unsigned others;

    (void)state;
    fake_init(&l.best, "best", 1);
    fake_init(&l.last, "last", 1);
    l.best.broken = true;
    l.last.broken = true;
    start(&l, 0);
    g_autoptr(vg_report) failed = collector_run_state(l.run, VG_COLLECTOR_FAILED);
    assert_string_equal(failed->text,
                        "best is not used: best is broken; last is not used: last is broken");
    l.last.broken = false;
    vg_report_free(wait_for_source(&l, "last", &others));
    fake_clock_end(l.run);
}

static void
test_budget(void **state)
{
    struct ladder l;
    unsigned others;

    (void)state;
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    l.best.cost_percent = 3000;
    start(&l, 0.8);
    g_autoptr(vg_report) first = wait_for_source(&l, "best", &others);
    assert_int_equal(first->provenance.level, 0);
    /* Three windows at full effort. */
    for (unsigned i = 0; i < 2; i++) {
        g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
        assert_int_equal(next->provenance.level, 0);
    }
    g_autoptr(vg_report) half = collector_run_wait(l.run, VG_REPORT_WINDOW);
    assert_int_equal(half->provenance.level, 1);
    /* Who preempts whom is given up only when that is too much all the time; nothing is missing. */
    g_autoptr(vg_report) cheap = wait_for_source(&l, "last", &others);
    assert_true(cheap->window.begin_ns - half->window.begin_ns >= 10 * WINDOW_NS);
    assert_int_equal(cheap->provenance.level, 2);
    assert_int_equal(cheap->provenance.missed, 0);
    /* Half of the effort is now cheap enough to stay there, but not for more. */
    l.best.cost_percent = 100;
    g_autoptr(vg_report) back = wait_for_source(&l, "best", &others);
    assert_int_equal(back->provenance.level, 1);
    assert_true(back->window.begin_ns - cheap->window.end_ns >= 9 * WINDOW_NS);
    for (unsigned i = 0; i < 20; i++) {
        g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
        assert_string_equal(next->provenance.source, "best");
        assert_int_equal(next->provenance.level, 1);
    }
    l.best.cost_percent = 10;
    for (unsigned i = 0;; i++) {
        g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
        assert_true(i < 40);
        if (next->provenance.level == 0)
            break;
    }
    fake_clock_end(l.run);
}

static int drain_fd = -1;

static int
fake_drain_fd(const vg_cpu_source *source)
{
    (void)source;
    return drain_fd;
}

static void
fake_drain(vg_cpu_source *source)
{
    uint64_t n;

    if (read(drain_fd, &n, sizeof(n)) == sizeof(n))
        atomic_fetch_add(&((struct fake *)source)->drained, 1);
}

/* A source whose memory fills up is told to empty it. */
static void
test_drains(void **state)
{
    struct ladder l;
    unsigned others;
    const uint64_t one = 1;

    (void)state;
    drain_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(drain_fd >= 0);
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    l.best.ops.drain_fd = fake_drain_fd;
    l.best.ops.drain = fake_drain;
    start(&l, 0);
    g_autoptr(vg_report) first = wait_for_source(&l, "best", &others);
    assert_string_equal(first->provenance.source, "best");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(drain_fd, &one, sizeof(one)), sizeof(one));
        /* Now, or when it may again after the last time. */
        while (l.best.drained < i)
            fake_clock_step();
        assert_int_equal(l.best.drained, i);
    }
    fake_clock_end(l.run);
    close(drain_fd);
}

/* The kernel tells of a thread's name before it has it. The VM is watched long before the window
 * ends. */
static void
test_name_that_comes_after_its_hint(void **state)
{
    const char *proc = *state;
    const struct vg_live_options options = {
        .proc = proc, .window_ns = 4 * VG_NS_PER_S, .retry_ns = VG_NS_PER_S};
    const uint64_t one = 1;
    const struct fake_task unnamed = {.pid = 10, .tid = 11, .comm = "other", .start = 100};
    const struct fake_task other = {.pid = 10, .tid = 12, .comm = "other", .start = 100};
    struct fake fake;
    vg_cpu_source *const sources[] = {&fake.base};

    fake_proc_process(proc, 10, "other", 100, 3, "other", 5);
    fake_proc_task(proc, &unnamed);
    fake_proc_task(proc, &other);
    fake_init(&fake, "best", 1);
    fake.hint_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fake.hint = (struct vg_cpu_hint){.pid = 10, .tid = 11, .comm = "CPU 0/KVM"};
    fake.ops.fd = fake_fd;
    fake.ops.hints = fake_hints;
    struct collector_run *run = fake_clock_run(vg_live_new(&options, sources, 1));
    /* At the begin of a window, which does not end, as time stands still. */
    vg_report_free(collector_run_wait(run, VG_REPORT_WINDOW));
    assert_int_equal(write(fake.hint_fd, &one, sizeof(one)), sizeof(one));
    for (unsigned ms = 0; fake.watched == 0; ms++) {
        assert_true(ms < HANGS_MS);
        g_usleep(1000);
    }
    assert_int_equal(fake.watched, 1);
    /* Of two names of the other thread the second one counts. */
    assert_int_equal(fake.vcpus, 1);
    fake_clock_end(run);
    close(fake.hint_fd);
}

/* Waits until the collector says this, and then the figure that was too much. */
static void
wait_for_excess(struct ladder *l, const char *start)
{
    for (unsigned n = 0; n < 10; n++) {
        g_autoptr(vg_report) report = collector_run_state(l->run, VG_COLLECTOR_DEGRADED);
        char *end = NULL;
        if (!g_str_has_prefix(report->text, start))
            continue;
        double percent = g_ascii_strtod(report->text + strlen(start), &end);
        assert_true(g_regex_match_simple("^ % of a core at 20[-0-9]{8}T[0-9:]{8}Z, "
                                         "more than the budget of 80 %$",
                                         end, 0, 0));
        /* Of longer windows, where the machine is busy, it is a smaller part. */
        assert_true(percent > 80 && percent < 3100);
        return;
    }
    fail_msg("it never says: %s", start);
}

static void
test_budget_is_told(void **state)
{
    struct ladder l;

    (void)state;
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    l.best.cost_percent = 3000;
    start(&l, 0.8);
    wait_for_excess(&l, "by best; reduced detail: best took ");
    wait_for_excess(&l, "by last; best is not used: best took ");
    fake_clock_end(l.run);
}

/* A load that comes and goes costs what is known of guests, not of who preempts whom. */
static void
test_a_burst_does_not_cost_the_best_source(void **state)
{
    struct ladder l;
    unsigned others;

    (void)state;
    fake_init(&l.best, "best", 2);
    fake_init(&l.last, "last", 1);
    start(&l, 0.8);
    vg_report_free(wait_for_source(&l, "best", &others));
    l.best.cost_percent = 3000;
    for (unsigned i = 0, at_half = 0; at_half < 4; i++) {
        g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
        assert_string_equal(next->provenance.source, "best");
        assert_true(i < 20);
        at_half += next->provenance.level == 1;
    }
    l.best.cost_percent = 10;
    for (unsigned i = 0;; i++) {
        g_autoptr(vg_report) next = collector_run_wait(l.run, VG_REPORT_WINDOW);
        assert_string_equal(next->provenance.source, "best");
        assert_true(i < 40);
        if (next->provenance.level == 0)
            break;
    }
    fake_clock_end(l.run);
}

static void
test_budget_of_many_cpus(void **state)
{
    (void)state;
    /* One per cent of a core is a thousandth of each CPU from ten CPUs on. */
    assert_true(vg_live_budget(1, 0.1, 2) == 0.01);
    assert_true(vg_live_budget(1, 0.1, 10) == 0.01);
    assert_true(vg_live_budget(1, 0.1, 128) > 0.1279 && vg_live_budget(1, 0.1, 128) < 0.1281);
    assert_true(vg_live_budget(3, 0, 128) == 0.03);
    assert_true(vg_live_budget(0, 0.1, 128) == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_first),
        cmocka_unit_test(test_falls_and_climbs),
        cmocka_unit_test(test_nothing_works),
        cmocka_unit_test(test_budget),
        FAKE_PROC_TEST(test_name_that_comes_after_its_hint),
        FAKE_PROC_TEST(test_programs),
        cmocka_unit_test(test_budget_is_told),
        cmocka_unit_test(test_a_burst_does_not_cost_the_best_source),
        cmocka_unit_test(test_budget_of_many_cpus),
        cmocka_unit_test(test_drains),
    };

    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
