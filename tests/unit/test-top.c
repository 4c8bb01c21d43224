/* SPDX-License-Identifier: Apache-2.0
 *
 * What `vgpuctl top` makes of answers and keys, and how it looks. The answers are written down
 * here; the figures wanted are worked out by hand from them.
 */
#include "config.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/keys.h"
#include "cli/top-draw.h"
#include "cli/top-model.h"

#define START_NS  (INT64_C(1795200000) * VG_NS_PER_S)
#define DEPTH_MAX 8

static json_object *
parse(const char *text)
{
    json_object *object = vg_json_parse(text, strlen(text), SIZE_MAX, DEPTH_MAX, NULL);

    assert_non_null(object);
    return object;
}

/* A look of the VMs, at_s seconds after the start. */
static vg_top_look *
look_of(const char *boot, double at_s, const char *vms)
{
    g_autofree char *text = g_strdup_printf(
        "{\"name\":\"host\\u001b1\",\"cpus\":4,\"daemon\":{\"boot_id\":\"%s\"},"
        "\"measurement\":{\"source\":\"procfs\",\"confidence\":0.6,\"window_ns\":1000000000,"
        "\"begin_ns\":%" G_GINT64_FORMAT ",\"end_ns\":%" G_GINT64_FORMAT ","
        "\"lost_events\":%d},"
        "\"parts\":[{\"name\":\"store\",\"ready\":true,\"state\":\"ok\"},"
        "{\"name\":\"collector:libvirt\",\"ready\":false,\"state\":\"failed\",\"reason\":\"gone\"}]"
        "}",
        boot, START_NS, START_NS + (int64_t)(at_s * 1e9), (int)at_s);
    g_autoptr(json_object) host = parse(text);
    g_autoptr(json_object) items = parse(vms);

    return vg_top_look_new(host, items);
}

/* A VM with sums in milliseconds and who took its time. */
#define VM(name, run, preempt, wake, n, lost_to)                                                   \
 "{\"id\":\"id-" name "\",\"name\":\"" name "\",\"class\":\"cpu\",\"observed_ns\":1,"              \
 "\"state\":\"running\",\"guest_known\":true,\"run_ns\":" #run "000000,\"guest_ns\":" #run         \
 "00000,\"preempt_ns\":" #preempt "000000,\"wake_wait_ns\":" #wake "000000,\"preemptions\":" #n    \
 ",\"lost_to\":[" lost_to "]}"
#define LOSS(who, ms, n) "{\"aggressor\":\"" who "\",\"ns\":" #ms "000000,\"count\":" #n "}"

static const char first_vms[] = "[" VM("a", 1000, 500, 100, 50, LOSS("b", 400, 30)) "," VM(
    "b", 4000, 10, 10, 5, LOSS("a", 20, 5)) "," VM("c", 10, 0, 0, 0, "") "]";
/* Two seconds later; a lost less than b now, and most of it to the host. */
static const char second_vms[] =
    "[" VM("a", 2000, 700, 200, 60, LOSS("b", 420, 31) "," LOSS("host:user", 280, 9)) "," VM(
        "b", 5000, 810, 110, 405, LOSS("a", 920, 405)) "," VM("c", 10, 0, 0, 0,
                                                              "") "," VM("d", 1000, 2, 2, 1,
                                                                         LOSS("a", 4, 1)) "]";

static void
take_both(struct vg_top_model *model)
{
    vg_top_model_init(model);
    vg_top_model_take(model, look_of("boot", 10, first_vms));
    vg_top_model_take(model, look_of("boot", 12, second_vms));
}

static const struct vg_top_row *
row_at(const struct vg_top_model *model, guint i)
{
    assert_true(i < model->rows->len);
    return &g_array_index(model->rows, struct vg_top_row, i);
}

/* The names in the order of the rows. */
static void
assert_order(const struct vg_top_model *model, const char *want)
{
    g_autoptr(GString) got = g_string_new(NULL);

    for (guint i = 0; i < model->rows->len; i++)
        g_string_append(got, row_at(model, i)->vm->name);
    assert_string_equal(got->str, want);
}

static void
assert_about(double got, double want)
{
    if (!(fabs(got - want) < 1e-9))
        fail_msg("%.9g, expected %.9g", got, want);
}

static void
test_rates_are_of_the_time_between_looks(void **state)
{
    (void)state;
    struct vg_top_model model;

    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("boot", 10, first_vms));
    assert_true(vg_top_model_is_since_start(&model));
    assert_int_equal(vg_top_model_period_ns(&model), 10 * VG_NS_PER_S);
    assert_order(&model, "abc");
    assert_about(row_at(&model, 0)->rates.used, 0.1);
    assert_about(row_at(&model, 0)->rates.lost, 0.06);
    assert_string_equal(row_at(&model, 0)->culprit, "b");

    vg_top_model_take(&model, look_of("boot", 12, second_vms));
    assert_false(vg_top_model_is_since_start(&model));
    assert_int_equal(vg_top_model_period_ns(&model), 2 * VG_NS_PER_S);
    assert_int_equal(vg_top_model_lost_events(&model), 2);
    assert_order(&model, "badc");
    const struct vg_top_row *a = row_at(&model, 1);
    assert_about(a->rates.used, 0.5);
    assert_about(a->rates.guest, 0.1);
    assert_about(a->rates.preempt, 0.1);
    assert_about(a->rates.wake_wait, 0.05);
    assert_about(a->rates.preemptions_per_s, 5);
    assert_string_equal(a->culprit, "host:user");
    assert_about(a->culprit_lost, 0.14);
    assert_about(row_at(&model, 0)->rates.lost, 0.45);
    /* New: all of it is of this time. Without work: the guest's share of nothing is not known. */
    assert_about(row_at(&model, 2)->rates.used, 0.5);
    assert_true(isnan(row_at(&model, 3)->rates.guest));
    assert_null(row_at(&model, 3)->culprit);
    assert_true(isnan(vg_top_row_value(row_at(&model, 0), VG_TOP_GPU)));

    vg_top_model_key(&model, 'm');
    assert_int_equal(vg_top_model_period_ns(&model), 12 * VG_NS_PER_S);
    assert_about(row_at(&model, 0)->rates.lost, 0.92 / 12);
    vg_top_model_clear(&model);
}

/* A GPU that is idle now, after 8 of 10 s with work, and a mean that has not heard of it. */
#define GPU_VM(active_ms)                                                                          \
 "[{\"id\":\"1\",\"name\":\"a\",\"gpu_known\":true,\"gpu_intensity\":0.7,\"gpu_active_"            \
 "ns\":" #active_ms "000000}]"

static void
test_wanting_the_gpu_is_of_the_time_between_looks(void **state)
{
    (void)state;
    struct vg_top_model model;

    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("boot", 10, GPU_VM(8000)));
    assert_about(vg_top_row_value(row_at(&model, 0), VG_TOP_GPU), 0.8);
    vg_top_model_take(&model, look_of("boot", 12, GPU_VM(8000)));
    assert_about(vg_top_row_value(row_at(&model, 0), VG_TOP_GPU), 0);
    vg_top_model_take(&model, look_of("boot", 14, GPU_VM(8500)));
    assert_about(vg_top_row_value(row_at(&model, 0), VG_TOP_GPU), 0.25);
    vg_top_model_clear(&model);
}

static void
test_looks_that_do_not_follow_each_other(void **state)
{
    (void)state;
    struct vg_top_model model;

    take_both(&model);
    /* The same window again: what it is compared with stays. */
    vg_top_model_take(&model, look_of("boot", 12, second_vms));
    assert_int_equal(vg_top_model_period_ns(&model), 2 * VG_NS_PER_S);
    assert_about(row_at(&model, 1)->rates.used, 0.5);
    /* Sums that began anew. */
    vg_top_model_take(&model, look_of("boot", 14, "[" VM("a", 100, 20, 0, 4, "") "]"));
    assert_about(row_at(&model, 0)->rates.used, 0.05);
    /* Another vgpud, and one whose time went back. */
    vg_top_model_take(&model, look_of("other", 15, second_vms));
    assert_true(vg_top_model_is_since_start(&model));
    vg_top_model_take(&model, look_of("other", 16, second_vms));
    assert_false(vg_top_model_is_since_start(&model));
    vg_top_model_take(&model, look_of("other", 3, second_vms));
    assert_true(vg_top_model_is_since_start(&model));
    /* Before the first window nothing is known. */
    vg_top_model_take(&model, look_of("third", 0, first_vms));
    assert_int_equal(vg_top_model_period_ns(&model), 0);
    assert_true(isnan(row_at(&model, 0)->rates.used));
    vg_top_model_take(&model, look_of("third", 1, first_vms));
    assert_true(vg_top_model_is_since_start(&model));
    vg_top_model_clear(&model);
}

static void
test_every_column_sorts(void **state)
{
    (void)state;
    static const struct {
        char key;
        const char *order;
    } cases[] = {
        {'n', "abcd"}, {'n', "dcba"}, {'u', "abdc"}, {'p', "badc"}, {'w', "badc"},
        {'w', "dabc"}, /* c lost nothing: last in either order */
        {'g', "abdc"}, {'l', "badc"}, {'r', "cdab"}, {'r', "badc"}, {'c', "abcd"},
        {'i', "abcd"}, {'b', "abcd"}, {'s', "abcd"}, {'<', "abcd"}, /* b */
        {'>', "abcd"},                                              /* s */
        {'>', "abcd"},                                              /* n */
    };
    struct vg_top_model model;

    take_both(&model);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        assert_int_equal(vg_top_model_key(&model, cases[i].key), VG_TOP_NOTHING);
        assert_order(&model, cases[i].order);
    }
    assert_int_equal(model.sort, VG_TOP_VM);
    vg_top_model_clear(&model);
    /* No key is that of two columns. */
    for (int i = 0; i < VG_TOP_COLUMN_MAX; i++) {
        assert_null(strchr("qhjkmr? <>+-", vg_top_columns[i].key));
        for (int k = 0; k < i; k++)
            assert_int_not_equal(vg_top_columns[i].key, vg_top_columns[k].key);
    }
}

static const char *
selected(const struct vg_top_model *model)
{
    return row_at(model, (guint)model->selected_row)->vm->name;
}

static void
test_the_selected_vm_stays_selected(void **state)
{
    (void)state;
    struct vg_top_model model;

    vg_top_model_init(&model);
    assert_int_equal(vg_top_model_key(&model, VG_KEY_DOWN), VG_TOP_NOTHING);
    assert_int_equal(vg_top_model_key(&model, VG_KEY_ENTER), VG_TOP_NOTHING);
    vg_top_model_take(&model, look_of("boot", 10, first_vms));
    assert_string_equal(selected(&model), "a");
    /* Nobody was chosen: the first row, whoever it is. */
    vg_top_model_take(&model, look_of("boot", 12, second_vms));
    assert_string_equal(selected(&model), "b");
    vg_top_model_key(&model, VG_KEY_DOWN);
    assert_string_equal(selected(&model), "a");
    vg_top_model_key(&model, 'n');
    assert_string_equal(selected(&model), "a");
    assert_int_equal(model.selected_row, 0);
    vg_top_model_key(&model, VG_KEY_UP);
    assert_string_equal(selected(&model), "a");
    vg_top_model_key(&model, VG_KEY_END);
    assert_string_equal(selected(&model), "d");
    vg_top_model_key(&model, 'j');
    assert_string_equal(selected(&model), "d");
    /* It is gone: its place is somebody else's, until it is back. */
    vg_top_model_take(&model, look_of("boot", 14, first_vms));
    assert_string_equal(selected(&model), "c");
    vg_top_model_take(&model, look_of("boot", 16, second_vms));
    assert_string_equal(selected(&model), "d");
    model.page = 2;
    vg_top_model_key(&model, VG_KEY_PAGE_UP);
    assert_string_equal(selected(&model), "b");
    vg_top_model_key(&model, VG_KEY_PAGE_DOWN);
    assert_string_equal(selected(&model), "d");
    vg_top_model_key(&model, VG_KEY_HOME);
    vg_top_model_key(&model, 'r');
    assert_int_equal(model.selected_row, 0);
    assert_string_equal(selected(&model), "d");
    vg_top_model_clear(&model);
}

static void
add_detail(vg_top_look *look, const char *id, const char *vcpus)
{
    g_autofree char *text = g_strdup_printf("{\"vcpus\":%s}", vcpus);
    g_autoptr(json_object) vm = parse(text);

    look->detail = vg_top_detail_new(look, id, vm);
}

#define VCPU(tid, run)                                                                             \
 "{\"vcpu\":0,\"tid\":" #tid ",\"run_ns\":" #run "000000,\"guest_ns\":0,\"preempt_ns\":0}"

static void
test_pause_holds_the_figures(void **state)
{
    (void)state;
    struct vg_top_model model;

    take_both(&model);
    assert_int_equal(vg_top_model_key(&model, ' '), VG_TOP_NOTHING);
    assert_true(model.paused);
    vg_top_model_take(&model, look_of("boot", 20, first_vms));
    assert_order(&model, "badc");
    /* A detail that is opened now is filled; one of another VM is not wanted any more. */
    assert_int_equal(vg_top_model_key(&model, VG_KEY_ENTER), VG_TOP_ASK);
    vg_top_look *other = look_of("boot", 20, first_vms);
    add_detail(other, "id-a", "[]");
    vg_top_model_take(&model, other);
    assert_null(vg_top_model_detail(&model));
    vg_top_look *look = look_of("boot", 20, first_vms);
    add_detail(look, "id-b", "[" VCPU(7, 1000) "]");
    vg_top_model_take(&model, look);
    assert_non_null(vg_top_model_detail(&model));
    assert_order(&model, "badc");
    struct vg_top_rates rates;
    bool since_start;
    vg_top_model_vcpu(&model, 0, &rates, &since_start);
    assert_true(since_start);
    assert_about(rates.used, 1.0 / 20);
    /* Asked at once when it goes on; and both details are of their own times. */
    assert_int_equal(vg_top_model_key(&model, ' '), VG_TOP_ASK);
    look = look_of("boot", 24, second_vms);
    add_detail(look, "id-b", "[" VCPU(8, 400) "," VCPU(7, 3000) "]");
    vg_top_model_take(&model, look);
    vg_top_model_vcpu(&model, 0, &rates, &since_start);
    assert_false(since_start);
    assert_about(rates.used, 0.1);
    vg_top_model_vcpu(&model, 1, &rates, &since_start);
    assert_about(rates.used, 0.5);
    vg_top_model_clear(&model);
}

static void
test_keys_lead_in_and_out(void **state)
{
    (void)state;
    struct vg_top_model model;

    take_both(&model);
    assert_int_equal(vg_top_model_key(&model, '?'), VG_TOP_NOTHING);
    assert_int_equal(model.view, VG_TOP_HELP);
    assert_int_equal(vg_top_model_key(&model, 'q'), VG_TOP_NOTHING);
    assert_int_equal(model.view, VG_TOP_LIST);
    assert_int_equal(vg_top_model_key(&model, VG_KEY_ESCAPE), VG_TOP_NOTHING);
    vg_top_model_key(&model, VG_KEY_ENTER);
    assert_int_equal(model.view, VG_TOP_DETAIL);
    assert_string_equal(model.detail_id, "id-b");
    assert_int_equal(model.takers->len, 1);
    vg_top_model_key(&model, 'h');
    vg_top_model_key(&model, VG_KEY_OTHER);
    assert_int_equal(model.view, VG_TOP_DETAIL);
    assert_int_equal(vg_top_model_span_min(&model), 5);
    assert_int_equal(vg_top_model_key(&model, '-'), VG_TOP_ASK);
    assert_int_equal(vg_top_model_key(&model, '-'), VG_TOP_NOTHING);
    assert_int_equal(vg_top_model_span_min(&model), 1);
    for (int i = 0; i < 5; i++)
        vg_top_model_key(&model, '+');
    assert_int_equal(vg_top_model_span_min(&model), 60);
    assert_int_equal(vg_top_model_key(&model, 'q'), VG_TOP_NOTHING);
    assert_int_equal(model.view, VG_TOP_LIST);
    assert_null(model.detail_id);
    assert_int_equal(vg_top_model_key(&model, 'q'), VG_TOP_QUIT);
    vg_top_model_clear(&model);
}

/* ---- drawing ---- */

static const struct vg_top_now now = {.epoch_ns = START_NS + INT64_C(12500000000)};

static void
assert_has(const vg_grid *grid, int row, const char *want)
{
    g_autofree char *text = vg_grid_text(grid, row);

    if (!strstr(text, want))
        fail_msg("row %d is '%s', without '%s'", row, text, want);
}

static void
assert_has_not(const vg_grid *grid, int row, const char *unwanted)
{
    g_autofree char *text = vg_grid_text(grid, row);

    if (strstr(text, unwanted))
        fail_msg("row %d is '%s', with '%s'", row, text, unwanted);
}

static void
test_the_list(void **state)
{
    (void)state;
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(12, 110, true);

    take_both(&model);
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 0, "host?1");
    assert_has(grid, 0, "2026-11-20T18:40:12Z  0.5 s ago");
    assert_has(
        grid, 1,
        "measured by procfs, confidence 60 %, aggressors unknown, causes of waiting unknown");
    assert_has(grid, 2,
               "4 VMs, last 2.0 s: used 1.50 of 4 cores, lost 0.60, preempted 206/s, "
               "2 events were lost");
    assert_has(grid, 3, "collector:libvirt is failed: gone");
    assert_has(grid, 4, "VM           CLASS         USED  LOST\xe2\x96\xbc  PRE/s LOST MOST TO");
    assert_has(grid, 5, "b            cpu           0.50   0.45    200 a");
    assert_has(grid, 6, "a            cpu           0.50   0.15    5.0 host:user   0.14");
    assert_has(grid, 8, "c            cpu           0.00   0.00    0.0 -");
    assert_has(grid, 11, "q quit");
    assert_int_equal(vg_grid_row(grid, 5)[0].attr, VG_ATTR_SELECTED);
    assert_int_equal(vg_grid_row(grid, 6)[0].attr, VG_ATTR_PLAIN);

    vg_top_model_key(&model, ' ');
    vg_top_model_fail(&model, "cannot reach vgpud\n at all");
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 0, "PAUSED");
    assert_has(grid, 11, "retrying: cannot reach vgpud? at all");
    g_clear_pointer(&model.trouble, g_free);
    const struct vg_top_now late = {now.epoch_ns, 7 * VG_NS_PER_S};
    vg_top_draw(&model, grid, &late);
    assert_has(grid, 11, "vgpud has not answered for 7.0 s");
    vg_top_model_clear(&model);
}

/* Columns go where there is no room, and rows scroll; at any size nothing is written elsewhere,
 * which the sanitizers watch. */
static void
test_any_size(void **state)
{
    (void)state;
    struct vg_top_model model;

    take_both(&model);
    for (int view = VG_TOP_LIST; view <= VG_TOP_HELP; view++) {
        for (int rows = 0; rows < 30; rows++) {
            for (int columns = 0; columns < 130; columns += 1 + columns / 8) {
                g_autoptr(vg_grid) grid = vg_grid_new(rows, columns, columns % 2 == 0);
                model.view = (enum vg_top_view)view;
                g_free(model.detail_id);
                model.detail_id = g_strdup("id-a");
                g_free(model.detail_name);
                model.detail_name = g_strdup("a");
                vg_top_draw(&model, grid, &now);
            }
        }
    }
    model.view = VG_TOP_LIST;
    vg_top_model_key(&model, VG_KEY_END);
    g_autoptr(vg_grid) low = vg_grid_new(7, 40, true);
    vg_top_draw(&model, low, &now);
    assert_has(low, 4, "VM             USED  LOST\xe2\x96\xbc  PRE/s");
    assert_has(low, 5, "c              0.00   0.00    0.0");
    vg_top_model_clear(&model);
}

static void
test_names_that_would_break_a_screen(void **state)
{
    (void)state;
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(9, 90, true);

    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("boot", 10,
                                      "[" VM("\\u001b[2J\\nx\\u202ey\\u65e5", 100, 50, 0, 1,
                                             LOSS("\\u0007\\u009b31m", 40, 1)) "]"));
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 5, "?[2J?x?y\xe6\x97\xa5   cpu");
    assert_has(grid, 5, "??31m");
    vg_top_model_clear(&model);
}

static void
test_the_detail(void **state)
{
    (void)state;
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(24, 100, false);

    take_both(&model);
    vg_top_model_key(&model, VG_KEY_DOWN);
    vg_top_model_key(&model, VG_KEY_ENTER);
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 4, "a  running, class cpu, pid 0, id-a");
    assert_has(grid, 5, "used 0.50 cores, 10 % of this in the guest");
    assert_has(grid, 6, "lost 0.15 cores; it is unknown which waits followed a preemption");
    assert_has(grid, 8, "LOST CPU TO");
    assert_has(grid, 9, "host:user                           0.140     93.3      4.5");
    assert_has(grid, 10, "b                                   0.010      6.7      0.5");
    assert_has(grid, 11, "querying vgpud");

    vg_top_look *look = look_of("boot", 12, second_vms);
    g_autoptr(json_object) samples =
        parse("{\"since_ns\":0,\"until_ns\":76000000000,\"items\":["
              "{\"begin_ns\":74000000000,\"end_ns\":75000000000,\"run_ns\":500000000},"
              "{\"begin_ns\":75000000000,\"end_ns\":76000000000,\"run_ns\":1000000000,"
              "\"preempt_ns\":250000000,\"wake_wait_ns\":250000000}]}");
    add_detail(look, "id-a", "[" VCPU(4711, 6000) "]");
    vg_top_detail_set_history(look->detail, samples);
    vg_top_model_take(&model, look);
    g_autoptr(vg_grid) again = vg_grid_new(24, 100, false);
    vg_top_draw(&model, again, &now);
    assert_has(again, 8, "The last 76.0 s, in cores");
    /* 76 columns behind the label: a second each. */
    g_autofree char *used = vg_grid_text(again, 9);
    g_autofree char *lost = vg_grid_text(again, 10);
    assert_string_equal(used + 98, "=#");
    assert_string_equal(lost + 98, "_#");
    assert_int_equal(strcspn(used + 24, "_=#"), 74);
    assert_has(again, 9, "used, up to 1.00");
    assert_has(again, 10, "lost, up to 0.50");
    assert_has(again, 17, "4711    0.500        0    0.000    0.000      0.0");
    assert_has(again, 16, "since vgpud started");
    vg_top_model_clear(&model);
}

/* It stays as it was last seen, and says so. */
static void
test_a_vm_that_goes_while_it_is_looked_at(void **state)
{
    (void)state;
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(24, 100, false);

    take_both(&model);
    vg_top_model_key(&model, VG_KEY_ENTER);
    vg_top_look *look = look_of("boot", 14, "[" VM("a", 2000, 700, 200, 60, "") "]");
    look->detail = vg_top_detail_new(look, "id-b", NULL);
    vg_top_model_take(&model, look);
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 4, "b");
    assert_has(grid, 5, "vgpud no longer sees this VM");
    vg_top_model_key(&model, VG_KEY_ESCAPE);
    assert_order(&model, "a");
    vg_top_model_clear(&model);
}

/* Answers that vgpud does not give: nothing is right in them. */
static void
test_odd_answers(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{}",
        "{\"id\":7,\"name\":null,\"run_ns\":-5,\"lost_to\":7,\"gpu\":{}}",
        "{\"id\":[],\"run_ns\":9223372036854775807,\"preempt_ns\":9223372036854775807,"
        "\"wake_wait_ns\":1e300,\"observed_ns\":\"x\",\"gpu_known\":true,\"gpu_active_ns\":-3,"
        "\"gpu\":[{\"busy_ns\":9223372036854775807},{\"busy_ns\":9223372036854775807}],"
        "\"lost_to\":[{},{\"aggressor\":null,\"ns\":9223372036854775807,\"count\":-1}]}",
    };
    g_autoptr(json_object) nothing = json_object_new_object();
    g_autoptr(vg_grid) grid = vg_grid_new(20, 80, true);

    for (size_t i = 0; i < G_N_ELEMENTS(odd); i++) {
        g_autofree char *vms = g_strdup_printf("[%s,{}]", odd[i]);
        g_autoptr(json_object) items = parse(vms);
        struct vg_top_model model;
        vg_top_model_init(&model);
        vg_top_model_take(&model, vg_top_look_new(nothing, items));
        vg_top_model_take(&model, look_of("boot", 1, "[]"));
        vg_top_model_take(&model, look_of("boot", 2, vms));
        vg_top_model_key(&model, VG_KEY_ENTER);
        vg_top_look *look = look_of("boot", 3, vms);
        look->detail = vg_top_detail_new(look, model.detail_id, nothing);
        vg_top_detail_set_history(look->detail, items);
        vg_top_model_take(&model, look);
        vg_top_draw(&model, grid, &now);
        assert_has(grid, 4, "?");
        vg_top_model_clear(&model);
    }
}

static void
test_figures(void **state)
{
    (void)state;
    static const struct {
        double value;
        int decimals;
        const char *text;
    } cases[] = {
        {0, 2, "0.00"},       {1.234, 2, "1.23"},   {99.94, 1, "99.9"},   {99.96, 1, "100"},
        {9999.4, 1, "9999"},  {9999.6, 1, "10.0k"}, {99999, 0, "100.0k"}, {99999.6, 0, "0.1M"},
        {1234567, 2, "1.2M"}, {99.96e6, 0, "100M"}, {1e18, 2, "1e+18"},   {(double)NAN, 1, "-"},
    };
    char text[VG_TOP_FIGURE_LEN];

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        assert_string_equal(vg_top_figure(text, cases[i].value, cases[i].decimals), cases[i].text);
    assert_string_equal(vg_top_duration(text, 99900 * VG_NS_PER_MS), "99.9 s");
    assert_string_equal(vg_top_duration(text, 300 * VG_NS_PER_S), "5 min");
    assert_string_equal(vg_top_duration(text, 3 * 3600 * VG_NS_PER_S), "3 h");
    assert_string_equal(vg_top_duration(text, INT64_C(432000) * VG_NS_PER_S), "5 d");
}

/* At 80 columns, names that differ at their ends only are told apart, and columns of which nothing
 * is known make room first. */
static void
test_narrow(void **state)
{
    static const char vms[] = "[" VM("instance-0000001f-web-1", 9, 0, 0, 0,
                                     "") "," VM("instance-0000001f-web-2", 8, 0, 0, 0, "") "]";
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(12, 80, true);

    (void)state;
    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("boot", 10, vms));
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 4, "GUEST");
    assert_has(grid, 5, "instance-0000001f-web-1 ");
    assert_has(grid, 6, "instance-0000001f-web-2 ");
    for (int i = 0; i < 12; i++) {
        assert_has_not(grid, i, "GPU%");
        assert_has_not(grid, i, "LOST MOST TO");
    }
    vg_top_model_clear(&model);
}

/* A VM has the name that people call it by, and is found by all that it has; who took its time is
 * told likewise, also if that is called something else since the look before. */
static void
test_names_in_openstack(void **state)
{
    static const char format[] =
        "[{\"id\":\"1\",\"name\":\"instance-01\",\"label\":\"Web\",\"observed_ns\":1,\"run_ns\":%d,"
        "\"wake_wait_ns\":%d,\"lost_to\":[{\"aggressor\":\"instance-02\",\"aggressor_label\":\"%"
        "s\","
        "\"ns\":%d,\"count\":1}]},{\"id\":\"2\",\"name\":\"instance-02\",\"label\":\"db\"}]";
    g_autofree char *before = g_strdup_printf(format, 1, 900000000, "old", 900000000);
    g_autofree char *after = g_strdup_printf(format, 1, 1000000000, "db", 1000000000);
    struct vg_top_model model;

    (void)state;
    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("boot", 10, before));
    vg_top_model_take(&model, look_of("boot", 11, after));
    assert_string_equal(row_at(&model, 0)->vm->name, "Web");
    assert_string_equal(row_at(&model, 0)->culprit, "db");
    assert_about(row_at(&model, 0)->culprit_lost, 0.1);
    for (const char *const *text = (const char *const[]){"web", "CE-01", NULL}; *text; text++) {
        vg_top_model_key(&model, '/');
        for (const char *key = *text; *key; key++)
            vg_top_model_key(&model, *key);
        assert_order(&model, "Web");
        vg_top_model_key(&model, VG_KEY_ESCAPE);
    }
    vg_top_model_clear(&model);
}

static void
test_filter_and_position(void **state)
{
    struct vg_top_model model;
    g_autoptr(vg_grid) grid = vg_grid_new(8, 110, true);

    (void)state;
    take_both(&model);
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 7, "1-2 of 4");
    for (const char *key = "/B"; *key; key++)
        assert_int_equal(vg_top_model_key(&model, *key), VG_TOP_NOTHING);
    assert_order(&model, "b");
    vg_grid_free(g_steal_pointer(&grid));
    grid = vg_grid_new(8, 110, true);
    vg_top_draw(&model, grid, &now);
    assert_has(grid, 2, "1 of 4 VMs");
    assert_has(grid, 7, "name has: B_");
    vg_top_model_key(&model, VG_KEY_BACKSPACE);
    vg_top_model_key(&model, 'x');
    assert_order(&model, "");
    vg_top_model_key(&model, VG_KEY_ENTER);
    assert_int_equal(vg_top_model_key(&model, VG_KEY_ENTER), VG_TOP_NOTHING);
    vg_top_model_key(&model, VG_KEY_ESCAPE);
    assert_order(&model, "badc");
    for (const char *key = "d0.5"; *key; key++)
        vg_top_model_key(&model, *key);
    assert_int_equal(vg_top_model_key(&model, VG_KEY_ENTER), VG_TOP_ASK);
    assert_about(model.interval_s, 0.5);
    vg_top_model_clear(&model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_are_of_the_time_between_looks),
        cmocka_unit_test(test_wanting_the_gpu_is_of_the_time_between_looks),
        cmocka_unit_test(test_looks_that_do_not_follow_each_other),
        cmocka_unit_test(test_every_column_sorts),
        cmocka_unit_test(test_the_selected_vm_stays_selected),
        cmocka_unit_test(test_pause_holds_the_figures),
        cmocka_unit_test(test_keys_lead_in_and_out),
        cmocka_unit_test(test_the_list),
        cmocka_unit_test(test_any_size),
        cmocka_unit_test(test_names_that_would_break_a_screen),
        cmocka_unit_test(test_the_detail),
        cmocka_unit_test(test_a_vm_that_goes_while_it_is_looked_at),
        cmocka_unit_test(test_odd_answers),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_filter_and_position),
        cmocka_unit_test(test_names_in_openstack),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("top", tests, NULL, NULL);
}
