/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, cuts and documents of random figures, compared with what is written out here by hand,
 * member by member.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "model/window-cut.h"
#include "model/window-json.h"
#include "model/window-sum.h"
#include "tests/unit/chance.h"

#define S INT64_C(1000000000)

static struct vg_gpu_sample
draw_row(GRand *rand)
{
    struct vg_gpu_sample row = {
        .device = "card0",
        .engine = "rcs0",
        .requests = (uint64_t)g_rand_int_range(rand, 0, 100),
        .partial = (uint64_t)g_rand_int_range(rand, 0, 5),
        .coalesced = (uint64_t)g_rand_int_range(rand, 0, 50),
        .busy_ns = g_rand_int_range(rand, 0, S),
        .exec_ns = g_rand_int_range(rand, 0, S),
        .vgpu_queue_ns = g_rand_int_range(rand, 0, S),
        .dependency_ns = g_rand_int_range(rand, 0, 4),
        .driver_queue_ns = g_rand_int_range(rand, 0, S),
        .latency_mean_ns = g_rand_int_range(rand, 1, S),
        .latency_p50_ns = g_rand_int_range(rand, 1, S),
        .latency_p95_ns = g_rand_int_range(rand, 1, S),
        .latency_p99_ns = g_rand_int_range(rand, 1, S),
        .latency_max_ns = g_rand_boolean(rand) ? g_rand_int_range(rand, 1, S) : 0,
        .queue_len_avg = g_rand_double_range(rand, 0, 9),
        .queue_len_max = (uint64_t)g_rand_int_range(rand, 0, 9),
        .mem_bytes = g_rand_int_range(rand, 0, S),
        .mem_peak_bytes = g_rand_int_range(rand, 0, S),
        .contexts = (unsigned)g_rand_int_range(rand, 0, 3),
        .open = (uint64_t)g_rand_int_range(rand, 0, 5),
        .open_oldest_ns = g_rand_int_range(rand, 0, S),
        .slices = (uint64_t)g_rand_int_range(rand, 0, 100),
        .suspended_ns = g_rand_int_range(rand, 0, S),
        .lacks = (unsigned)g_rand_int_range(rand, 0, VG_GPU_NO_WORK << 1) |
                 (g_rand_boolean(rand) ? VG_GPU_NO_DONE : 0) |
                 (g_rand_boolean(rand) ? VG_GPU_NO_OPEN : 0),
        .confidence = g_rand_double(rand),
    };

    row.wait_ns = row.vgpu_queue_ns + row.dependency_ns + row.driver_queue_ns;
    return row;
}

/* A window after end_ns, perhaps with a gap before it. */
static struct vg_window
draw_window(GRand *rand, int64_t end_ns)
{
    struct vg_window window;
    struct vg_gpu_sample row = draw_row(rand);

    vg_window_init(&window, false);
    window.begin_ns = end_ns + (g_rand_boolean(rand) ? 0 : g_rand_int_range(rand, 1, S));
    window.end_ns = window.begin_ns + g_rand_int_range(rand, 2, S);
    g_array_append_val(window.gpus, row);
    return window;
}

static struct vg_gpu_sample *
row_of(struct vg_window *window)
{
    return &g_array_index(window->gpus, struct vg_gpu_sample, 0);
}

#define ASSERT_SAME(member) assert_true(a->member == b->member)
#define ASSERT_NEAR(member) assert_true(ABS(a->member - b->member) < 1e-9)

static void
assert_same(const struct vg_gpu_sample *a, const struct vg_gpu_sample *b)
{
    ASSERT_SAME(requests);
    ASSERT_SAME(partial);
    ASSERT_SAME(coalesced);
    ASSERT_SAME(busy_ns);
    ASSERT_SAME(exec_ns);
    ASSERT_SAME(wait_ns);
    ASSERT_SAME(vgpu_queue_ns);
    ASSERT_SAME(dependency_ns);
    ASSERT_SAME(driver_queue_ns);
    ASSERT_SAME(latency_mean_ns);
    ASSERT_SAME(latency_p50_ns);
    ASSERT_SAME(latency_p95_ns);
    ASSERT_SAME(latency_p99_ns);
    ASSERT_SAME(latency_max_ns);
    ASSERT_NEAR(queue_len_avg);
    ASSERT_SAME(queue_len_max);
    ASSERT_SAME(mem_bytes);
    ASSERT_SAME(mem_peak_bytes);
    ASSERT_SAME(contexts);
    ASSERT_SAME(open);
    ASSERT_SAME(open_oldest_ns);
    ASSERT_SAME(slices);
    ASSERT_SAME(suspended_ns);
    ASSERT_SAME(lacks);
    ASSERT_NEAR(confidence);
    ASSERT_SAME(told_ns);
    ASSERT_SAME(most_requests);
}

/* ---- sums ---- */

/* The sum of a row over before_ns, and of the next window's, which ends all_ns after the first
 * began. */
static void
add_by_hand(struct vg_gpu_sample *sum, const struct vg_gpu_sample *more, int64_t before_ns,
            int64_t more_ns, int64_t all_ns)
{
    if (more->requests > sum->most_requests) {
        sum->most_requests = more->requests;
        sum->latency_mean_ns = more->latency_mean_ns;
        sum->latency_p50_ns = more->latency_p50_ns;
        sum->latency_p95_ns = more->latency_p95_ns;
        sum->latency_p99_ns = more->latency_p99_ns;
    }
    sum->requests += more->requests;
    sum->partial += more->partial;
    sum->coalesced += more->coalesced;
    sum->busy_ns += more->busy_ns;
    sum->exec_ns += more->exec_ns;
    sum->wait_ns += more->wait_ns;
    sum->vgpu_queue_ns += more->vgpu_queue_ns;
    sum->dependency_ns += more->dependency_ns;
    sum->driver_queue_ns += more->driver_queue_ns;
    sum->latency_max_ns = MAX(sum->latency_max_ns, more->latency_max_ns);
    sum->queue_len_avg = sum->queue_len_avg * (double)before_ns / (double)all_ns +
                         more->queue_len_avg * (double)more_ns / (double)all_ns;
    sum->queue_len_max = MAX(sum->queue_len_max, more->queue_len_max);
    sum->mem_bytes = more->mem_bytes;
    sum->mem_peak_bytes = MAX(sum->mem_peak_bytes, more->mem_peak_bytes);
    sum->contexts = more->contexts;
    sum->open = more->open;
    sum->open_oldest_ns = more->open_oldest_ns;
    sum->slices += more->slices;
    sum->suspended_ns += more->suspended_ns;
    sum->lacks =
        (sum->lacks & more->lacks & ~(unsigned)VG_GPU_NO_OPEN) | (more->lacks & VG_GPU_NO_OPEN);
    sum->confidence =
        (sum->confidence * (double)sum->told_ns + more->confidence * (double)more_ns) /
        (double)(sum->told_ns + more_ns);
    sum->told_ns += more_ns;
}

static void
test_sums_are_those_by_hand(void **state)
{
    g_autoptr(GRand) rand = chance_rand();

    (void)state;
    for (unsigned round = 0; round < chance_rounds(200, 20000); round++) {
        struct vg_window sum;
        struct vg_gpu_sample by_hand = {0};
        int64_t begin_ns = -1, end_ns = 0;

        vg_window_init(&sum, false);
        for (int i = g_rand_int_range(rand, 1, 9); i > 0; i--) {
            struct vg_window more = draw_window(rand, end_ns);
            const int64_t more_ns = more.end_ns - more.begin_ns;
            if (begin_ns < 0) {
                begin_ns = more.begin_ns;
                by_hand = *row_of(&more);
                by_hand.told_ns = more_ns;
                by_hand.most_requests = by_hand.requests;
            } else {
                add_by_hand(&by_hand, row_of(&more), end_ns - begin_ns, more_ns,
                            more.end_ns - begin_ns);
            }
            end_ns = more.end_ns;
            vg_window_add(&sum, &more);
            vg_window_clear(&more);
        }
        assert_same(row_of(&sum), &by_hand);
        vg_window_clear(&sum);
    }
}

/* ---- cuts ---- */

static int64_t
share_by_hand(int64_t all, int64_t part_ns, int64_t all_ns)
{
    return (int64_t)((__int128)all * part_ns / all_ns);
}

#define CUT_BY_HAND(member)                                                                        \
 do {                                                                                              \
  first.member = (__typeof__(first.member))share_by_hand((int64_t)all.member, part_ns, all_ns);    \
  all.member -= first.member;                                                                      \
 } while (0)

static void
test_cuts_are_those_by_hand(void **state)
{
    g_autoptr(GRand) rand = chance_rand();

    (void)state;
    for (unsigned round = 0; round < chance_rounds(200, 20000); round++) {
        struct vg_window window = draw_window(rand, 0), part;
        const int64_t all_ns = window.end_ns - window.begin_ns;
        const int64_t part_ns = g_rand_int_range(rand, 1, (gint32)all_ns);
        struct vg_gpu_sample all = *row_of(&window), first = all;

        CUT_BY_HAND(requests);
        CUT_BY_HAND(partial);
        CUT_BY_HAND(coalesced);
        CUT_BY_HAND(busy_ns);
        CUT_BY_HAND(exec_ns);
        CUT_BY_HAND(vgpu_queue_ns);
        CUT_BY_HAND(dependency_ns);
        CUT_BY_HAND(driver_queue_ns);
        first.wait_ns = first.vgpu_queue_ns + first.dependency_ns + first.driver_queue_ns;
        all.wait_ns -= first.wait_ns;
        CUT_BY_HAND(slices);
        CUT_BY_HAND(suspended_ns);
        assert_true(all.wait_ns == all.vgpu_queue_ns + all.dependency_ns + all.driver_queue_ns);
        vg_window_cut(&window, window.begin_ns + part_ns, &part);
        assert_same(row_of(&part), &first);
        assert_same(row_of(&window), &all);
        vg_window_clear(&part);
        vg_window_clear(&window);
    }
}

/* Who knows no parts of the waits still knows how long they were. */
static void
test_a_total_without_parts_is_cut(void **state)
{
    struct vg_window window, part;
    const struct vg_gpu_sample row = {.wait_ns = 10, .lacks = VG_GPU_NO_DETAILS};

    (void)state;
    vg_window_init(&window, false);
    window.end_ns = 4;
    g_array_append_val(window.gpus, row);
    vg_window_cut(&window, 1, &part);
    assert_int_equal(row_of(&part)->wait_ns, 2);
    assert_int_equal(row_of(&window)->wait_ns, 8);
    vg_window_clear(&part);
    vg_window_clear(&window);
}

/* ---- documents ---- */

static void
add_by_hand_int(json_object *object, const char *name, int64_t value, bool known)
{
    vg_json_add(object, name, known ? json_object_new_int64(value) : NULL);
}

#define ADD_INT(member, known) add_by_hand_int(object, #member, (int64_t)row->member, known)

/* Adds what a VM's row among those of a GPU has, too. */
static void
write_work_by_hand(json_object *object, const struct vg_gpu_sample *row, int64_t length_ns)
{
    const bool work = !(row->lacks & (VG_GPU_NO_WORK | VG_GPU_NO_DONE));

    vg_json_add(object, "share",
                work ? json_object_new_double((double)row->busy_ns / (double)length_ns) : NULL);
    ADD_INT(busy_ns, work);
    ADD_INT(exec_ns, work);
}

static json_object *
write_by_hand(const struct vg_gpu_sample *row, int64_t length_ns)
{
    json_object *object = json_object_new_object();
    const bool requests = !(row->lacks & VG_GPU_NO_REQUESTS);
    const bool details = !(row->lacks & VG_GPU_NO_DETAILS);
    const bool memory = !(row->lacks & VG_GPU_NO_MEMORY);
    const bool open = !(row->lacks & (VG_GPU_NO_OPEN | VG_GPU_NO_DONE));
    const bool ends = row->latency_max_ns > 0;

    vg_json_add_string(object, "device", row->device);
    vg_json_add_string(object, "engine", row->engine);
    ADD_INT(requests, requests && !(row->lacks & VG_GPU_NO_DONE));
    ADD_INT(partial, details);
    ADD_INT(wait_ns, requests);
    write_work_by_hand(object, row, length_ns);
    ADD_INT(vgpu_queue_ns, details);
    ADD_INT(dependency_ns, details);
    ADD_INT(driver_queue_ns, details);
    ADD_INT(latency_mean_ns, ends);
    ADD_INT(latency_p50_ns, ends);
    ADD_INT(latency_p95_ns, ends);
    ADD_INT(latency_p99_ns, ends);
    ADD_INT(latency_max_ns, ends);
    vg_json_add(object, "queue_len_avg",
                requests ? json_object_new_double(row->queue_len_avg) : NULL);
    ADD_INT(queue_len_max, details);
    ADD_INT(coalesced, details);
    ADD_INT(mem_bytes, memory);
    ADD_INT(mem_peak_bytes, memory);
    if (row->contexts > 0)
        ADD_INT(contexts, true);
    ADD_INT(slices, !(row->lacks & VG_GPU_NO_SLICES));
    ADD_INT(suspended_ns, !(row->lacks & VG_GPU_NO_SUSPENSIONS));
    ADD_INT(open, open);
    ADD_INT(open_oldest_ns, open);
    vg_json_add_double(object, "confidence", row->confidence);
    return object;
}

/* Compares the members that by_hand has, and their order, and frees both objects. */
static void
assert_same_text(json_object *ours, json_object *by_hand)
{
    g_autoptr(GPtrArray) more = g_ptr_array_new();

    json_object_object_foreach(ours, name, value)
    {
        (void)value;
        if (!json_object_object_get_ex(by_hand, name, NULL))
            g_ptr_array_add(more, name);
    }
    for (guint i = 0; i < more->len; i++)
        json_object_object_del(ours, more->pdata[i]);
    assert_string_equal(json_object_to_json_string_ext(ours, JSON_C_TO_STRING_PLAIN),
                        json_object_to_json_string_ext(by_hand, JSON_C_TO_STRING_PLAIN));
    json_object_put(ours);
    json_object_put(by_hand);
}

static void
test_documents_are_those_by_hand(void **state)
{
    g_autoptr(GRand) rand = chance_rand();

    (void)state;
    for (unsigned round = 0; round < chance_rounds(200, 20000); round++) {
        const struct vg_gpu_sample sample = draw_row(rand), *row = &sample;
        const int64_t length_ns = g_rand_int_range(rand, 1, S);
        json_object *object = json_object_new_object(), *brief = json_object_new_object();

        assert_same_text(vg_gpu_to_json(row, length_ns), write_by_hand(row, length_ns));
        write_work_by_hand(object, row, length_ns);
        ADD_INT(wait_ns, !(row->lacks & VG_GPU_NO_REQUESTS));
        ADD_INT(requests, !(row->lacks & (VG_GPU_NO_REQUESTS | VG_GPU_NO_DONE)));
        ADD_INT(mem_bytes, !(row->lacks & VG_GPU_NO_MEMORY));
        if (row->contexts > 0)
            ADD_INT(contexts, true);
        vg_json_add_gpu_use(brief, row, length_ns);
        assert_same_text(brief, object);
    }
}

static void
test_figures_of_threads_are_those_by_hand(void **state)
{
    g_autoptr(GRand) rand = chance_rand();
    struct vg_cpu_figures figures, *row = &figures;
    json_object *object = json_object_new_object(), *exits = json_object_new_object();
    json_object *ours = json_object_new_object();

    (void)state;
    for (size_t i = 0; i < sizeof(figures) / sizeof(int64_t); i++) {
        const int64_t value = g_rand_int_range(rand, 1, S);
        memcpy((char *)&figures + i * sizeof(value), &value, sizeof(value));
    }
    ADD_INT(observed_ns, true);
    ADD_INT(run_ns, true);
    ADD_INT(entries, true);
    ADD_INT(guest_ns, true);
    add_by_hand_int(object, "hyp_ns", row->run_ns - row->guest_ns, true);
    ADD_INT(preempt_ns, true);
    ADD_INT(preemptions, true);
    ADD_INT(wake_wait_ns, true);
    ADD_INT(wakeups, true);
    ADD_INT(blocked_ns, true);
    ADD_INT(blocks, true);
    ADD_INT(switches_out, true);
    ADD_INT(unseen_migrations, true);
    ADD_INT(clipped, true);
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++)
        add_by_hand_int(exits, vg_exit_class_name((enum vg_exit_class)i), (int64_t)row->exits[i],
                        true);
    vg_json_add(object, "exits", exits);
    vg_json_add_figures(ours, row, 0);
    assert_same_text(ours, object);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_those_by_hand),
        cmocka_unit_test(test_cuts_are_those_by_hand),
        cmocka_unit_test(test_a_total_without_parts_is_cut),
        cmocka_unit_test(test_documents_are_those_by_hand),
        cmocka_unit_test(test_figures_of_threads_are_those_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
