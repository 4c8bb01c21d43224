/* SPDX-License-Identifier: Apache-2.0
 *
 * What the daemon says to a tracer, where no recording shows it: plans with actions, classes that
 * change, and that nothing is asked for while there is no tracer.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/trace.h"

static GString *told;

static void
tell_window(const struct vg_traced_window *window)
{
    g_string_append_printf(told, "window %s %d..%d vms=%u lost=%d cost=%d late=%d\n",
                           window->source, (int)window->begin_ns, (int)window->end_ns, window->vms,
                           (int)window->lost_events, (int)window->cost_ns, (int)window->late_ns);
}

static void
tell_score(const struct vg_traced_score *score)
{
    g_string_append_printf(told, "score %s '%s' %d %.2f %.2f %s->%s\n", score->vm, score->uuid,
                           (int)score->end_ns, score->cpu_intensity, score->gpu_intensity,
                           score->from, score->to);
}

static void
tell_plan(const struct vg_traced_plan *plan)
{
    g_string_append_printf(told, "plan %s %s %s %u %d %d '%s'\n", plan->id, plan->rule,
                           plan->verdict, plan->actions, (int)plan->lost_cpu_ns_per_s,
                           (int)plan->gpu_wait_ns_per_s, plan->reason);
}

static void
tell_queue(const struct vg_traced_queue *queue)
{
    g_string_append_printf(told, "queue %s %d of %d\n", queue->name, (int)queue->length,
                           (int)queue->limit);
}

static void
tell_loss(const struct vg_traced_loss *loss)
{
    g_string_append_printf(told, "lost %s %d %d\n", loss->source, (int)loss->end_ns,
                           (int)loss->count);
}

static const struct vg_tracer tracer = {
    .version = PACKAGE_VERSION,
    .window_closed = tell_window,
    .score_changed = tell_score,
    .plan_made = tell_plan,
    .queue_high_water = tell_queue,
    .events_lost = tell_loss,
};

static int
set_up(void **state)
{
    (void)state;
    told = g_string_new(NULL);
    vg_tracer = &tracer;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    g_string_free(told, TRUE);
    vg_tracer = NULL;
    return 0;
}

/* A VM that was measured in all of the view's windows. */
static void
add_vm(vg_view *view, struct vg_snap_host *host, const char *name, const char *uuid, int pid,
       enum vg_vm_class vm_class)
{
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, name);
    struct vg_vm_sample sample = {0};

    vm->uuid = g_strdup(uuid);
    vm->pid = pid;
    vm->vm_class = vm_class;
    vm->cpu_intensity = 0.75;
    vm->gpu_intensity = 0.25;
    vg_vm_sample_init(&sample);
    sample.id = (uint32_t)pid;
    sample.pid = pid;
    g_strlcpy(sample.name, name, sizeof(sample.name));
    g_strlcpy(sample.uuid, uuid ? uuid : "", sizeof(sample.uuid));
    g_array_append_val(view->totals.vms, sample);
}

static vg_view *
new_view(struct vg_snap_host **ret_host)
{
    vg_view *view = vg_view_new();

    view->snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    *ret_host = vg_snapshot_add_host(view->snapshot, "host");
    vg_window_init(&view->totals, false);
    vg_window_init(&view->newest, false);
    view->newest.end_ns = 40;
    view->clock_offset_ns = 2;
    return view;
}

#define UUID "11111111-2222-4333-8444-555555555555"

static void
test_scores_that_change_and_new_vms(void **state)
{
    struct vg_snap_host *was, *is;
    g_autoptr(vg_view) before = new_view(&was);
    g_autoptr(vg_view) now = new_view(&is);

    (void)state;
    add_vm(before, was, "same", NULL, 1, VG_CLASS_CPU);
    add_vm(now, is, "same", NULL, 1, VG_CLASS_CPU);
    add_vm(before, was, "renamed-later", UUID, 2, VG_CLASS_IDLE);
    add_vm(now, is, "renamed", UUID, 2, VG_CLASS_MIXED);
    add_vm(before, was, "gone", NULL, 3, VG_CLASS_CPU);
    add_vm(now, is, "new", NULL, 4, VG_CLASS_IDLE);
    /* Known to libvirt only: it has no class, until it is measured. */
    vg_snap_host_add_vm(is, "described");
    vg_snap_host_add_vm(was, "described-before");
    add_vm(now, is, "described-before", NULL, 5, VG_CLASS_IDLE);
    vg_trace_scores(before, now);
    assert_string_equal(told->str, "score renamed '" UUID "' 42 0.75 0.25 idle->mixed\n"
                                   "score new '' 42 0.75 0.25 none->idle\n"
                                   "score described-before '' 42 0.75 0.25 none->idle\n");
}

static void
test_the_first_view_has_only_new_vms(void **state)
{
    struct vg_snap_host *host;
    g_autoptr(vg_view) now = new_view(&host);

    (void)state;
    add_vm(now, host, "vm", NULL, 1, VG_CLASS_GPU);
    vg_trace_scores(NULL, now);
    assert_string_equal(told->str, "score vm '' 42 0.75 0.25 none->gpu\n");
}

static void
add_action(vg_plan *plan, const char *why, int64_t cpu_ns, int64_t gpu_ns)
{
    struct vg_plan_action *action = vg_record_new(&vg_plan_action_record);

    action->reason.text = g_strdup(why);
    action->gain = (struct vg_plan_gain){cpu_ns, gpu_ns};
    g_ptr_array_add(plan->actions, action);
}

static void
test_the_gain_of_a_plan_is_that_of_all_its_actions(void **state)
{
    g_autoptr(vg_plan) plan = vg_plan_new();

    (void)state;
    plan->id = g_strdup("plan-1");
    plan->rule = g_strdup("complement");
    plan->verdict = VG_PLAN_NOTHING_TO_DO;
    vg_plan_add_why(plan, "there is no contention");
    vg_trace_plan(plan);
    plan->verdict = VG_PLAN_CHANGES;
    add_action(plan, "the first", 1000, 5);
    add_action(plan, "the second", -300, 20);
    vg_trace_plan(plan);
    assert_string_equal(told->str,
                        "plan plan-1 complement nothing-to-do 0 0 0 'there is no contention'\n"
                        "plan plan-1 complement changes 2 700 25 'the first'\n");
}

static void
trace_everything(void)
{
    struct vg_snap_host *host;
    g_autoptr(vg_view) view = new_view(&host);
    g_autoptr(vg_plan) plan = vg_plan_new();
    struct vg_gathered gathered = {
        .window = {.begin_ns = 10, .end_ns = 20, .lost_events = 3},
        .provenance = {.source = "replay:x", .cost_ns = 7},
        .clock_offset_ns = 100,
    };

    plan->id = g_strdup("plan-2");
    plan->rule = g_strdup("complement");
    gathered.window.vms = view->totals.vms;
    add_vm(view, host, "vm", NULL, 1, VG_CLASS_CPU);
    vg_trace_window(&gathered, true);
    vg_trace_lost_events("replay:x", &gathered.window, gathered.clock_offset_ns);
    gathered.window.lost_events = 0;
    vg_trace_lost_events("replay:x", &gathered.window, gathered.clock_offset_ns);
    vg_trace_scores(NULL, view);
    vg_trace_plan(plan);
    vg_trace_queue("store", 4, 300);
}

static void
test_everything_is_told_and_nothing_without_a_tracer(void **state)
{
    (void)state;
    trace_everything();
    assert_string_equal(told->str, "window replay:x 110..120 vms=1 lost=3 cost=7 late=-1\n"
                                   "lost replay:x 120 3\n"
                                   "score vm '' 42 0.75 0.25 none->cpu\n"
                                   "plan plan-2 complement nothing-to-do 0 0 0 ''\n"
                                   "queue store 4 of 300\n");
    g_string_truncate(told, 0);
    vg_tracer = NULL;
    trace_everything();
    assert_string_equal(told->str, "");
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scores_that_change_and_new_vms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_first_view_has_only_new_vms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_gain_of_a_plan_is_that_of_all_its_actions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_everything_is_told_and_nothing_without_a_tracer,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
