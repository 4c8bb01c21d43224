/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl simulate --propose: checks whether another mode of the GPU's scheduler would be better.
 * policy/gpumode simulates the current mode and compares it with the measured figures.
 * gpumode-candidates lists the modes that the platform supports. Each one is simulated and judged.
 * struct vg_gpumode_advice contains the result, which mode-json converts to JSON.
 */
#include "config.h"

#include "cli/simulate-propose.h"

#include "base/json.h"
#include "cli/mode-json.h"

static const struct vg_column simulate_propose_device_columns[] = {
    {"DEVICE", "device", VG_CELL_TEXT, false},
    {"PLATFORM", "platform", VG_CELL_TEXT, false},
    {"MODE NOW", "present.mode", VG_CELL_TEXT, false},
    {"MODEL ERROR %", "present.error", VG_CELL_PERCENT, false},
    {"OUTCOME", "why", VG_CELL_TEXT, false},
};

static const struct vg_column now_columns[] = {
    {"DEVICE", "device", VG_CELL_TEXT, false},
    {"VM", "measured.name", VG_CELL_TEXT, false},
    {"SHARE %", "measured.share", VG_CELL_PERCENT, false},
    {"REQUESTS/s", "measured.requests_per_s", VG_CELL_SHARE, false},
    {"MEAN ms", "measured.latency_mean_ns", VG_CELL_MILLISECONDS, false},
    {"P95 ms", "measured.latency_p95_ns", VG_CELL_MILLISECONDS, false},
    {"WAIT s/s", "measured.wait_ns_per_s", VG_CELL_SECONDS, false},
    {"SIMULATED /s", "simulated.requests_per_s", VG_CELL_SHARE, false},
    {"MEAN ms", "simulated.latency_mean_ns", VG_CELL_MILLISECONDS, false},
    {"P95 ms", "simulated.latency_p95_ns", VG_CELL_MILLISECONDS, false},
    {"WAIT s/s", "simulated.wait_ns_per_s", VG_CELL_SECONDS, false},
};

static const struct vg_column candidate_columns[] = {
    {"DEVICE", "device", VG_CELL_TEXT, false},
    {"MODE", "mode", VG_CELL_TEXT, false},
    {"WITH", "with", VG_CELL_TEXT, false},
    {"PRICE", "price", VG_CELL_TEXT, false},
    {"GAIN s/s", "gain_wait_ns_per_s", VG_CELL_SECONDS, false},
    {"P95 ms", "worst_p95_change_ns", VG_CELL_MILLISECONDS, false},
    {"OF VM", "worst_vm", VG_CELL_TEXT, false},
    {"PROPOSED", "proposed", VG_CELL_TEXT, false},
    {"WHY", "reason", VG_CELL_TEXT, false},
};

static const struct vg_column then_columns[] = {
    {"DEVICE", "device", VG_CELL_TEXT, true},
    {"MODE", "mode", VG_CELL_TEXT, false},
    {"WITH", "with", VG_CELL_TEXT, false},
    {"VM", "name", VG_CELL_TEXT, false},
    {"SHARE %", "then.share", VG_CELL_PERCENT, false},
    {"REQUESTS/s", "then.requests_per_s", VG_CELL_SHARE, false},
    {"MEAN ms", "then.latency_mean_ns", VG_CELL_MILLISECONDS, false},
    {"P95 ms", "then.latency_p95_ns", VG_CELL_MILLISECONDS, false},
    {"P95 NOW ms", "now.latency_p95_ns", VG_CELL_MILLISECONDS, false},
    {"WAIT s/s", "then.wait_ns_per_s", VG_CELL_SECONDS, false},
};

static json_object *
simulate_propose_copy(json_object *object)
{
    json_object *result = NULL;

    json_object_deep_copy(object, &result, NULL);
    return result;
}

static const char *
simulate_propose_text_of(json_object *object, const char *path)
{
    return json_object_get_string(vg_output_member(object, path));
}

/* Returns "alpha 8", "alpha 2 ms", or NULL. */
static char *
vm_text(json_object *vm)
{
    json_object *weight = vg_output_member(vm, "weight");
    json_object *quantum = vg_output_member(vm, "quantum_ns");

    if (weight)
        return g_strdup_printf("%s %" G_GINT64_FORMAT, simulate_propose_text_of(vm, "name"),
                               json_object_get_int64(weight));
    if (!quantum)
        return NULL;
    if (json_object_get_int64(quantum) == 0)
        return g_strdup_printf("%s no end", simulate_propose_text_of(vm, "name"));
    return g_strdup_printf("%s %g ms", simulate_propose_text_of(vm, "name"),
                           (double)json_object_get_int64(quantum) / 1e6);
}

/* Returns "weight alpha 8, beta 2" or "turns of 2 ms". */
static char *
parameters_text(json_object *parameters)
{
    json_object *timeslice = vg_output_member(parameters, "timeslice_ns");
    json_object *vms = vg_output_member(parameters, "vms");
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);

    if (timeslice)
        return g_strdup_printf("%g ms", (double)json_object_get_int64(timeslice) / 1e6);
    for (size_t i = 0; i < vg_output_length(vms); i++) {
        char *text = vm_text(json_object_array_get_idx(vms, i));
        if (text)
            g_ptr_array_add(texts, text);
    }
    g_ptr_array_add(texts, NULL);
    return g_strjoinv(", ", (char **)texts->pdata);
}

static void
add_now_rows(json_object *rows, json_object *doc)
{
    json_object *measured = vg_output_member(doc, "present.measured");
    json_object *simulated = vg_output_member(doc, "present.simulated");

    for (size_t i = 0; i < vg_output_length(measured); i++) {
        json_object *row = json_object_new_object();
        vg_json_add_string(row, "device", simulate_propose_text_of(doc, "device"));
        vg_json_add(row, "measured", json_object_get(json_object_array_get_idx(measured, i)));
        vg_json_add(row, "simulated", json_object_get(json_object_array_get_idx(simulated, i)));
        vg_json_append(rows, row);
    }
}

static void
add_then_rows(json_object *rows, json_object *doc, json_object *candidate, const char *with)
{
    json_object *vms = vg_output_member(candidate, "vms");

    if (!json_object_get_boolean(vg_output_member(candidate, "proposed")))
        return;
    for (size_t i = 0; i < vg_output_length(vms); i++) {
        json_object *row = simulate_propose_copy(json_object_array_get_idx(vms, i));
        vg_json_add_string(row, "device", simulate_propose_text_of(doc, "device"));
        vg_json_add_string(row, "mode", simulate_propose_text_of(candidate, "mode"));
        vg_json_add_string(row, "with", with);
        vg_json_append(rows, row);
    }
}

static void
add_candidate_rows(json_object *rows, json_object *then, json_object *doc)
{
    json_object *candidates = vg_output_member(doc, "candidates");

    for (size_t i = 0; i < vg_output_length(candidates); i++) {
        json_object *candidate = json_object_array_get_idx(candidates, i);
        g_autofree char *with = parameters_text(vg_output_member(candidate, "parameters"));
        json_object *row = simulate_propose_copy(candidate);
        bool proposed = json_object_get_boolean(vg_output_member(candidate, "proposed"));
        vg_json_add_string(row, "device", simulate_propose_text_of(doc, "device"));
        vg_json_add_string(row, "with", with);
        vg_json_add_string(row, "proposed", proposed ? "yes" : "no");
        vg_json_append(rows, row);
        add_then_rows(then, doc, candidate, with);
    }
}

static int
print(json_object *docs, enum vg_output_format format, GError **err)
{
    g_autoptr(json_object) now = json_object_new_array();
    g_autoptr(json_object) candidates = json_object_new_array();
    g_autoptr(json_object) then = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(docs); i++) {
        json_object *doc = json_object_array_get_idx(docs, i);
        add_now_rows(now, doc);
        add_candidate_rows(candidates, then, doc);
    }
    const struct vg_table all = {"Other modes, simulated", candidates, candidate_columns,
                                 G_N_ELEMENTS(candidate_columns), NULL};
    const struct vg_table tables[] = {
        {NULL, docs, simulate_propose_device_columns, G_N_ELEMENTS(simulate_propose_device_columns),
         NULL},
        {"Now, measured and simulated", now, now_columns, G_N_ELEMENTS(now_columns), NULL},
        all,
        {"With the proposed mode", then, then_columns, G_N_ELEMENTS(then_columns), NULL},
    };
    if (format == VG_OUTPUT_CSV)
        return vg_output_print(format, docs, &all, 1, err);
    return vg_output_print(format, docs, tables, G_N_ELEMENTS(tables), err);
}

static int
add_advice(json_object *docs, const struct vg_stream *stream,
           const struct vg_gpumode_config *config, GError **err)
{
    g_autoptr(vg_gpumode_advice) advice =
        vg_gpumode_advise(stream->scenario, stream->platform, stream->measured, config, err);

    if (!advice)
        return -1;
    vg_stream_warn(stream);
    vg_json_append(docs, vg_mode_advice_to_json(advice, stream->device, stream->notes));
    return 0;
}

int
vg_propose_streams(const GPtrArray *streams, const struct vg_gpumode_config *config,
                   enum vg_output_format format, GError **err)
{
    g_autoptr(json_object) docs = json_object_new_array();

    for (unsigned int i = 0; i < streams->len; i++) {
        if (add_advice(docs, streams->pdata[i], config, err) < 0)
            return -1;
    }
    return print(docs, format, err);
}

int
vg_propose_scenario(const struct vg_gpusched_scenario *scenario, enum vg_gpumode_platform platform,
                    const struct vg_gpumode_config *config, enum vg_output_format format,
                    GError **err)
{
    g_autoptr(json_object) docs = json_object_new_array();
    g_autoptr(vg_gpumode_advice) advice = vg_gpumode_advise(scenario, platform, NULL, config, err);

    if (!advice)
        return -1;
    vg_json_append(docs, vg_mode_advice_to_json(advice, VG_GPUSCHED_DEVICE, NULL));
    return print(docs, format, err);
}
