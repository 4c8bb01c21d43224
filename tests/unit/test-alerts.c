/* SPDX-License-Identifier: Apache-2.0
 *
 * When an alert is raised and when it ends: what is expected is worked out by hand.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glib.h>

#include "base/clock.h"
#include "engine/alerts.h"

/* One VM in a window: its name, "" for none of it, and ms that it lost. */
struct lost {
    const char *vm;
    int64_t ms;
};

static void
write_change(void *data, const struct vg_alert_change *change)
{
    GString *text = data;

    g_string_append_printf(text, "%s %s %s%s%s %.3f%s%s; ", change->rule->name,
                           change->raised ? "raised" : "cleared", change->vm ? change->vm : "-",
                           change->display_name ? "/" : "",
                           change->display_name ? change->display_name : "", change->lost_cores,
                           change->reason ? " " : "", change->reason ? change->reason : "");
}

/* The windows' clock + this = epoch. */
#define EPOCH_NS (1000000 * VG_NS_PER_S)

/* "alpha" is web-1 in OpenStack. */
static const char *
find_name(void *names, const struct vg_vm_sample *vm)
{
    (void)names;
    return strcmp(vm->name, "alpha") == 0 ? "web-1" : NULL;
}

/* Windows of a length that begin where the one before ended; what they change must be that. */
static void
step(vg_alerts *alerts, int64_t length_ms, const struct lost *lost, size_t n, const char *want)
{
    static int64_t now_ns;
    g_autoptr(GString) got = g_string_new(NULL);
    struct vg_window window;

    vg_window_init(&window, false);
    window.begin_ns = now_ns;
    now_ns += length_ms * VG_NS_PER_MS;
    window.end_ns = now_ns;
    for (size_t i = 0; i < n; i++) {
        struct vg_vm_sample vm;
        vg_vm_sample_init(&vm);
        vm.id = (uint32_t)i;
        g_strlcpy(vm.name, lost[i].vm, sizeof(vm.name));
        vm.cpu.preempt_ns = lost[i].ms * VG_NS_PER_MS / 4;
        vm.cpu.wake_wait_ns = lost[i].ms * VG_NS_PER_MS - vm.cpu.preempt_ns;
        g_array_append_val(window.vms, vm);
    }
    vg_alerts_step(alerts, &window, EPOCH_NS, find_name, NULL, write_change, got);
    vg_window_clear(&window);
    assert_string_equal(got->str, want);
}

#define STEP(alerts, ms, want, ...)                                                                \
 step(alerts, ms, (const struct lost[]){__VA_ARGS__},                                              \
      sizeof((const struct lost[]){__VA_ARGS__}) / sizeof(struct lost), want)

static void
test_host(void **state)
{
    const struct vg_alert_rule rule = {"host", 0.5, 3 * VG_NS_PER_S, NULL, 0};
    vg_alerts *alerts = vg_alerts_new(&rule, 1);

    (void)state;
    /* Two VMs lose 0.6 cores together: for three seconds, not before. */
    STEP(alerts, 1000, "", {"a", 200}, {"b", 400});
    STEP(alerts, 1000, "", {"a", 200}, {"b", 400});
    STEP(alerts, 1000, "host raised - 0.600; ", {"a", 200}, {"b", 400});
    STEP(alerts, 1000, "", {"a", 200}, {"b", 400});
    /* Means of 0.5 and 0.453: not a tenth below the limit; then 0.4. */
    STEP(alerts, 1000, "", {"a", 0}, {"b", 300});
    STEP(alerts, 1000, "", {"a", 0}, {"b", 460});
    STEP(alerts, 1000, "host cleared - 0.400; ", {"a", 0}, {"b", 440});
    /* A single second of much is enough if the mean is. */
    STEP(alerts, 1000, "host raised - 0.900; ", {"a", 1800}, {"b", 0});
    vg_alerts_free(alerts);
}

static void
test_vms(void **state)
{
    const struct vg_alert_rule rules[] = {{"web", 0.25, 2 * VG_NS_PER_S, "web-*", 0},
                                          {"all", 0.75, 2 * VG_NS_PER_S, "*", 0}};
    vg_alerts *alerts = vg_alerts_new(rules, G_N_ELEMENTS(rules));
    g_autoptr(GString) got = g_string_new(NULL);

    (void)state;
    STEP(alerts, 1000, "", {"web-1", 300}, {"web-2", 100}, {"db", 800});
    STEP(alerts, 1000, "web raised web-1 0.300; all raised db 0.800; ", {"web-1", 300},
         {"web-2", 100}, {"db", 800});
    /* A VM that is gone ends its alert, and begins anew when it is back. */
    STEP(alerts, 1000, "web cleared web-1 0.300 the VM has left; ", {"web-2", 100}, {"db", 800});
    STEP(alerts, 1000, "", {"web-1", 300}, {"web-2", 100}, {"db", 800});
    STEP(alerts, 1000, "web raised web-1 0.300; ", {"web-1", 300}, {"web-2", 100}, {"db", 800});
    assert_true(vg_alerts_same(alerts, rules, 2));
    assert_false(vg_alerts_same(alerts, rules, 1));
    vg_alerts_end(alerts, "enough", write_change, got);
    assert_string_equal(got->str, "web cleared web-1 0.300 enough; all cleared db 0.800 enough; ");
    vg_alerts_free(alerts);
}

/* A loss that goes up and down around the limit raises one alert, which ends after the time to
 * clear it. */
static void
test_clear_for(void **state)
{
    const struct vg_alert_rule rule = {"web", 0.5, VG_NS_PER_S, "web-*", 3 * VG_NS_PER_S};
    const struct vg_alert_rule other = {"web", 0.5, VG_NS_PER_S, "web-*", 2 * VG_NS_PER_S};
    vg_alerts *alerts = vg_alerts_new(&rule, 1);

    (void)state;
    STEP(alerts, 1000, "web raised web-1 0.600; ", {"web-1", 600});
    for (int i = 0; i < 20; i++) {
        STEP(alerts, 1000, "", {"web-1", 300});
        STEP(alerts, 1000, "", {"web-1", 100});
        STEP(alerts, 1000, "", {"web-1", 550});
    }
    /* Between the limit and a tenth below it, the time does not run. */
    STEP(alerts, 1000, "", {"web-1", 100});
    STEP(alerts, 1000, "", {"web-1", 100});
    STEP(alerts, 1000, "", {"web-1", 460});
    STEP(alerts, 1000, "", {"web-1", 440});
    STEP(alerts, 1000, "", {"web-1", 440});
    STEP(alerts, 1000, "web cleared web-1 0.440; ", {"web-1", 440});
    STEP(alerts, 1000, "", {"web-1", 100});
    STEP(alerts, 1000, "web raised web-1 0.500; ", {"web-1", 500});
    STEP(alerts, 1000, "web cleared web-1 0.500 the VM has left; ", {"db", 0});
    assert_false(vg_alerts_same(alerts, &other, 1));
    vg_alerts_free(alerts);
}

/* Ten minutes of short windows: the mean is that of the last minute, to a thirtieth. */
static void
test_long(void **state)
{
    const struct vg_alert_rule rule = {"long", 0.5, 60 * VG_NS_PER_S, NULL, 0};
    vg_alerts *alerts = vg_alerts_new(&rule, 1);

    (void)state;
    for (int i = 0; i < 2400; i++)
        STEP(alerts, 250, "", {"a", 100});
    /* 0.4 cores before, 0.6 from now on: half of the minute makes 0.5, and another part at most. */
    int n = 0;
    for (bool raised = false; !raised; n++) {
        g_autoptr(GString) got = g_string_new(NULL);
        struct vg_window window;
        struct vg_vm_sample vm;
        vg_window_init(&window, false);
        window.end_ns = 250 * VG_NS_PER_MS;
        vg_vm_sample_init(&vm);
        vm.cpu.preempt_ns = 150 * VG_NS_PER_MS;
        g_array_append_val(window.vms, vm);
        vg_alerts_step(alerts, &window, EPOCH_NS, find_name, NULL, write_change, got);
        vg_window_clear(&window);
        raised = got->len > 0;
        assert_true(n < 200);
    }
    assert_in_range(n, 30 * 4, 32 * 4);
    vg_alerts_free(alerts);
}

/* A pattern also fits the name in OpenStack, which changes tell. */
static void
test_names_in_openstack(void **state)
{
    const struct vg_alert_rule rule = {"web", 0.25, VG_NS_PER_S, "web-*", 0};
    vg_alerts *alerts = vg_alerts_new(&rule, 1);

    (void)state;
    STEP(alerts, 1000, "web raised alpha/web-1 0.300; ", {"alpha", 300}, {"beta", 800});
    STEP(alerts, 1000, "web cleared alpha/web-1 0.300 the VM has left; ", {"beta", 800});
    vg_alerts_free(alerts);
}

/* What was raised before is neither raised again nor over before its rule's time has been measured.
 */
static bool
restore(vg_alerts *alerts, const char *rule, const char *vm, double limit, int64_t since_ns)
{
    g_autofree char *name = g_strdup(rule), *who = g_strdup(vm);
    const struct vg_active_alert alert = {.alert = name,
                                          .vm = who,
                                          .lost_cores = 0.3,
                                          .limit = limit,
                                          .for_ns = 2 * VG_NS_PER_S,
                                          .since_ns = since_ns};

    return vg_alerts_restore(alerts, &alert);
}

/* What was raised before is neither raised again nor over before its rule's time has been measured.
 */
static void
test_restored(void **state)
{
    const struct vg_alert_rule rules[] = {{"web", 0.25, 2 * VG_NS_PER_S, "web-*", 0},
                                          {"host", 0.5, 2 * VG_NS_PER_S, NULL, 0}};
    vg_alerts *alerts = vg_alerts_new(rules, G_N_ELEMENTS(rules));

    (void)state;
    assert_true(restore(alerts, "web", "web-1", 0.25, 77));
    assert_true(restore(alerts, "host", NULL, 0.5, 78));
    assert_true(restore(alerts, "web", "web-2", 0.25, 79));
    assert_false(restore(alerts, "web", "db", 0.25, 80));
    assert_false(restore(alerts, "host", NULL, 0.4, 81));
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(vg_active_alert_free);
    vg_alerts_list(alerts, list);
    assert_int_equal(list->len, 3);
    const struct vg_active_alert *first = list->pdata[0], *last = list->pdata[2];
    assert_string_equal(first->vm, "web-1");
    assert_int_equal(first->since_ns, 77);
    assert_true(first->lost_cores == 0.3);
    assert_null(last->vm);
    STEP(alerts, 1000, "", {"db", 0});
    STEP(alerts, 1000, "web cleared web-2 0.300 the VM has left; host cleared - 0.300; ",
         {"web-1", 600}, {"db", 0});
    g_autoptr(GPtrArray) left = g_ptr_array_new_with_free_func(vg_active_alert_free);
    vg_alerts_list(alerts, left);
    assert_int_equal(left->len, 1);
    vg_alerts_free(alerts);
}

/* If earlier alerts are unknown, only windows for the longest period show all of them. */
static void
test_doubt(void **state)
{
    const struct vg_alert_rule rules[] = {{"web", 0.25, 1 * VG_NS_PER_S, "web-*", 0},
                                          {"host", 0.5, 2 * VG_NS_PER_S, NULL, 0}};
    vg_alerts *alerts = vg_alerts_new(rules, G_N_ELEMENTS(rules));
    vg_alerts *none = vg_alerts_new(NULL, 0);

    (void)state;
    assert_null(vg_alerts_read_doubt(alerts));
    vg_alerts_doubt(alerts, "no disk");
    vg_alerts_doubt(none, "no disk");
    assert_null(vg_alerts_read_doubt(none));
    assert_string_equal(vg_alerts_read_doubt(alerts), "no disk");
    STEP(alerts, 1000, "", {"db", 0});
    STEP(alerts, 999, "", {"db", 0});
    assert_string_equal(vg_alerts_read_doubt(alerts), "no disk");
    STEP(alerts, 1, "", {"db", 0});
    assert_null(vg_alerts_read_doubt(alerts));
    vg_alerts_free(alerts);
    vg_alerts_free(none);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),      cmocka_unit_test(test_vms),
        cmocka_unit_test(test_clear_for), cmocka_unit_test(test_long),
        cmocka_unit_test(test_restored),  cmocka_unit_test(test_names_in_openstack),
        cmocka_unit_test(test_doubt),
    };

    return cmocka_run_group_tests_name("alerts", tests, NULL, NULL);
}
