/* SPDX-License-Identifier: Apache-2.0
 *
 * When the silence of KVM's events is taken for one, and what stands in for them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/guest-silence.h"
#include "tests/unit/fake-proc.h"

#define TICK_NS (10 * VG_NS_PER_MS)

/* A window in which one vCPU thread of KVM ran so long and entered its guest so often. */
static void
window(struct vg_guest_silence *s, int64_t run_ms, uint64_t entries)
{
    const struct vg_cpu_figures figures = {.run_ns = run_ms * VG_NS_PER_MS, .entries = entries};

    vg_guest_silence_begin(s);
    vg_guest_silence_note(s, &figures);
    vg_guest_silence_end(s, true);
}

static void
test_three_windows_and_half_a_second(void **state)
{
    struct vg_guest_silence s = {0};

    (void)state;
    window(&s, 5000, 0);
    window(&s, 5000, 0);
    assert_false(s.silent);
    window(&s, 1, 0);
    assert_true(s.silent);
    /* Three windows alone are not enough. */
    s = (struct vg_guest_silence){0};
    for (unsigned i = 0; i < 4; i++) {
        window(&s, 100, 0);
        assert_false(s.silent);
    }
    window(&s, 99, 0);
    assert_false(s.silent);
    window(&s, 1, 0);
    assert_true(s.silent);
    /* A vCPU that sleeps says nothing, for however long. */
    s = (struct vg_guest_silence){0};
    for (unsigned i = 0; i < 100; i++)
        window(&s, 0, 0);
    assert_false(s.silent);
}

static void
test_entries_end_it(void **state)
{
    struct vg_guest_silence s = {0};

    (void)state;
    window(&s, 5000, 0);
    window(&s, 5000, 0);
    window(&s, 5000, 1);
    for (unsigned i = 0; i < 2; i++) {
        window(&s, 5000, 0);
        assert_false(s.silent);
    }
    window(&s, 5000, 0);
    assert_true(s.silent);
    /* It stays while nobody runs. */
    window(&s, 0, 0);
    assert_true(s.silent);
    window(&s, 5000, 1);
    assert_false(s.silent);
}

/* Of many vCPUs one that enters is enough. */
static void
test_one_that_enters(void **state)
{
    const struct vg_cpu_figures quiet = {.run_ns = VG_NS_PER_S};
    const struct vg_cpu_figures loud = {.run_ns = 1, .entries = 1};
    struct vg_guest_silence s = {0};

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        vg_guest_silence_begin(&s);
        vg_guest_silence_note(&s, &quiet);
        vg_guest_silence_note(&s, &loud);
        vg_guest_silence_note(&s, &quiet);
        vg_guest_silence_end(&s, true);
        assert_false(s.silent);
    }
    /* Who does not listen hears nothing, and learns nothing from it. */
    for (unsigned i = 0; i < 10; i++) {
        vg_guest_silence_begin(&s);
        vg_guest_silence_note(&s, &quiet);
        vg_guest_silence_end(&s, false);
        assert_false(s.silent);
    }
}

static struct vg_provenance
describe(const struct vg_guest_silence *s, enum vg_guests guests)
{
    struct vg_provenance p = {.confidence = 1};

    vg_provenance_set_all(&p, "bpf", 1);
    vg_guest_silence_describe(s, guests, &p);
    return p;
}

static void
expect(const struct vg_provenance *p, const char *guest_source, const char *exits_source,
       const char *reason, bool silent)
{
    const struct vg_measured *guest = &p->measures[VG_MEASURE_GUEST];
    const struct vg_measured *exits = &p->measures[VG_MEASURE_EXITS];

    assert_string_equal(guest->source ? guest->source : "none", guest_source);
    assert_string_equal(exits->source ? exits->source : "none", exits_source);
    assert_int_equal(p->silent, silent);
    if (!reason) {
        assert_null(guest->reason);
        assert_null(exits->reason);
        return;
    }
    assert_non_null(strstr(guest->reason, reason));
    assert_non_null(strstr(exits->reason, reason));
    assert_true(guest->confidence == (guest->source ? 0.5 : 0));
    /* The rest is as it was. */
    assert_string_equal(p->measures[VG_MEASURE_RUN].source, "bpf");
    assert_null(p->measures[VG_MEASURE_RUN].reason);
}

static void
test_describe(void **state)
{
    struct vg_guest_silence s = {0};
    struct vg_provenance p;

    (void)state;
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "none", "none", "no VM here uses KVM", false);
    s.any_kvm = true;
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "bpf", "bpf", NULL, false);
    p = describe(&s, VG_GUESTS_NO_KVM);
    expect(&p, "none", "none", "the KVM events are missing", false);
    p = describe(&s, VG_GUESTS_LEFT_OUT);
    expect(&p, "none", "none", "left out to stay within the budget", false);
    s.silent = true;
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "none", "none", "never fire on this kernel, and the guest time", true);
    s.any_ticks = true;
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "procfs", "none", "never fire on this kernel", true);
    assert_null(strstr(p.measures[VG_MEASURE_GUEST].reason, "does not advance"));
    p = describe(&s, VG_GUESTS_LEFT_OUT);
    expect(&p, "procfs", "none", "left out to stay within the budget", false);
}

/* A process that calls a thread like a vCPU of KVM and runs without a guest is silence. It went,
 * and no VM of KVM is here: the collector has nothing to complain of. */
static void
test_an_odd_vm_that_went(void **state)
{
    struct vg_guest_silence s = {0};
    struct vg_provenance p;

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        window(&s, 5000, 0);
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "none", "none", "never fire on this kernel", true);
    vg_guest_silence_begin(&s);
    vg_guest_silence_end(&s, true);
    p = describe(&s, VG_GUESTS_SEEN);
    expect(&p, "none", "none", "no VM here uses KVM", false);
    /* The next one is judged anew. */
    window(&s, 5000, 0);
    assert_false(s.silent);
}

/* ---- ticks ---- */

struct reader {
    const char *proc;
    struct vg_guest_ticks guest;
    int64_t guest_ns; /* given out so far */
};

/* Returns what guest_ns is after the counter went to so many ticks. */
static int64_t
read_ticks(struct reader *r, uint64_t ticks, int64_t run_ms, bool *ret_moved)
{
    struct vg_cpu_figures f = {.run_ns = run_ms * VG_NS_PER_MS, .observed_ns = VG_NS_PER_S};

    fake_proc_task(
        r->proc, &(struct fake_task){
                     .pid = 10, .tid = 11, .comm = "CPU 0/KVM", .start = 5, .guest_ticks = ticks});
    *ret_moved =
        vg_guest_ticks_read(&r->guest, &(struct vg_guest_thread){r->proc, 10, 11, TICK_NS}, &f);
    assert_true(f.guest_ns <= f.run_ns);
    r->guest_ns += f.guest_ns;
    return f.guest_ns / VG_NS_PER_MS;
}

static void
test_ticks(void **state)
{
    struct reader r = {.proc = *state};
    bool moved;

    fake_proc_process(r.proc, 10, "qemu-system-x86", 5, 2, "", 0);
    /* What was counted before is not of now. */
    assert_int_equal(read_ticks(&r, 1000, 500, &moved), 0);
    assert_false(moved);
    assert_int_equal(read_ticks(&r, 1000, 500, &moved), 0);
    assert_false(moved);
    assert_int_equal(read_ticks(&r, 1020, 500, &moved), 200);
    assert_true(moved);
    /* More than it ran is left for the next window, */
    assert_int_equal(read_ticks(&r, 1030, 40, &moved), 40);
    assert_int_equal(read_ticks(&r, 1030, 50, &moved), 50);
    assert_int_equal(read_ticks(&r, 1030, 500, &moved), 10);
    /* but not for ever. */
    assert_int_equal(read_ticks(&r, 2030, 1, &moved), 1);
    assert_int_equal(read_ticks(&r, 2030, 900, &moved), 900);
    assert_int_equal(read_ticks(&r, 2030, 900, &moved), 100);
    assert_int_equal(read_ticks(&r, 2030, 900, &moved), 0);
    assert_true(moved);
    /* Who did not run is not looked at; what was counted of it is told once it runs. */
    assert_int_equal(read_ticks(&r, 2040, 0, &moved), 0);
    assert_true(moved);
    assert_int_equal(read_ticks(&r, 2040, 500, &moved), 100);
    /* A counter that goes back is another one. */
    assert_int_equal(read_ticks(&r, 5, 500, &moved), 0);
    assert_int_equal(read_ticks(&r, 7, 500, &moved), 20);
    assert_int_equal(r.guest_ns, (200 + 40 + 50 + 10 + 1 + 900 + 100 + 100 + 20) * VG_NS_PER_MS);
}

static void
test_ticks_of_nobody(void **state)
{
    struct vg_cpu_figures f = {.run_ns = 5, .guest_ns = 3};
    struct vg_guest_ticks guest = {0};
    const struct vg_guest_thread thread = {*state, 10, 11, TICK_NS};

    assert_false(vg_guest_ticks_read(&guest, &thread, &f));
    assert_int_equal(f.guest_ns, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_windows_and_half_a_second),
        cmocka_unit_test(test_entries_end_it),
        cmocka_unit_test(test_one_that_enters),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_an_odd_vm_that_went),
        FAKE_PROC_TEST(test_ticks),
        FAKE_PROC_TEST(test_ticks_of_nobody),
    };

    return cmocka_run_group_tests_name("guest-silence", tests, NULL, NULL);
}
