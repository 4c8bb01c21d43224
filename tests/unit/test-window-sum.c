/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sum of windows tells of GPUs.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/window-sum.h"

#define S   INT64_C(1000000000)
#define MIB (INT64_C(1) << 20)

static void
assert_near(double a, double b)
{
    if (a - b > 1e-9 || b - a > 1e-9)
        fail_msg("%.12g is not %.12g", a, b);
}

/* Who has a row in a window. */
enum who { NOBODY, OF_DEVICE = 1, OF_VM = 2, OF_PROCESS = 4, ALL = 7 };

/* A window of one second that ends at end_s, of a VM that is there all the time. */
static struct vg_window
window_with(int64_t end_s, enum who who, struct vg_gpu_sample row)
{
    struct vg_window window;
    struct vg_vm_sample vm;
    struct vg_gpu_process_sample process = {.pid = 9};

    g_strlcpy(row.device, "venus", sizeof(row.device));
    g_strlcpy(row.engine, "cpu", sizeof(row.engine));
    process.gpu = row;
    vg_window_init(&window, false);
    window.begin_ns = (end_s - 1) * S;
    window.end_ns = end_s * S;
    vg_vm_sample_init(&vm);
    vm.id = 1;
    g_strlcpy(vm.name, "vm", sizeof(vm.name));
    if (who & OF_VM)
        g_array_append_val(vm.gpus, row);
    g_array_append_val(window.vms, vm);
    if (who & OF_DEVICE)
        g_array_append_val(window.gpus, row);
    if (who & OF_PROCESS)
        g_array_append_val(window.gpu_processes, process);
    return window;
}

static void
add(struct vg_window *sum, int64_t end_s, enum who who, struct vg_gpu_sample row)
{
    struct vg_window window = window_with(end_s, who, row);

    vg_window_add_live(sum, &window);
    vg_window_clear(&window);
}

/* Row i of three: the device, the VM, the process. */
static const struct vg_gpu_sample *
row_of(const struct vg_window *sum, unsigned i)
{
    const GArray *of_vm = vg_window_vm(sum, 1)->gpus;

    if (i == 0)
        return &g_array_index(sum->gpus, struct vg_gpu_sample, 0);
    return i == 1 ? &g_array_index(of_vm, struct vg_gpu_sample, 0)
                  : &g_array_index(sum->gpu_processes, struct vg_gpu_process_sample, 0).gpu;
}

/* The last guest ends its contexts, or a program its work: nothing is held or waits any more. */
static void
test_what_is_held_ends_with_its_row(void **state)
{
    const struct vg_gpu_sample busy = {.requests = 4,
                                       .wait_ns = 2 * S,
                                       .queue_len_avg = 2,
                                       .queue_len_max = 3,
                                       .mem_bytes = 8 * MIB,
                                       .mem_peak_bytes = 16 * MIB,
                                       .contexts = 2,
                                       .confidence = 1};
    struct vg_window sum;

    (void)state;
    vg_window_init(&sum, false);
    add(&sum, 1, ALL, busy);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(row_of(&sum, i)->mem_bytes, 8 * MIB);
        assert_int_equal(row_of(&sum, i)->contexts, 2);
    }
    add(&sum, 2, NOBODY, busy);
    for (unsigned i = 0; i < 3; i++) {
        const struct vg_gpu_sample *row = row_of(&sum, i);
        assert_int_equal(row->mem_bytes, 0);
        assert_int_equal(row->contexts, 0);
        assert_int_equal(row->mem_peak_bytes, 16 * MIB);
        assert_int_equal(row->requests, 4);
        assert_int_equal(row->queue_len_max, 3);
    }
    /* Only who is told of has it again. */
    add(&sum, 3, OF_VM, busy);
    assert_int_equal(row_of(&sum, 1)->mem_bytes, 8 * MIB);
    assert_int_equal(row_of(&sum, 0)->mem_bytes, 0);
    assert_int_equal(row_of(&sum, 2)->mem_bytes, 0);
    vg_window_clear(&sum);
}

/* The mean is what waited by the length of the sum, whenever it waited and also where windows are
 * missing. */
static void
test_the_queue_is_a_mean_of_all(void **state)
{
    static const struct {
        int64_t ends[4]; /* s; negative: a window without the row; 0: none */
    } cases[] = {{{1, 2, 3, 4}}, {{-1, -2, -3, 4}}, {{1, -2, -3, -4}}, {{-1, 2, -3, 4}},
                 {{1, 4, 0, 0}}, {{-1, 9, 0, 0}},   {{1, 9, -10, 0}}};
    const struct vg_gpu_sample busy = {.wait_ns = 3 * S, .queue_len_avg = 3, .confidence = 1};

    (void)state;
    for (size_t c = 0; c < G_N_ELEMENTS(cases); c++) {
        struct vg_window sum;
        vg_window_init(&sum, false);
        for (size_t k = 0; k < G_N_ELEMENTS(cases[c].ends) && cases[c].ends[k] != 0; k++) {
            const int64_t end = cases[c].ends[k];
            add(&sum, end < 0 ? -end : end, end < 0 ? NOBODY : ALL, busy);
        }
        for (unsigned i = 0; i < 3; i++) {
            const struct vg_gpu_sample *row = row_of(&sum, i);
            assert_near(row->queue_len_avg,
                        (double)row->wait_ns / (double)(sum.end_ns - sum.begin_ns));
            assert_near(row->confidence, 1);
        }
        vg_window_clear(&sum);
    }
}

/* Of the windows that told, however long nobody did before and between. */
static void
test_confidence_is_of_who_told(void **state)
{
    struct vg_window sum;

    (void)state;
    vg_window_init(&sum, false);
    add(&sum, 1, NOBODY, (struct vg_gpu_sample){0});
    add(&sum, 2, NOBODY, (struct vg_gpu_sample){0});
    add(&sum, 3, ALL, (struct vg_gpu_sample){.confidence = 0.5});
    add(&sum, 4, NOBODY, (struct vg_gpu_sample){0});
    add(&sum, 5, ALL, (struct vg_gpu_sample){.confidence = 1});
    for (unsigned i = 0; i < 3; i++)
        assert_near(row_of(&sum, i)->confidence, 0.75);
    vg_window_clear(&sum);
}

/* Windows of 100, 150 and 200 requests: none has as many as those before it together. */
static void
test_percentiles_are_those_of_most_requests(void **state)
{
    struct vg_window sum, pieces;

    (void)state;
    vg_window_init(&sum, false);
    for (int64_t i = 0; i < 4; i++) {
        const int64_t n = i < 3 ? 100 + 50 * i : 10;
        add(&sum, i + 1, ALL,
            (struct vg_gpu_sample){
                .requests = (uint64_t)n, .latency_mean_ns = n + 1, .latency_p99_ns = n + 2});
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(row_of(&sum, i)->requests, 460);
        assert_int_equal(row_of(&sum, i)->latency_mean_ns, 201);
        assert_int_equal(row_of(&sum, i)->latency_p99_ns, 202);
    }
    /* A window that is a sum itself, of more requests but of no piece with more. */
    struct vg_window first = window_with(5, ALL, (struct vg_gpu_sample){.requests = 190});
    struct vg_window second =
        window_with(6, ALL, (struct vg_gpu_sample){.requests = 180, .latency_mean_ns = 5});
    vg_window_copy(&pieces, &first);
    vg_window_add(&pieces, &second);
    vg_window_add_live(&sum, &pieces);
    assert_int_equal(row_of(&sum, 0)->requests, 830);
    assert_int_equal(row_of(&sum, 0)->latency_mean_ns, 201);
    vg_window_clear(&first);
    vg_window_clear(&second);
    vg_window_clear(&pieces);
    vg_window_clear(&sum);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_held_ends_with_its_row),
        cmocka_unit_test(test_the_queue_is_a_mean_of_all),
        cmocka_unit_test(test_confidence_is_of_who_told),
        cmocka_unit_test(test_percentiles_are_those_of_most_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
