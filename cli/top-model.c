/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/top-model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/keys.h"

const struct vg_top_column_info vg_top_columns[VG_TOP_COLUMN_MAX] = {
    [VG_TOP_VM] = {"VM", "name", 'n', true},
    [VG_TOP_CLASS] = {"CLASS", "the VM's class over the long term", 'c', true},
    [VG_TOP_USED] = {"USED", "CPU time that it got, in cores", 'u', false},
    [VG_TOP_LOST] = {"LOST", "CPU time that it waited for, in cores", 'l', false},
    [VG_TOP_PREEMPTIONS] = {"PRE/s", "preemptions per second", 'p', false},
    [VG_TOP_CULPRIT] = {"LOST MOST TO", "the largest aggressor, and its share, measured in cores",
                        'w', false},
    [VG_TOP_GUEST] = {"GUEST", "percent of USED inside the guest", 'g', false},
    [VG_TOP_GPU] = {"GPU%", "percent of the time during which it wants the GPU", 'i', false},
    [VG_TOP_GPU_BUSY] = {"BUSY", "GPU engines that it keeps busy", 'b', false},
    [VG_TOP_SOURCE] = {"SOURCE", "the source of the figures", 's', true},
};

static const int spans_min[] = {1, 5, 15, 60};

void
vg_top_model_init(struct vg_top_model *model)
{
    *model = (struct vg_top_model){.sort = VG_TOP_LOST, .page = 1, .span = 1};
    model->rows = g_array_new(FALSE, FALSE, sizeof(struct vg_top_row));
    model->takers = g_array_new(FALSE, FALSE, sizeof(struct vg_top_taker));
    model->typed = g_string_new(NULL);
}

void
vg_top_model_clear(struct vg_top_model *model)
{
    vg_top_look_free(model->base);
    vg_top_look_free(model->newest);
    g_array_unref(model->rows);
    g_array_unref(model->takers);
    g_string_free(model->typed, TRUE);
    g_free(model->filter);
    g_free(model->selected);
    g_free(model->detail_id);
    g_free(model->detail_name);
    g_free(model->trouble);
}

/* ---- figures ---- */

/* A counter that has decreased was restarted. */
static double
grown(int64_t now, int64_t before)
{
    return (double)(before <= now ? now - before : now);
}

static void
make_rates(const struct vg_top_sums *now, const struct vg_top_sums *before, bool guest_known,
           bool gpu_known, int64_t period_ns, struct vg_top_rates *ret)
{
    static const struct vg_top_sums nothing;
    const double unknown = (double)NAN;
    double period = (double)period_ns;

    *ret = (struct vg_top_rates){unknown, unknown, unknown, unknown,
                                 unknown, unknown, unknown, unknown};
    if (period_ns <= 0)
        return;
    before = before ? before : &nothing;
    double run_ns = grown(now->run_ns, before->run_ns);
    ret->used = run_ns / period;
    if (guest_known && run_ns > 0)
        ret->guest = MIN(grown(now->guest_ns, before->guest_ns) / run_ns, 1.0);
    ret->preempt = grown(now->preempt_ns, before->preempt_ns) / period;
    ret->wake_wait = grown(now->wake_wait_ns, before->wake_wait_ns) / period;
    ret->lost = ret->preempt + ret->wake_wait;
    ret->preemptions_per_s =
        grown(now->preemptions, before->preemptions) / period * (double)VG_NS_PER_S;
    if (gpu_known) {
        ret->gpu_busy = grown(now->gpu_busy_ns, before->gpu_busy_ns) / period;
        ret->gpu_wanted = MIN(grown(now->gpu_active_ns, before->gpu_active_ns) / period, 1.0);
    }
}

bool
vg_top_model_is_since_start(const struct vg_top_model *model)
{
    return model->since_start || !model->base;
}

int64_t
vg_top_model_period_ns(const struct vg_top_model *model)
{
    if (!model->newest)
        return 0;
    return model->newest->end_ns -
           (vg_top_model_is_since_start(model) ? model->newest->begin_ns : model->base->end_ns);
}

int64_t
vg_top_model_lost_events(const struct vg_top_model *model)
{
    if (!model->newest)
        return 0;
    return (int64_t)grown(model->newest->lost_events,
                          vg_top_model_is_since_start(model) ? 0 : model->base->lost_events);
}

static const struct vg_top_loss *
find_loss(const struct vg_top_vm *vm, const char *who)
{
    for (guint i = 0; vm && i < vm->lost_to->len; i++) {
        const struct vg_top_loss *loss = vm->lost_to->pdata[i];
        if (strcmp(loss->who, who) == 0)
            return loss;
    }
    return NULL;
}

static int
compare_takers(const void *a, const void *b)
{
    const struct vg_top_taker *left = a;
    const struct vg_top_taker *right = b;

    if (left->lost != right->lost)
        return left->lost > right->lost ? -1 : 1;
    return strcmp(left->who, right->who);
}

/* Lists the aggressors of a VM in the period, in descending order. */
static void
find_takers(const struct vg_top_vm *vm, const struct vg_top_vm *before, int64_t period_ns,
            GArray *ret)
{
    double period = (double)period_ns;

    g_array_set_size(ret, 0);
    for (guint i = 0; period_ns > 0 && i < vm->lost_to->len; i++) {
        const struct vg_top_loss *loss = vm->lost_to->pdata[i];
        const struct vg_top_loss *old = find_loss(before, loss->who);
        struct vg_top_taker taker = {
            .who = loss->label ? loss->label : loss->who,
            .lost = grown(loss->ns, old ? old->ns : 0) / period,
            .per_s = grown(loss->count, old ? old->count : 0) / period * (double)VG_NS_PER_S,
        };
        if (taker.lost > 0 || taker.per_s > 0)
            g_array_append_val(ret, taker);
    }
    g_array_sort(ret, compare_takers);
}

/* ---- rows ---- */

double
vg_top_row_value(const struct vg_top_row *row, enum vg_top_column column)
{
    switch (column) {
    case VG_TOP_USED:
        return row->rates.used;
    case VG_TOP_LOST:
        return row->rates.lost;
    case VG_TOP_PREEMPTIONS:
        return row->rates.preemptions_per_s;
    case VG_TOP_CULPRIT:
        return row->culprit ? row->culprit_lost : (double)NAN;
    case VG_TOP_GUEST:
        return row->rates.guest;
    case VG_TOP_GPU:
        return row->rates.gpu_wanted;
    case VG_TOP_GPU_BUSY:
        return row->rates.gpu_busy;
    case VG_TOP_VM:
    case VG_TOP_CLASS:
    case VG_TOP_SOURCE:
    case VG_TOP_COLUMN_MAX:
    default:
        return (double)NAN;
    }
}

/* Unknown values come last in both directions. */
static int
compare_values(double left, double right, bool reverse)
{
    if (isnan(left) || isnan(right))
        return (int)isnan(left) - (int)isnan(right);
    if (left == right)
        return 0;
    return (left > right) != reverse ? -1 : 1;
}

static int
top_model_compare_rows(const void *a, const void *b, void *data)
{
    const struct vg_top_model *model = data;
    const struct vg_top_row *left = a;
    const struct vg_top_row *right = b;
    int order;

    if (!vg_top_columns[model->sort].text) {
        order = compare_values(vg_top_row_value(left, model->sort),
                               vg_top_row_value(right, model->sort), model->reverse);
    } else {
        order = model->sort == VG_TOP_CLASS ? g_strcmp0(left->vm->vm_class, right->vm->vm_class)
                : model->sort == VG_TOP_VM  ? strcmp(left->vm->name, right->vm->name)
                                            : 0;
        order = model->reverse ? -order : order;
    }
    if (order == 0)
        order = strcmp(left->vm->name, right->vm->name);
    return order != 0 ? order : strcmp(left->vm->id, right->vm->id);
}

/* Finds the new row of the selected VM. If the VM no longer exists, the row stays selected. */
static void
find_selected(struct vg_top_model *model)
{
    int n = (int)model->rows->len;

    if (!model->selected) {
        model->selected_row = 0;
        return;
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(g_array_index(model->rows, struct vg_top_row, i).vm->id, model->selected) == 0) {
            model->selected_row = i;
            return;
        }
    }
    model->selected_row = CLAMP(model->selected_row, 0, MAX(n - 1, 0));
}

static void
sort_rows(struct vg_top_model *model)
{
    g_array_sort_with_data(model->rows, top_model_compare_rows, model);
    find_selected(model);
}

/* Indexes the VMs of the base answer by id. The result is empty for figures since the start. The
 * caller unrefs it. */
static GHashTable *
index_base(const struct vg_top_model *model)
{
    const vg_top_look *base = vg_top_model_is_since_start(model) ? NULL : model->base;
    GHashTable *vms = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; base && i < base->vms->len; i++) {
        struct vg_top_vm *vm = base->vms->pdata[i];
        g_hash_table_insert(vms, vm->id, vm);
    }
    return vms;
}

/* Returns whether the list contains the VM. The VM of the detail is always included. */
static bool
takes_vm(const struct vg_top_model *model, const struct vg_top_vm *vm)
{
    if (!model->filter || g_strcmp0(model->detail_id, vm->id) == 0)
        return true;
    return strstr(vm->names, model->filter) != NULL;
}

static void
make_rows(struct vg_top_model *model)
{
    g_autoptr(GHashTable) base = index_base(model);
    g_autoptr(GArray) takers = g_array_new(FALSE, FALSE, sizeof(struct vg_top_taker));
    int64_t period_ns = vg_top_model_period_ns(model);

    g_array_set_size(model->rows, 0);
    g_array_set_size(model->takers, 0);
    for (guint i = 0; model->newest && i < model->newest->vms->len; i++) {
        const struct vg_top_vm *vm = model->newest->vms->pdata[i];
        const struct vg_top_vm *before = g_hash_table_lookup(base, vm->id);
        struct vg_top_row row = {.vm = vm};
        if (!takes_vm(model, vm))
            continue;
        make_rates(&vm->sums, before ? &before->sums : NULL, vm->guest_known, vm->gpu_known,
                   period_ns, &row.rates);
        find_takers(vm, before, period_ns, takers);
        if (takers->len > 0) {
            row.culprit = g_array_index(takers, struct vg_top_taker, 0).who;
            row.culprit_lost = g_array_index(takers, struct vg_top_taker, 0).lost;
        }
        g_array_append_val(model->rows, row);
        if (g_strcmp0(model->detail_id, vm->id) == 0)
            g_array_append_vals(model->takers, takers->data, takers->len);
    }
    sort_rows(model);
}

/* ---- answers ---- */

/* While paused, the figures stay unchanged, but a newly opened detail is filled. */
static void
take_paused(struct vg_top_model *model, vg_top_look *look)
{
    if (look->detail && g_strcmp0(look->detail->id, model->detail_id) == 0) {
        vg_top_detail_free(model->newest->detail);
        model->newest->detail = g_steal_pointer(&look->detail);
    }
    vg_top_look_free(look);
}

void
vg_top_model_take(struct vg_top_model *model, vg_top_look *take_look)
{
    vg_top_look *old = model->newest;

    g_clear_pointer(&model->trouble, g_free);
    if (model->paused && old) {
        take_paused(model, take_look);
        return;
    }
    model->newest = take_look;
    if (old && (strcmp(old->boot_id, take_look->boot_id) != 0 || take_look->end_ns < old->end_ns)) {
        g_clear_pointer(&model->base, vg_top_look_free);
        vg_top_look_free(old);
    } else if (old && old->end_ns > old->begin_ns && take_look->end_ns > old->end_ns) {
        vg_top_look_free(model->base);
        model->base = old;
    } else {
        vg_top_look_free(old);
    }
    make_rows(model);
}

void
vg_top_model_fail(struct vg_top_model *model, const char *why)
{
    g_free(model->trouble);
    model->trouble = g_strdup(why);
}

/* ---- the detail ---- */

const struct vg_top_row *
vg_top_model_detail_row(const struct vg_top_model *model)
{
    for (guint i = 0; i < model->rows->len; i++) {
        const struct vg_top_row *row = &g_array_index(model->rows, struct vg_top_row, i);
        if (g_strcmp0(row->vm->id, model->detail_id) == 0)
            return row;
    }
    return NULL;
}

static const struct vg_top_detail *
detail_of(const struct vg_top_model *model, const vg_top_look *look)
{
    bool right = look && look->detail && g_strcmp0(look->detail->id, model->detail_id) == 0;

    return right ? look->detail : NULL;
}

const struct vg_top_detail *
vg_top_model_detail(const struct vg_top_model *model)
{
    return detail_of(model, model->newest);
}

void
vg_top_model_vcpu(const struct vg_top_model *model, guint i, struct vg_top_rates *ret,
                  bool *ret_since_start)
{
    const struct vg_top_detail *detail = vg_top_model_detail(model);
    const struct vg_top_detail *base =
        vg_top_model_is_since_start(model) ? NULL : detail_of(model, model->base);
    const struct vg_top_row *row = vg_top_model_detail_row(model);
    const struct vg_top_vcpu *vcpu = &g_array_index(detail->vcpus, struct vg_top_vcpu, i);
    const struct vg_top_sums *before = NULL;

    if (base && base->end_ns >= detail->end_ns)
        base = NULL;
    for (guint k = 0; base && k < base->vcpus->len; k++) {
        const struct vg_top_vcpu *other = &g_array_index(base->vcpus, struct vg_top_vcpu, k);
        if (other->tid == vcpu->tid)
            before = &other->sums;
    }
    make_rates(&vcpu->sums, before, row && row->vm->guest_known, false,
               detail->end_ns - (base ? base->end_ns : detail->begin_ns), ret);
    *ret_since_start = !base;
}

int
vg_top_model_span_min(const struct vg_top_model *model)
{
    return spans_min[model->span];
}

/* ---- keys ---- */

static void
select_row(struct vg_top_model *model, int row)
{
    if (model->rows->len == 0)
        return;
    row = CLAMP(row, 0, (int)model->rows->len - 1);
    g_free(model->selected);
    model->selected = g_strdup(g_array_index(model->rows, struct vg_top_row, row).vm->id);
    model->selected_row = row;
}

static enum vg_top_action
open_detail(struct vg_top_model *model)
{
    if (model->rows->len == 0)
        return VG_TOP_NOTHING;
    select_row(model, model->selected_row);
    const struct vg_top_vm *vm =
        g_array_index(model->rows, struct vg_top_row, model->selected_row).vm;
    g_free(model->detail_id);
    g_free(model->detail_name);
    model->detail_id = g_strdup(vm->id);
    model->detail_name = g_strdup(vm->name);
    model->detail_first = 0;
    model->view = VG_TOP_DETAIL;
    make_rows(model);
    return VG_TOP_ASK;
}

static void
close_detail(struct vg_top_model *model)
{
    g_clear_pointer(&model->detail_id, g_free);
    g_clear_pointer(&model->detail_name, g_free);
    model->view = VG_TOP_LIST;
}

static void
sort_by(struct vg_top_model *model, enum vg_top_column column)
{
    if (model->sort == column)
        model->reverse = !model->reverse;
    else
        model->reverse = false;
    model->sort = column;
    sort_rows(model);
}

/* Returns the number of rows by which a key moves the selection, or 0. */
static int
steps_of(const struct vg_top_model *model, int key)
{
    switch (key) {
    case VG_KEY_UP:
    case 'k':
        return -1;
    case VG_KEY_DOWN:
    case 'j':
        return 1;
    case VG_KEY_PAGE_UP:
        return -MAX(model->page, 1);
    case VG_KEY_PAGE_DOWN:
        return MAX(model->page, 1);
    case VG_KEY_END:
        return INT16_MAX;
    case VG_KEY_HOME:
        return -INT16_MAX;
    default:
        return 0;
    }
}

/* ---- typing ---- */

#define TYPED_MAX      64 /* in bytes */
#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 86400.0

static void
set_filter(struct vg_top_model *model)
{
    g_free(model->filter);
    model->filter = model->typed->len > 0 ? g_utf8_strdown(model->typed->str, -1) : NULL;
    g_clear_pointer(&model->selected, g_free);
    model->selected_row = 0;
    make_rows(model);
}

static void
begin_typing(struct vg_top_model *model, enum vg_top_typing what)
{
    model->typing = what;
    model->wrong_typed = false;
    g_string_truncate(model->typed, 0);
    if (what == VG_TOP_TYPING_FILTER)
        set_filter(model);
}

/* An empty input changes nothing. */
static enum vg_top_action
take_interval(struct vg_top_model *model)
{
    char *end;
    const double seconds = g_ascii_strtod(model->typed->str, &end);

    if (model->typed->len == 0)
        return VG_TOP_NOTHING;
    model->wrong_typed = *end || !(seconds >= INTERVAL_MIN_S && seconds <= INTERVAL_MAX_S);
    if (model->wrong_typed)
        return VG_TOP_NOTHING;
    model->interval_s = seconds;
    return VG_TOP_ASK;
}

static void
erase_typed(GString *typed)
{
    if (typed->len > 0)
        g_string_truncate(typed, (gsize)(g_utf8_prev_char(typed->str + typed->len) - typed->str));
}

/* The list is filtered during typing. Enter ends the input, Escape clears it. */
static enum vg_top_action
key_typed(struct vg_top_model *model, int key)
{
    const bool filters = model->typing == VG_TOP_TYPING_FILTER;

    if (key == VG_KEY_ENTER) {
        model->typing = VG_TOP_NOT_TYPING;
        return filters ? VG_TOP_NOTHING : take_interval(model);
    }
    if (key == VG_KEY_ESCAPE) {
        model->typing = VG_TOP_NOT_TYPING;
        g_string_truncate(model->typed, 0);
    } else if (key == VG_KEY_DELETE || key == VG_KEY_BACKSPACE) {
        erase_typed(model->typed);
    } else if (key < VG_KEY_UP && g_unichar_isprint((gunichar)key) &&
               model->typed->len < TYPED_MAX) {
        g_string_append_unichar(model->typed, (gunichar)key);
    }
    if (filters)
        set_filter(model);
    return VG_TOP_NOTHING;
}

static enum vg_top_action
key_in_list(struct vg_top_model *model, int key)
{
    int steps = steps_of(model, key);

    if (key == VG_KEY_HOME) {
        /* The first row then stays selected, whichever VM it shows. */
        g_clear_pointer(&model->selected, g_free);
        model->selected_row = 0;
    } else if (steps != 0) {
        select_row(model, model->selected_row + steps);
    } else if (key == VG_KEY_ENTER) {
        return open_detail(model);
    } else if (key == '/') {
        begin_typing(model, VG_TOP_TYPING_FILTER);
    } else if (key == 'd') {
        begin_typing(model, VG_TOP_TYPING_DELAY);
    } else if (key == VG_KEY_ESCAPE && model->filter) {
        g_string_truncate(model->typed, 0);
        set_filter(model);
    } else if (key == 'r') {
        model->reverse = !model->reverse;
        sort_rows(model);
    } else if (key == '<' || key == '>') {
        int step = key == '<' ? VG_TOP_COLUMN_MAX - 1 : 1;
        sort_by(model, (enum vg_top_column)(((int)model->sort + step) % VG_TOP_COLUMN_MAX));
    } else {
        for (int i = 0; i < VG_TOP_COLUMN_MAX; i++) {
            if (vg_top_columns[i].key == key)
                sort_by(model, (enum vg_top_column)i);
        }
    }
    return VG_TOP_NOTHING;
}

static enum vg_top_action
key_in_detail(struct vg_top_model *model, int key)
{
    int steps = steps_of(model, key);
    int span = model->span;

    if (key == 'q' || key == VG_KEY_ESCAPE || key == VG_KEY_ENTER)
        close_detail(model);
    else if (steps != 0)
        model->detail_first = MAX(model->detail_first + steps, 0);
    else if (key == '+')
        model->span = MIN(span + 1, (int)G_N_ELEMENTS(spans_min) - 1);
    else if (key == '-')
        model->span = MAX(span - 1, 0);
    return model->span != span ? VG_TOP_ASK : VG_TOP_NOTHING;
}

enum vg_top_action
vg_top_model_key(struct vg_top_model *model, int key)
{
    model->wrong_typed = false;
    if (model->typing != VG_TOP_NOT_TYPING)
        return key_typed(model, key);
    if (model->view == VG_TOP_HELP) {
        const int steps = steps_of(model, key);
        if (steps == 0)
            model->view = model->back;
        model->help_first = steps == 0 ? 0 : MAX(model->help_first + steps, 0);
        return VG_TOP_NOTHING;
    }
    switch (key) {
    case '?':
    case 'h':
        model->back = model->view;
        model->view = VG_TOP_HELP;
        return VG_TOP_NOTHING;
    case ' ':
        model->paused = !model->paused;
        return model->paused ? VG_TOP_NOTHING : VG_TOP_ASK;
    case 'm':
        model->since_start = !model->since_start;
        make_rows(model);
        return VG_TOP_NOTHING;
    default:
        break;
    }
    if (model->view == VG_TOP_DETAIL)
        return key_in_detail(model, key);
    return key == 'q' ? VG_TOP_QUIT : key_in_list(model, key);
}
