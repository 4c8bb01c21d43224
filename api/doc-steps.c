/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the document of a host's past in steps. A step without measurements is a gap, whose
 * figures are null instead of 0.
 */
#include "config.h"

#include <string.h>

#include "api/doc.h"
#include "base/clock.h"
#include "base/json.h"

/* The minimum length of a gap. A newly started step may have no window yet. */
#define GAP_MIN_NS (10 * VG_NS_PER_S)

/* The data for a document of steps. */
struct steps {
    const struct vg_history_query *query;
    const GArray *steps;       /* struct vg_history_step */
    const GPtrArray *happened; /* struct vg_happening, or NULL if unknown */
    int64_t now_ns;
};

/* Returns the start of the step that contains the time: start < time <= end. */
static int64_t
steps_begin_of(int64_t time_ns, int64_t step_ns)
{
    int64_t rest = (time_ns - 1) % step_ns;

    return time_ns - 1 - (rest < 0 ? rest + step_ns : rest);
}

static const char *
steps_what(json_object *event)
{
    json_object *what = NULL;

    return json_object_object_get_ex(event, "what", &what) ? json_object_get_string(what) : NULL;
}

/* Returns the start of the event, or at_ns if it has no duration. */
static int64_t
steps_since(json_object *event, int64_t at_ns)
{
    json_object *since = NULL;

    if (!json_object_object_get_ex(event, "since_ns", &since))
        return at_ns;
    return MIN(json_object_get_int64(since), at_ns);
}

/* Adds a measuring event if it overlaps the step. */
static void
steps_add_happened(json_object *array, const struct vg_happening *event, json_object *data,
                   int64_t begin_ns, int64_t end_ns)
{
    static const char *const not_told[] = {"seq", "time", "type", NULL};

    if (event->at_ns <= begin_ns || steps_since(data, event->at_ns) > end_ns)
        return;
    json_object *item = json_object_new_object();
    vg_json_add_int64(item, "at_ns", event->at_ns);
    json_object_object_foreach(data, name, value)
    {
        if (!g_strv_contains(not_told, name))
            vg_json_add(item, name, json_object_get(value));
    }
    vg_json_append(array, item);
}

static void
steps_add_events(json_object *object, const struct steps *all, int64_t begin_ns, int64_t end_ns)
{
    json_object *happened = all->happened ? json_object_new_array() : NULL;
    int64_t alerts = 0;

    for (guint i = 0; all->happened && i < all->happened->len; i++) {
        const struct vg_happening *event = all->happened->pdata[i];
        g_autoptr(json_object) data = json_tokener_parse(event->text);
        if (!json_object_is_type(data, json_type_object))
            continue;
        if (strcmp(event->type, VG_HAPPENING_MEASURING) == 0)
            steps_add_happened(happened, event, data, begin_ns, end_ns);
        else
            alerts += event->at_ns > begin_ns && event->at_ns <= end_ns &&
                      g_strcmp0(steps_what(data), "raised") == 0;
    }
    vg_json_add(object, "alerts", all->happened ? json_object_new_int64(alerts) : NULL);
    vg_json_add(object, "happened", happened);
}

/* Adds an amount divided by the time for which it is known, or null if that is 0. */
static void
steps_add_share(json_object *object, const char *name, int64_t amount, int64_t of_ns)
{
    if (of_ns > 0)
        vg_json_add_double(object, name, (double)amount / (double)of_ns);
    else
        vg_json_add(object, name, NULL);
}

static json_object *
steps_pressure(const struct vg_host_figures *host)
{
    const struct {
        const char *name;
        int64_t ns;
    } pressures[] = {{"cpu_some", host->cpu_some_ns},
                     {"memory_some", host->memory_some_ns},
                     {"memory_full", host->memory_full_ns},
                     {"io_some", host->io_some_ns},
                     {"io_full", host->io_full_ns}};

    if (host->pressure_of_ns <= 0)
        return NULL;
    json_object *object = json_object_new_object();
    for (size_t i = 0; i < G_N_ELEMENTS(pressures); i++)
        steps_add_share(object, pressures[i].name, pressures[i].ns, host->pressure_of_ns);
    return object;
}

static json_object *
steps_measured_by(const struct vg_history_step *step)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; step && i < step->measured->len; i++) {
        const struct vg_history_measured *measured =
            &g_array_index(step->measured, struct vg_history_measured, i);
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "by", measured->by);
        vg_json_add_int64(item, "ns", measured->ns);
        vg_json_add_int64(item, "who_ns", measured->who_ns);
        vg_json_append(array, item);
    }
    return array;
}

/* Adds the names of members that are unknown or lower bounds because something was not recorded. */
static void
steps_add_lacks(json_object *object, unsigned int lacks)
{
    static const struct {
        const char *name;
        enum vg_known known;
    } lists[] = {{"unknown", VG_KNOWN_NOT}, {"bounds", VG_KNOWN_BOUND}};

    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        g_autoptr(GPtrArray) names = vg_figure_names(lacks, lists[i].known);
        json_object *array = json_object_new_array();
        for (guint k = 0; k < names->len; k++) {
            if (json_object_object_get_ex(object, names->pdata[k], NULL))
                vg_json_append(array, json_object_new_string(names->pdata[k]));
        }
        if (json_object_array_length(array) > 0)
            vg_json_add(object, lists[i].name, array);
        else
            json_object_put(array);
    }
}

static void
steps_add_vms(json_object *object, const struct vg_history_step *step)
{
    const double length_ns = (double)step->length_ns;

    steps_add_share(object, "vms", step->vm_windows, step->windows);
    vg_json_add_int64(object, "run_ns", step->run_ns);
    vg_json_add_int64(object, "preempt_ns", step->preempt_ns);
    vg_json_add_int64(object, "wake_wait_ns", step->wake_wait_ns);
    vg_json_add_int64(object, "preemptions", step->preemptions);
    vg_doc_add_rates(object, (double)step->run_ns / length_ns, (double)step->preempt_ns / length_ns,
                     (double)step->wake_wait_ns / length_ns,
                     (double)step->preemptions / length_ns * (double)VG_NS_PER_S);
    steps_add_lacks(object, step->lacks);
}

/* step is NULL for a gap. */
static json_object *
steps_item(const struct steps *all, int64_t begin_ns, int64_t end_ns,
           const struct vg_history_step *step)
{
    static const char *const of_vms[] = {"vms",          "run_ns",      "preempt_ns",
                                         "wake_wait_ns", "preemptions", "rates"};
    static const struct vg_host_figures none;
    const struct vg_host_figures *host = step ? &step->host : &none;
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "begin_ns", begin_ns);
    vg_json_add_int64(object, "end_ns", end_ns);
    vg_json_add_bool(object, "gap", step == NULL);
    vg_json_add_int64(object, "measured_ns", step ? step->length_ns : 0);
    vg_json_add_int64(object, "windows", step ? step->windows : 0);
    vg_json_add_int64(object, "lost_events", step ? (int64_t)step->lost_events : 0);
    if (step && step->length_ns > 0)
        steps_add_vms(object, step);
    for (size_t i = 0; !step && i < G_N_ELEMENTS(of_vms); i++)
        vg_json_add(object, of_vms[i], NULL);
    steps_add_share(object, "own_share", host->own_ns, host->own_of_ns);
    steps_add_share(object, "idle_share", host->idle_ns, host->idle_of_ns);
    steps_add_share(object, "steal_share", host->steal_ns, host->idle_of_ns);
    /* The load is in microseconds of threads. */
    steps_add_share(object, "load", host->load_us, host->load_of_ns / VG_NS_PER_US);
    vg_json_add(object, "pressure", steps_pressure(host));
    steps_add_share(object, "gpu_wait_share", host->gpu_wait_ns, host->gpu_of_ns);
    vg_json_add(object, "programs", vg_doc_history_programs(step ? step->programs : NULL));
    vg_json_add(object, "measured_by", steps_measured_by(step));
    steps_add_events(object, all, begin_ns, end_ns);
    return object;
}

static void
steps_add_gap(json_object *items, const struct steps *all, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns > begin_ns && (end_ns < all->now_ns || end_ns - begin_ns >= GAP_MIN_NS))
        vg_json_append(items, steps_item(all, begin_ns, end_ns, NULL));
}

json_object *
vg_doc_host_history(const struct vg_history_query *query, const GArray *steps,
                    const GPtrArray *happened, int64_t now_ns)
{
    const struct steps all = {query, steps, happened, now_ns};
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    json_object *left_out = json_object_new_array();
    int64_t at_ns = query->since_ns;

    for (guint i = 0; i < steps->len; i++) {
        const struct vg_history_step *step = &g_array_index(steps, struct vg_history_step, i);
        int64_t begin_ns = steps_begin_of(step->end_ns, query->step_ns);
        int64_t end_ns = begin_ns + query->step_ns;
        steps_add_gap(items, &all, at_ns, begin_ns);
        at_ns = end_ns;
        if (end_ns > now_ns)
            end_ns = MAX(now_ns, step->end_ns);
        vg_json_append(items, steps_item(&all, begin_ns, end_ns, step));
    }
    steps_add_gap(items, &all, at_ns, MIN(query->until_ns, MAX(now_ns, at_ns)));
    for (guint i = 0; query->left_out && i < query->left_out->len; i++)
        vg_json_append(left_out, json_object_new_string(query->left_out->pdata[i]));
    vg_json_add_int64(object, "since_ns", query->since_ns);
    vg_json_add_int64(object, "until_ns", query->until_ns);
    vg_json_add_int64(object, "step_ns", query->step_ns);
    vg_json_add(object, "items", items);
    vg_json_add(object, "left_out", left_out);
    return object;
}
