/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over more processes than there are rows, in orders that are meant to push one out.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <glib.h>

#include "model/window-sum.h"
#include "tests/unit/chance.h"

static void
add_row(struct vg_window *sum, int32_t pid, const char *comm, int64_t ns)
{
    struct vg_window window;
    struct vg_vm_sample vm;
    struct vg_lost_process process = {.pid = pid, .pids = 1, .ns = ns, .count = 1};

    vg_window_init(&window, false);
    vg_vm_sample_init(&vm);
    g_strlcpy(process.comm, comm, sizeof(process.comm));
    g_array_append_val(vm.lost_processes, process);
    g_array_append_val(window.vms, vm);
    window.end_ns = sum->end_ns + 1;
    vg_window_add(sum, &window);
    vg_window_clear(&window);
}

#define NAMES_MAX 4096

/* A sum, and beside it the true sum of each name. */
struct crowd {
    struct vg_window sum;
    int64_t truth[NAMES_MAX];
    int64_t all;
};

static void
crowd_add(struct crowd *crowd, int name, int64_t ns)
{
    char comm[VG_COMM_LEN];

    g_snprintf(comm, sizeof(comm), "n%d", name);
    add_row(&crowd->sum, 1 + name, comm, ns);
    crowd->truth[name] += ns;
    crowd->all += ns;
}

/* What the header promises: bounds of each row, of the errors, and who has a row. Returns what the
 * first name has. */
static int64_t
crowd_check(struct crowd *crowd)
{
    const GArray *rows = g_array_index(crowd->sum.vms, struct vg_vm_sample, 0).lost_processes;
    const int64_t bound = crowd->all / VG_SUM_LOST_PROCESSES_MAX;
    g_autofree bool *has_row = g_new0(bool, NAMES_MAX);
    int64_t first = 0;

    assert_true(rows->len <= VG_SUM_LOST_PROCESSES_MAX);
    for (guint i = 0; i < rows->len; i++) {
        const struct vg_lost_process *row = &g_array_index(rows, struct vg_lost_process, i);
        const int name = atoi(row->comm + 1);
        assert_true(row->ns <= crowd->truth[name]);
        assert_true(row->ns + row->error_ns >= crowd->truth[name]);
        assert_true(row->error_ns <= bound);
        assert_true(i == 0 || row->ns <= row[-1].ns);
        has_row[name] = true;
        if (name == 0)
            first = row->ns;
    }
    for (int i = 0; i < NAMES_MAX; i++)
        assert_true(has_row[i] || crowd->truth[i] <= bound);
    vg_window_clear(&crowd->sum);
    g_free(crowd);
    return first;
}

static struct crowd *
crowd_new(void)
{
    struct crowd *crowd = g_new0(struct crowd, 1);

    vg_window_init(&crowd->sum, false);
    return crowd;
}

/* All rows have a name when a steady one comes, with two others each second that never come back.
 */
static void
test_steady_late(void **state)
{
    struct crowd *crowd = crowd_new();

    (void)state;
    for (int i = 0; i < VG_SUM_LOST_PROCESSES_MAX; i++)
        crowd_add(crowd, 1 + i, 600);
    for (int i = 0; i < 1000; i++) {
        crowd_add(crowd, 0, 400);
        crowd_add(crowd, 100 + 2 * i, 1);
        crowd_add(crowd, 101 + 2 * i, 1);
    }
    assert_int_equal(crowd_check(crowd), 1000 * 400);
}

/* Orders that are meant to push one out: the smallest comes back just after it lost its row. */
static void
test_hostile_orders(void **state)
{
    struct crowd *crowd = crowd_new();
    GRand *rand = chance_rand();

    (void)state;
    for (int i = 0; i < 200 * (VG_SUM_LOST_PROCESSES_MAX + 1); i++)
        crowd_add(crowd, i % (VG_SUM_LOST_PROCESSES_MAX + 1), 10);
    crowd_check(crowd);
    /* Growing, so that each newcomer is more than all before it. */
    crowd = crowd_new();
    for (int i = 0; i < 2000; i++)
        crowd_add(crowd, i % 1000, 1 + i);
    crowd_check(crowd);
    /* One that takes a little, always after as many newcomers as there are rows. */
    crowd = crowd_new();
    for (int i = 0; i < NAMES_MAX - 1; i++) {
        crowd_add(crowd, 1 + i, 3);
        if (i % VG_SUM_LOST_PROCESSES_MAX == 0)
            crowd_add(crowd, 0, 40);
    }
    crowd_check(crowd);
    for (int round = 0; round < 20; round++) {
        crowd = crowd_new();
        for (int i = 0; i < 3000; i++) {
            const int range = 1 << (1 + i % 12);
            crowd_add(crowd, g_rand_int_range(rand, 0, range),
                      g_rand_int_range(rand, 1, 1 << (1 + i % 9)));
        }
        crowd_check(crowd);
    }
    g_rand_free(rand);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_late),
        cmocka_unit_test(test_hostile_orders),
    };

    return cmocka_run_group_tests_name("process-sum", tests, NULL, NULL);
}
