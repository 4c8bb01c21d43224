/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of libvirt that hang are given up: nobody waits for them, and they are counted until they
 * come back. The calls here are made up; no libvirt is asked.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <libvirt/virterror.h>

#include "actuators/virt-hang.h"
#include "actuators/virt-link.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "host/virt-event.h"

#define MS     VG_NS_PER_MS
#define HANG_S 60

static atomic_uint freed, begun;

/* A call that hangs until it is let go. */
struct stuck {
    struct vg_virt_job base; /* first */
    atomic_bool *let_go;
    bool connecting;
    bool tells;
    int result;
};

static int
stuck_run(struct vg_virt_job *job, vg_virt_host *host, GError **err)
{
    struct stuck *stuck = (struct stuck *)job;

    atomic_store(&host->connecting, stuck->connecting);
    atomic_fetch_add(&begun, 1);
    while (stuck->let_go && !atomic_load(stuck->let_go))
        vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + MS);
    atomic_store(&host->connecting, false);
    if (stuck->tells)
        job->verb.tell(job->verb.data, NULL, "told");
    return stuck->result == 0 ? 0 : vg_error(err, VG_E_CONFLICT, "as it was told to");
}

static void
stuck_free(struct vg_virt_job *job)
{
    atomic_fetch_add(&freed, 1);
    g_free(job);
}

static struct stuck *
stuck_new(atomic_bool *let_go, const struct vg_verb *limits)
{
    struct stuck *stuck = g_new0(struct stuck, 1);

    vg_virt_job_init(&stuck->base, "to be stuck", stuck_run, stuck_free, limits);
    /* One that is let go at once has all the time that a busy machine may need. */
    stuck->base.call_ns = let_go ? 100 * MS : HANG_S * VG_NS_PER_S;
    stuck->let_go = let_go;
    return stuck;
}

/* Has a call hang on a link of its own, and be given up. */
static void
stuck_give_up(vg_virt_link *link, atomic_bool *let_go, bool connecting)
{
    struct stuck *stuck = stuck_new(let_go, NULL);
    g_autoptr(GError) err = NULL;

    stuck->connecting = connecting;
    /* A busy machine needs its time until the thread has said so. */
    if (connecting)
        stuck->base.call_ns = VG_NS_PER_S;
    assert_int_equal(vg_virt_call(link, &stuck->base, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_TIMEOUT));
    assert_non_null(strstr(err->message, "to be stuck"));
    assert_non_null(strstr(err->message, "test:///default"));
}

static void
wait_until_none_hangs(void)
{
    for (int i = 0; i < HANG_S * 1000 && vg_virt_hangs_now() > 0; i++)
        vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + MS);
    assert_int_equal(vg_virt_hangs_now(), 0);
}

static vg_virt_link *
open_link(void)
{
    vg_virt_link *link = vg_virt_link_open("test:///default", NULL);

    assert_non_null(link);
    return link;
}

static void
test_what_came_of_a_job(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    g_autoptr(GError) err = NULL;
    struct stuck *good = stuck_new(NULL, NULL), *bad = stuck_new(NULL, NULL);

    (void)state;
    atomic_store(&freed, 0);
    assert_int_equal(vg_virt_call(link, &good->base, &err), 0);
    assert_int_equal(atomic_load(&freed), 0);
    stuck_free(&good->base);
    bad->result = -1;
    assert_int_equal(vg_virt_call(link, &bad->base, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
    assert_int_equal(atomic_load(&freed), 2);
    assert_int_equal(vg_virt_hangs_total(), 0);
}

static void
test_nobody_waits_for_what_hangs(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false;
    const uint64_t total = vg_virt_hangs_total();

    (void)state;
    atomic_store(&freed, 0);
    stuck_give_up(link, &let_go, false);
    assert_int_equal(vg_virt_hangs_total(), total + 1);
    g_autoptr(GPtrArray) hangs = vg_virt_hangs();
    assert_int_equal(hangs->len, 1);
    const struct vg_virt_hang *hang = hangs->pdata[0];
    assert_string_equal(hang->uri, "test:///default");
    assert_string_equal(hang->what, "to be stuck");
    assert_false(hang->connecting);
    assert_true(hang->since_ns <= vg_clock_realtime_ns());

    /* The same link goes on beside it. */
    struct stuck *next = stuck_new(NULL, NULL);
    assert_int_equal(vg_virt_call(link, &next->base, NULL), 0);
    stuck_free(&next->base);
    assert_int_equal(atomic_load(&freed), 1);
    assert_int_equal(vg_virt_hangs_now(), 1);

    atomic_store(&let_go, true);
    wait_until_none_hangs();
    assert_int_equal(atomic_load(&freed), 2);
    assert_int_equal(vg_virt_hangs_total(), total + 1);
}

static void
count_told(void *data, const struct vg_migration_progress *progress, const char *text)
{
    (void)progress;
    assert_string_equal(text, "told");
    (*(int *)data)++;
}

static void
test_what_was_given_up_tells_nothing(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false;
    int told = 0;
    const struct vg_verb limits = {.deadline_ns = INT64_MAX, .tell = count_told, .data = &told};
    struct stuck *one = stuck_new(NULL, &limits), *two = stuck_new(&let_go, &limits);

    (void)state;
    one->tells = two->tells = true;
    assert_int_equal(vg_virt_call(link, &one->base, NULL), 0);
    stuck_free(&one->base);
    assert_int_equal(told, 1);
    assert_int_equal(vg_virt_call(link, &two->base, NULL), -1);
    atomic_store(&let_go, true);
    wait_until_none_hangs();
    assert_int_equal(told, 1);
}

/* A call that sees that libvirt does not come to an end, and hangs then. */
static int
despair_run(struct vg_virt_job *job, vg_virt_host *host, GError **err)
{
    g_autoptr(GError) why = g_error_new_literal(VG_ERROR, VG_E_EXTERNAL, "nothing gets through");

    vg_virt_host_despair(host, why);
    return stuck_run(job, host, err);
}

static void
test_a_call_without_hope_is_given_up_for_its_reason(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    g_autoptr(GError) err = NULL;
    atomic_bool let_go = false;
    struct stuck *stuck = stuck_new(&let_go, NULL), *next = stuck_new(NULL, NULL);

    (void)state;
    stuck->base.run = despair_run;
    stuck->base.call_ns = INT64_MAX;
    assert_int_equal(vg_virt_call(link, &stuck->base, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_EXTERNAL));
    assert_string_equal(err->message, "nothing gets through");
    assert_int_equal(vg_virt_hangs_now(), 1);
    assert_int_equal(vg_virt_call(link, &next->base, NULL), 0);
    stuck_free(&next->base);
    atomic_store(&let_go, true);
    wait_until_none_hangs();
}

/* Takes the two seconds that libvirt has to answer. */
static void
test_cancel_does_not_wait_for_what_hangs(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false, cancel = true;
    const struct vg_verb limits = {.deadline_ns = INT64_MAX, .cancel = &cancel};
    struct stuck *stuck = stuck_new(&let_go, &limits);

    (void)state;
    stuck->base.call_ns = INT64_MAX;
    assert_int_equal(vg_virt_call(link, &stuck->base, NULL), -1);
    atomic_store(&let_go, true);
    wait_until_none_hangs();
}

static void
test_only_so_many_hang(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false;
    g_autoptr(GError) err = NULL;

    (void)state;
    for (int i = 0; i < VG_VIRT_HANGS_MAX; i++)
        stuck_give_up(link, &let_go, false);
    struct stuck *more = stuck_new(NULL, NULL);
    assert_int_equal(vg_virt_call(link, &more->base, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_TIMEOUT));
    assert_int_equal(vg_virt_hangs_now(), VG_VIRT_HANGS_MAX);
    assert_int_equal(vg_virt_hang_check("test:///another", false, NULL), 0);

    atomic_store(&let_go, true);
    wait_until_none_hangs();
    more = stuck_new(NULL, NULL);
    assert_int_equal(vg_virt_call(link, &more->base, NULL), 0);
    stuck_free(&more->base);
}

static void
test_a_libvirtd_that_hangs_is_tried_again_later(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false;
    g_autoptr(GError) err = NULL;

    (void)state;
    stuck_give_up(link, &let_go, true);
    g_autoptr(GPtrArray) hangs = vg_virt_hangs();
    assert_int_equal(hangs->len, 1);
    assert_true(((struct vg_virt_hang *)hangs->pdata[0])->connecting);
    assert_int_equal(vg_virt_hang_check("test:///default", true, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_TIMEOUT));
    assert_non_null(strstr(err->message, "has not answered since 20"));
    /* A connection that is there is not kept from its work. */
    assert_int_equal(vg_virt_hang_check("test:///default", false, NULL), 0);

    /* One that is opened meanwhile shows that libvirtd is well, whatever the old one does. */
    vg_virt_hang_connected("test:///default");
    assert_int_equal(vg_virt_hang_check("test:///default", true, NULL), 0);
    g_autoptr(GPtrArray) none = vg_virt_hangs();
    assert_int_equal(none->len, 0);
    assert_int_equal(vg_virt_hangs_now(), 1);
    atomic_store(&let_go, true);
    wait_until_none_hangs();
}

static void
end_links(vg_thread *self, void *arg)
{
    (void)self;
    (void)arg;
    while (atomic_load(&begun) == 0)
        vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + MS);
    vg_virt_links_end();
}

/* Is the last one: there are no calls afterwards. */
static void
test_the_end_waits_for_nothing(void **state)
{
    g_autoptr(vg_virt_link) link = open_link();
    atomic_bool let_go = false;
    g_autoptr(GError) err = NULL;
    struct stuck *stuck = stuck_new(&let_go, NULL);

    (void)state;
    stuck->base.call_ns = INT64_MAX;
    atomic_store(&begun, 0);
    vg_thread *other = vg_thread_new("end", end_links, NULL, NULL, NULL);
    assert_int_equal(vg_virt_call(link, &stuck->base, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_BUSY));
    vg_thread_free(other);
    assert_int_equal(vg_virt_hangs_now(), 1);
    assert_null(vg_virt_link_open("test:///default", NULL));
    atomic_store(&let_go, true);
    wait_until_none_hangs();
}

static int
stop_loop(void **state)
{
    (void)state;
    vg_virt_event_stop();
    return 0;
}

/* A message that names the domain also says why libvirt failed. */
static void
test_reason(void **state)
{
    char uri[] = "test:///default";
    vg_virt_host host = {.uri = uri, .connection = virConnectOpen(uri)};
    g_autoptr(GError) err = NULL;

    (void)state;
    assert_non_null(host.connection);
    virDomainPtr domain = virDomainLookupByName(host.connection, "test");
    assert_non_null(domain);
    assert_int_equal(virDomainCreate(domain), -1); /* it runs already */
    g_autofree char *why = g_strdup(virGetLastErrorMessage());
    assert_int_equal(
        vg_virt_host_failed(&host, &err, "'%s' cannot start", virDomainGetName(domain)), -1);
    g_autofree char *wanted = g_strdup_printf("'test' cannot start on '%s': %s", uri, why);
    assert_string_equal(err->message, wanted);
    assert_string_not_equal(why, "no error");
    virDomainFree(domain);
    virConnectClose(host.connection);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_came_of_a_job),
        cmocka_unit_test(test_nobody_waits_for_what_hangs),
        cmocka_unit_test(test_what_was_given_up_tells_nothing),
        cmocka_unit_test(test_a_call_without_hope_is_given_up_for_its_reason),
        cmocka_unit_test(test_cancel_does_not_wait_for_what_hangs),
        cmocka_unit_test(test_only_so_many_hang),
        cmocka_unit_test(test_a_libvirtd_that_hangs_is_tried_again_later),
        cmocka_unit_test(test_the_end_waits_for_nothing),
        cmocka_unit_test(test_reason),
    };

    return cmocka_run_group_tests(tests, NULL, stop_loop);
}
