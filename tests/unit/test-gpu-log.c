/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model/gpu-log.h"

#define S VG_NS_PER_S

/* A window of one second with two engines of two GPUs and two VMs. */
static struct vg_window
window_at(int64_t end_ns)
{
    static const char *const names[][2] = {{"card0", "rcs0"}, {"card1", "rcs0"}};
    struct vg_window window;

    vg_window_init(&window, false);
    window.begin_ns = end_ns - S;
    window.end_ns = end_ns;
    for (uint32_t i = 0; i < 2; i++) {
        struct vg_gpu_sample gpu = {0};
        struct vg_vm_sample vm;
        g_strlcpy(gpu.device, names[i][0], sizeof(gpu.device));
        g_strlcpy(gpu.engine, names[i][1], sizeof(gpu.engine));
        g_array_append_val(window.gpus, gpu);
        vg_vm_sample_init(&vm);
        vm.id = 7 + i;
        g_snprintf(vm.name, sizeof(vm.name), "vm-%u", i);
        g_array_append_val(window.vms, vm);
    }
    return window;
}

static void
add(struct vg_window *window, uint32_t gpu, uint32_t vm, int64_t end_ns)
{
    static uint64_t seqno;
    const struct vg_gpu_request_sample request = {
        .gpu = gpu, .vm = vm, .seqno = ++seqno, .end_ns = end_ns};

    g_array_append_val(window->gpu_requests, request);
}

static vg_gpu_log *
put(vg_gpu_log *take_log, struct vg_window window)
{
    vg_gpu_log *log = vg_gpu_log_add(take_log, &window);

    vg_window_clear(&window);
    return log;
}

static const struct vg_gpu_log_query everything = {
    .device = "card0", .since_ns = INT64_MIN, .until_ns = INT64_MAX, .limit = SIZE_MAX};

static guint
count(const vg_gpu_log *log, struct vg_gpu_log_query query)
{
    struct vg_gpu_log_page page;

    vg_gpu_log_read(log, &query, 0, &page);
    guint n = page.entries->len;
    vg_gpu_log_page_clear(&page);
    return n;
}

static int64_t
moment(const struct vg_gpu_log_page *page, guint i)
{
    return g_array_index(page->entries, struct vg_gpu_log_entry, i).request->at_ns;
}

static void
test_nothing(void **state)
{
    struct vg_gpu_log_page page;

    (void)state;
    vg_gpu_log_read(NULL, &everything, 5, &page);
    assert_int_equal(page.entries->len, 0);
    assert_int_equal(page.next_ns, 5);
    assert_false(page.more);
    vg_gpu_log_page_clear(&page);
    assert_false(vg_gpu_log_has_vm(NULL, "vm-0"));
    assert_null(put(NULL, window_at(S)));
    vg_gpu_log_unref(NULL);
}

/* Ends that are equal, out of order, or before the window. */
static void
test_each_has_a_moment_of_its_own(void **state)
{
    struct vg_window window = window_at(2 * S);
    struct vg_gpu_log_page page;

    (void)state;
    add(&window, 0, 7, S + 9);
    add(&window, 0, 7, S + 9);
    add(&window, 0, 7, 5);
    add(&window, 0, 8, VG_TIME_UNKNOWN);
    add(&window, 0, 7, 2 * S);
    add(&window, 0, 7, 2 * S);
    g_autoptr(vg_gpu_log) log = put(NULL, window);
    window = window_at(3 * S);
    add(&window, 0, 7, 2 * S);
    log = put(g_steal_pointer(&log), window);
    vg_gpu_log_read(log, &everything, 3 * S, &page);
    const int64_t want[] = {S + 1, S + 2, S + 9, S + 10, 2 * S, 2 * S + 1, 2 * S + 2};
    assert_int_equal(page.entries->len, G_N_ELEMENTS(want));
    for (guint i = 0; i < page.entries->len; i++)
        assert_int_equal(moment(&page, i), want[i]);
    assert_int_equal(page.next_ns, 3 * S);
    vg_gpu_log_page_clear(&page);
}

static void
test_names_are_of_their_time(void **state)
{
    struct vg_window window = window_at(S);
    struct vg_gpu_log_query query = everything;
    struct vg_gpu_log_page page;

    (void)state;
    add(&window, 0, 7, 1);
    add(&window, 0, VG_PROCESS_NO_ID, 2);
    add(&window, 0, 99, 3); /* of a VM that the window does not have */
    g_autoptr(vg_gpu_log) log = put(NULL, window);
    window = window_at(2 * S);
    g_strlcpy(vg_window_find_vm(&window, 7)->name, "other", VG_VM_NAME_MAX);
    g_strlcpy(vg_window_find_vm(&window, 7)->uuid, "aaaaaaaa-0000-4000-8000-000000000000",
              VG_UUID_LEN);
    add(&window, 0, 7, S + 1);
    add(&window, 1, 7, S + 2);
    log = put(g_steal_pointer(&log), window);
    assert_int_equal(count(log, query), 4);
    query.vm = "vm-0";
    assert_int_equal(count(log, query), 1);
    query.vm = "AAAAAAAA-0000-4000-8000-000000000000";
    vg_gpu_log_read(log, &query, 0, &page);
    assert_int_equal(page.entries->len, 1);
    const struct vg_gpu_log_entry *entry = &g_array_index(page.entries, struct vg_gpu_log_entry, 0);
    assert_string_equal(
        g_array_index(entry->chunk->vms, struct vg_gpu_log_vm, entry->request->request.vm).name,
        "other");
    vg_gpu_log_page_clear(&page);
    query.vm = NULL;
    query.device = "card1";
    assert_int_equal(count(log, query), 1);
    assert_true(vg_gpu_log_has_vm(log, "vm-0"));
    assert_false(vg_gpu_log_has_vm(log, "vm-1"));
}

/* Whatever the pages are, each request is on one of them. */
static void
test_pages(void **state)
{
    g_autoptr(vg_gpu_log) log = NULL;

    (void)state;
    for (int64_t w = 1; w <= 40; w++) {
        struct vg_window window = window_at(w * S);
        for (int64_t i = 0; i < w * 7 % 90; i++)
            add(&window, i % 3 == 0, 7, (w - 1) * S + 1 + i / 4);
        log = put(log, window);
    }
    guint whole = count(log, everything);
    assert_true(whole > 500);
    for (size_t limit = 1; limit < 700; limit += limit < 10 ? 1 : 229) {
        struct vg_gpu_log_query query = everything;
        struct vg_gpu_log_page page = {.more = true};
        int64_t last = INT64_MIN;
        guint n = 0;
        query.limit = limit;
        while (page.more) {
            vg_gpu_log_read(log, &query, 40 * S, &page);
            assert_true(page.entries->len <= limit);
            assert_true(!page.more || page.entries->len == limit);
            for (guint i = 0; i < page.entries->len; i++) {
                assert_true(moment(&page, i) > last);
                last = moment(&page, i);
            }
            n += page.entries->len;
            query.since_ns = page.next_ns;
            vg_gpu_log_page_clear(&page);
        }
        assert_int_equal(n, whole);
        assert_int_equal(query.since_ns, 40 * S);
    }
    struct vg_gpu_log_query query = everything;
    query.since_ns = 3 * S;
    query.until_ns = 5 * S;
    assert_int_equal(count(log, query), 18 + 23);
}

/* One that is held stays as it is, while others are made of it and it is let go elsewhere. */
static void
test_a_log_never_changes(void **state)
{
    struct vg_window window = window_at(S);

    (void)state;
    add(&window, 0, 7, 1);
    g_autoptr(vg_gpu_log) log = put(NULL, window);
    g_autoptr(vg_gpu_log) held = vg_gpu_log_ref(log);
    for (int64_t w = 2; w < 200; w++) {
        window = window_at(w * S);
        for (int64_t i = 0; i < 1000; i++)
            add(&window, 0, 7, (w - 1) * S + 1 + i);
        log = put(g_steal_pointer(&log), window);
    }
    assert_int_equal(count(held, everything), 1);
    assert_int_equal(held->dropped_ns, VG_TIME_UNKNOWN);
    assert_true(count(log, everything) <= VG_GPU_LOG_REQUESTS_MAX);
}

static void
test_limits(void **state)
{
    g_autoptr(vg_gpu_log) log = NULL;
    const int64_t all = 90000;

    (void)state;
    /* Small windows share chunks. Request n ends at n. */
    for (int64_t n = 0; n < all;) {
        struct vg_window window = window_at(n + 90);
        for (int i = 0; i < 90; i++)
            add(&window, 0, 7, ++n);
        log = put(log, window);
    }
    assert_true(log->n_requests <= VG_GPU_LOG_REQUESTS_MAX);
    assert_true(log->n_requests > VG_GPU_LOG_REQUESTS_MAX - VG_GPU_LOG_CHUNK_MAX);
    assert_true(log->chunks->len <= 2 * VG_GPU_LOG_REQUESTS_MAX / VG_GPU_LOG_CHUNK_MAX + 1);
    assert_int_equal(log->dropped_ns, all - (int64_t)log->n_requests);
    assert_int_equal(count(log, everything), log->n_requests);
    /* One that is larger than the log. */
    struct vg_window window = window_at(200000 * S);
    for (int64_t i = 0; i < VG_GPU_LOG_REQUESTS_MAX + 5; i++)
        add(&window, 0, 7, 199999 * S + 1 + i);
    log = put(g_steal_pointer(&log), window);
    assert_int_equal(log->n_requests, VG_GPU_LOG_REQUESTS_MAX);
    assert_int_equal(log->chunks->len, 1);
    assert_int_equal(log->dropped_ns, 199999 * S + 5);
}

static void
test_left_out(void **state)
{
    struct vg_window window = window_at(S);
    struct vg_gpu_log_query query = everything;
    struct vg_gpu_log_page page;

    (void)state;
    add(&window, 0, 7, 10);
    add(&window, 0, 7, 20);
    g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 0).left_out = 3;
    g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 1).left_out = 4;
    g_autoptr(vg_gpu_log) log = put(NULL, window);
    window = window_at(2 * S);
    add(&window, 0, 7, S + 10);
    log = put(g_steal_pointer(&log), window);
    /* Each page tells of its own part of the time. */
    const uint64_t want[] = {3, 4, 0, 0};
    query.limit = 1;
    for (guint i = 0; i < G_N_ELEMENTS(want); i++) {
        vg_gpu_log_read(log, &query, 2 * S, &page);
        assert_int_equal(page.left_out, want[i]);
        query.since_ns = page.next_ns;
        vg_gpu_log_page_clear(&page);
    }
    query = everything;
    query.until_ns = 19;
    vg_gpu_log_read(log, &query, 2 * S, &page);
    assert_int_equal(page.left_out, 3);
    assert_int_equal(page.next_ns, 19);
    vg_gpu_log_page_clear(&page);
    query.until_ns = 20;
    vg_gpu_log_read(log, &query, 2 * S, &page);
    assert_int_equal(page.left_out, 7);
    vg_gpu_log_page_clear(&page);
    query = everything;
    query.since_ns = 15;
    vg_gpu_log_read(log, &query, 2 * S, &page);
    assert_int_equal(page.left_out, 4);
    vg_gpu_log_page_clear(&page);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_each_has_a_moment_of_its_own),
        cmocka_unit_test(test_names_are_of_their_time),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_a_log_never_changes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
