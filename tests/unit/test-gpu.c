/* SPDX-License-Identifier: Apache-2.0
 *
 * When the collector of GPU use asks its sources, and what it makes of one that takes long. The
 * source is made up here, and takes the time of a clock that is, too.
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
#include "collectors/gpu.h"
#include "tests/unit/fake-clock.h"

#define S        VG_NS_PER_S
#define MS       VG_NS_PER_MS
#define HANGS_MS 100000

struct fake {
    struct vg_gpu_source base; /* first */
    int fd;
    unsigned slow; /* so many samples from now on take so long */
    int64_t takes_ns;
    struct collector_run *run;
    int64_t silence_ns; /* of its thread, after a sample */
    atomic_llong drained_ns;
    atomic_llong awaits_ns; /* after it was asked */
    int64_t asked_ns;
    int64_t read_ns;
};

static bool
always(vg_gpu_source *source, int64_t now_ns)
{
    (void)source;
    (void)now_ns;
    return true;
}

static void
fake_sample(vg_gpu_source *source, int64_t now_ns)
{
    struct fake *fake = (struct fake *)source;
    uint64_t count;

    if (read(fake->fd, &count, sizeof(count)) == sizeof(count))
        atomic_store(&fake->drained_ns, now_ns);
    if (fake->slow == 0)
        return;
    fake->slow--;
    fake_clock_pass(fake->takes_ns);
    fake->silence_ns = vg_thread_silence_ns(collector_run_thread(fake->run));
}

static int
fake_fd(const vg_gpu_source *source)
{
    return ((const struct fake *)source)->fd;
}

static void
read_nothing(vg_gpu_source *source, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
             struct vg_window *window)
{
    (void)vms;
    (void)self;
    (void)window;
    ((struct fake *)source)->read_ns = now_ns;
}

static void
fake_ask(vg_gpu_source *source, int64_t now_ns)
{
    ((struct fake *)source)->asked_ns = now_ns;
}

static int64_t
fake_awaits(const vg_gpu_source *source)
{
    const struct fake *fake = (const struct fake *)source;
    const int64_t ns = atomic_load(&fake->awaits_ns);

    return ns > 0 ? fake->asked_ns + ns : 0;
}

static int64_t
an_hour(const vg_gpu_source *source)
{
    (void)source;
    return 3600 * S;
}

static bool
say_well(const vg_gpu_source *source, GString *text)
{
    (void)source;
    g_string_append(text, "well");
    return false;
}

static void
fake_close(vg_gpu_source *source)
{
    struct fake *fake = (struct fake *)source;

    close(fake->fd);
    fake->fd = -1;
}

static void
do_nothing(vg_gpu_source *source)
{
    assert_int_equal(((struct fake *)source)->fd, -1);
}

static const struct vg_gpu_source_ops fake_ops = {
    .name = "fake",
    .ready = always,
    .sample = fake_sample,
    .fd = fake_fd,
    .ask = fake_ask,
    .awaits = fake_awaits,
    .read = read_nothing,
    .spent_ns = an_hour,
    .describe = say_well,
    .close = fake_close,
    .free = do_nothing,
};

/* No process is in there. */
#define NO_PROC "/proc/self/fdinfo"

static void
start(struct fake *fake, int64_t window_ns, int64_t sample_ns)
{
    const struct vg_gpu_options options = {
        .proc = NO_PROC, .window_ns = window_ns, .sample_ns = sample_ns};
    vg_gpu_source *const sources[] = {&fake->base};

    *fake = (struct fake){.base.ops = &fake_ops, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    fake->run = fake_clock_run(vg_gpu_new(&options, sources, 1));
}

static void
end(struct fake *fake)
{
    fake_clock_end(fake->run);
}

static vg_report *
next_window(struct fake *fake)
{
    return collector_run_wait(fake->run, VG_REPORT_WINDOW);
}

/* It is asked when its descriptor says so, long before the next sample. */
static void
test_drains(void **state)
{
    struct fake fake;
    const uint64_t one = 1;

    (void)state;
    start(&fake, S, 100 * S);
    g_autoptr(vg_report) report = next_window(&fake);
    assert_int_equal(report->provenance.cost_ns, 3600 * S);
    assert_int_equal(write(fake.fd, &one, sizeof(one)), sizeof(one));
    for (unsigned ms = 0; atomic_load(&fake.drained_ns) == 0; ms++) {
        assert_true(ms < HANGS_MS);
        g_usleep(1000);
    }
    assert_int_equal(atomic_load(&fake.drained_ns), report->window.end_ns);
    end(&fake);
}

/* A source that takes longer than a window makes windows long, which is told. */
static void
test_source_is_slow(void **state)
{
    struct fake fake;

    (void)state;
    start(&fake, 100 * MS, 20 * MS);
    vg_report_free(next_window(&fake));
    fake.takes_ns = 250 * MS;
    fake.slow = 4;
    g_autoptr(vg_report) less = collector_run_state(fake.run, VG_COLLECTOR_DEGRADED);
    assert_string_equal(less->text, "windows are longer than configured because reading takes "
                                    "longer than a window; fake: well");
    g_autoptr(vg_report) ok = collector_run_state(fake.run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "fake: well");
    end(&fake);
}

/* The thread hangs with the source, which its heart shows, and what was meanwhile is in one long
 * window: nothing is lost. */
static void
test_source_hangs(void **state)
{
    struct fake fake;

    (void)state;
    start(&fake, 50 * MS, 10 * MS);
    g_autoptr(vg_report) before = next_window(&fake);
    fake.slow = 1;
    fake.takes_ns = 1200 * MS;
    g_autoptr(vg_report) after = next_window(&fake);
    assert_in_range(fake.silence_ns, 1200 * MS, 1210 * MS);
    /* It ends with the last of the windows that are over then. */
    assert_int_equal(after->window.begin_ns, before->window.end_ns);
    assert_int_equal(after->window.end_ns, before->window.end_ns + 1200 * MS);
    assert_int_equal(after->provenance.missed, 0);
    assert_int_equal(after->provenance.gpu_missed, 0);
    g_autoptr(vg_report) next = next_window(&fake);
    assert_int_equal(next->window.begin_ns, after->window.end_ns);
    assert_int_equal(next->window.end_ns, after->window.end_ns + 50 * MS);
    end(&fake);
}

/* Windows wait for answers, until the time that their source says, and are long then; others are
 * sampled meanwhile. */
static void
test_source_awaits(void **state)
{
    struct fake fake;

    (void)state;
    start(&fake, 100 * MS, 20 * MS);
    g_autoptr(vg_report) before = next_window(&fake);
    /* Not before the window after this one, so that it is known when it is asked. */
    atomic_store(&fake.awaits_ns, 250 * MS);
    g_autoptr(vg_report) after = next_window(&fake);
    assert_int_equal(after->window.begin_ns, before->window.end_ns);
    assert_int_equal(after->window.end_ns, before->window.end_ns + 300 * MS);
    assert_in_range(fake.read_ns, before->window.end_ns + 350 * MS,
                    before->window.end_ns + 360 * MS);
    atomic_store(&fake.awaits_ns, 0);
    g_autoptr(vg_report) next = next_window(&fake);
    assert_int_equal(next->window.begin_ns, after->window.end_ns);
    assert_int_equal(next->window.end_ns, after->window.end_ns + 100 * MS);
    assert_string_equal(next->provenance.gpu_source, "fake");
    end(&fake);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drains),
        cmocka_unit_test(test_source_is_slow),
        cmocka_unit_test(test_source_hangs),
        cmocka_unit_test(test_source_awaits),
    };

    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
