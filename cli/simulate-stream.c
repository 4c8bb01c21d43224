/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/simulate-stream.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cli.h"

/* A request as recorded. */
struct kept {
    int64_t arrival_ns, end_ns, exec_ns; /* raw clock */
    uint32_t process;                    /* or VG_PROCESS_NO_ID */
    uint16_t device, engine;             /* names */
    bool of_vgpu;
};

struct collection {
    GArray *requests; /* struct kept, sorted by end */
    uint64_t cut;     /* requests without an arrival */
    bool enough;
};

/* The state while a device's stream is created. */
struct making {
    struct vg_stream *stream;
    const vg_topology *topology;
    const vg_names *names;
    GArray *engine_names;  /* uint16_t */
    GHashTable *vm_places; /* struct vg_process (NULL for the host) -> place + 1 */
    GArray *requests;      /* struct vg_gpustream_request */
    uint64_t beyond;       /* requests of engines beyond the maximum number */
    uint64_t of_host;      /* requests of the host that are omitted */
    int64_t host_exec_ns;
};

/* ---- recognising a trace ---- */

bool
vg_stream_is_trace(const char *path)
{
    struct stat is;
    FILE *file = NULL;
    int c;

    if (strcmp(path, "-") == 0 || stat(path, &is) < 0)
        return false;
    if (S_ISDIR(is.st_mode))
        return true;
    /* Reading from a pipe would consume its data. */
    if (!S_ISREG(is.st_mode) || g_str_has_suffix(path, ".json") || !(file = fopen(path, "re")))
        return false;
    do
        c = getc(file);
    while (c != EOF && g_ascii_isspace(c));
    fclose(file);
    return c != EOF && c != '{';
}

/* ---- collecting ---- */

static int64_t
arrival_of(const struct vg_gpu_life *life)
{
    const int64_t stages[] = {life->queued_ns, life->submitted_ns, life->ready_ns, life->run_ns};

    for (size_t i = 0; i < G_N_ELEMENTS(stages); i++) {
        if (stages[i] != VG_TIME_UNKNOWN)
            return stages[i];
    }
    return VG_TIME_UNKNOWN;
}

static void
simulate_stream_collect(void *data, const struct vg_gpu_life *life)
{
    struct collection *collection = data;
    const struct kept kept = {
        .arrival_ns = arrival_of(life),
        .end_ns = life->end_ns,
        .exec_ns = life->exec_ns,
        .process = life->process,
        .device = life->device,
        .engine = life->engine,
        .of_vgpu = life->vgpu != VG_NONE,
    };

    collection->enough = collection->requests->len >= VG_STREAM_REQUESTS_MAX;
    if (collection->enough)
        return;
    if (kept.arrival_ns == VG_TIME_UNKNOWN || kept.end_ns < kept.arrival_ns)
        collection->cut++;
    else
        g_array_append_val(collection->requests, kept);
}

/* A record that does not name its device belongs to the device with this engine. */
static void
complete_devices(GArray *requests)
{
    g_autofree uint16_t *device_of = g_new0(uint16_t, VG_NAMES_MAX);

    for (unsigned int i = 0; i < requests->len; i++) {
        const struct kept *kept = &g_array_index(requests, struct kept, i);
        if (kept->device != VG_NAME_NONE)
            device_of[kept->engine] = kept->device;
    }
    for (unsigned int i = 0; i < requests->len; i++) {
        struct kept *kept = &g_array_index(requests, struct kept, i);
        if (kept->device == VG_NAME_NONE)
            kept->device = device_of[kept->engine];
    }
}

/* ---- one device ---- */

static int
engine_place(struct making *making, uint16_t name)
{
    struct vg_gpusched_scenario *scenario = making->stream->scenario;

    for (unsigned int i = 0; i < making->engine_names->len; i++) {
        if (g_array_index(making->engine_names, uint16_t, i) == name)
            return (int)i;
    }
    if (making->engine_names->len == VG_GPUSCHED_ENGINES_MAX)
        return -1;
    g_array_append_val(making->engine_names, name);
    g_ptr_array_add(making->stream->engines, g_strdup(vg_names_text(making->names, name)));
    scenario->n_engines = making->engine_names->len;
    scenario->engines[scenario->n_engines - 1] = (uint8_t)(scenario->n_engines - 1);
    return (int)scenario->n_engines - 1;
}

/* Returns a printable name: the simulator accepts no other names. */
static char *
plain_name(const char *name)
{
    g_autofree char *valid = g_utf8_make_valid(name, -1);
    GString *plain = g_string_new(NULL);

    for (const char *c = valid; *c && plain->len + 6 < VG_GPUSCHED_NAME_MAX;
         c = g_utf8_next_char(c)) {
        gunichar character = g_utf8_get_char(c);
        g_string_append_unichar(plain, g_unichar_isprint(character) ? character : '?');
    }
    return g_string_free(plain, FALSE);
}

static char *
vm_name(const struct making *making, const struct vg_process *process)
{
    char buf[VG_VM_NAME_MAX];

    if (!process)
        return g_strdup(VG_STREAM_HOST);
    char *name = plain_name(vg_process_vm_name(process, buf));
    if (!vg_simulate_find_vm(making->stream->scenario, name))
        return name;
    g_free(name);
    return g_strdup_printf("qemu-%d", process->pid);
}

static uint32_t
vm_place(struct making *making, const struct vg_process *process)
{
    uint32_t place = GPOINTER_TO_UINT(g_hash_table_lookup(making->vm_places, process));

    if (place > 0)
        return place - 1;
    g_autofree char *name = vm_name(making, process);
    vg_simulate_add_vm(making->stream->scenario, name);
    place = making->stream->scenario->vms->len;
    g_hash_table_insert(making->vm_places, (void *)process, GUINT_TO_POINTER(place));
    return place - 1;
}

/* Returns the VM of the request, or NULL for the host. */
static const struct vg_process *
process_of(const struct making *making, const struct kept *kept)
{
    struct vg_process *process = kept->process == VG_PROCESS_NO_ID
                                     ? NULL
                                     : vg_topology_process_at(making->topology, kept->process);

    process = process ? vg_process_resolve(process) : NULL;
    return process && process->is_vm ? process : NULL;
}

static void
simulate_stream_add_request(struct making *making, const struct kept *kept, int64_t begin_ns)
{
    const struct vg_process *process = process_of(making, kept);

    /* The host's own requests do not use GVT-g. */
    if (!process && making->stream->platform == VG_GPUMODE_GVT_G) {
        making->of_host++;
        making->host_exec_ns += kept->exec_ns;
        return;
    }
    int engine = engine_place(making, kept->engine);
    if (engine < 0) {
        making->beyond++;
        return;
    }
    const struct vg_gpustream_request request = {
        .arrival_ns = kept->arrival_ns - begin_ns,
        .done_ns = kept->end_ns - begin_ns,
        .exec_ns = kept->exec_ns,
        .vm = vm_place(making, process),
        .engine = (uint8_t)engine,
    };
    g_array_append_val(making->requests, request);
}

static void note(struct vg_stream *stream, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
note(struct vg_stream *stream, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(stream->notes, g_strdup_vprintf(fmt, args));
    va_end(args);
}

static void
note_left_out(const struct making *making)
{
    struct vg_stream *stream = making->stream;

    if (making->of_host > 0)
        note(stream,
             "%" G_GUINT64_FORMAT " requests of the host itself (%.1f %% of the time) are left "
             "out because they do not go through GVT-g",
             making->of_host,
             100 * (double)making->host_exec_ns / (double)stream->scenario->duration_ns);
    if (making->beyond > 0)
        note(stream,
             "%" G_GUINT64_FORMAT " requests are left out because they use more than %d engines",
             making->beyond, VG_GPUSCHED_ENGINES_MAX);
}

static void
simulate_stream_free(void *data)
{
    struct vg_stream *stream = data;

    g_free(stream->device);
    g_ptr_array_unref(stream->engines);
    g_ptr_array_unref(stream->notes);
    g_clear_pointer(&stream->measured, g_array_unref);
    vg_gpusched_scenario_free(stream->scenario);
    g_free(stream);
}

static struct vg_stream *
new_stream(const char *device, int64_t duration_ns)
{
    struct vg_stream *stream = g_new0(struct vg_stream, 1);

    stream->device = g_strdup(device);
    stream->engines = g_ptr_array_new_with_free_func(g_free);
    stream->notes = g_ptr_array_new_with_free_func(g_free);
    stream->scenario = vg_gpusched_scenario_new();
    stream->scenario->duration_ns = duration_ns;
    return stream;
}

/* ---- all devices ---- */

struct part {
    int64_t begin_ns, end_ns;
    bool cut_short;
};

static struct vg_stream *
make_stream(const struct vg_analysis *analysis, const GArray *kept, const struct part *part,
            uint16_t device, const struct vg_simulate_options *options)
{
    const vg_names *names = analysis->recording->names;
    const char *name =
        device == VG_NAME_NONE ? VG_GPU_DEVICE_UNNAMED : vg_names_text(names, device);
    struct vg_stream *stream = new_stream(name, part->end_ns - part->begin_ns);
    g_autoptr(GArray) engine_names = g_array_new(FALSE, FALSE, sizeof(uint16_t));
    g_autoptr(GHashTable) places = g_hash_table_new(NULL, NULL);
    g_autoptr(GArray) requests = g_array_new(FALSE, FALSE, sizeof(struct vg_gpustream_request));
    struct making making = {.stream = stream,
                            .topology = analysis->topology,
                            .names = names,
                            .engine_names = engine_names,
                            .vm_places = places,
                            .requests = requests};

    stream->platform = options->has_platform ? options->platform : VG_GPUMODE_UNKNOWN;
    for (unsigned int i = 0; i < kept->len && !options->has_platform; i++) {
        const struct kept *one = &g_array_index(kept, struct kept, i);
        if (one->device == device && one->of_vgpu)
            stream->platform = VG_GPUMODE_GVT_G;
    }
    for (unsigned int i = 0; i < kept->len; i++) {
        const struct kept *one = &g_array_index(kept, struct kept, i);
        if (one->device == device && one->arrival_ns >= part->begin_ns &&
            one->end_ns <= part->end_ns)
            simulate_stream_add_request(&making, one, part->begin_ns);
    }
    note_left_out(&making);
    if (requests->len > 0 && stream->scenario->vms->len <= VG_GPUSCHED_VMS_MAX)
        stream->measured = vg_gpustream_fill(stream->scenario, requests);
    return stream;
}

/* Returns the analysed part, or the part of it that can be simulated. */
static struct part
find_part(const struct vg_analysis *analysis, const struct collection *collection)
{
    struct part part = {analysis->period.begin_ns, analysis->period.end_ns, collection->enough};

    if (collection->enough)
        part.end_ns =
            g_array_index(collection->requests, struct kept, collection->requests->len - 1).end_ns;
    if (part.end_ns - part.begin_ns > VG_GPUSCHED_DURATION_MAX) {
        part.end_ns = part.begin_ns + VG_GPUSCHED_DURATION_MAX;
        part.cut_short = true;
    }
    return part;
}

static void
note_part(struct vg_stream *stream, const struct part *part, const struct collection *collection)
{
    if (part->cut_short)
        note(stream,
             "only the first %.3f s are used (the limits are %d requests and one hour); select "
             "another part with --begin and --end",
             (double)(part->end_ns - part->begin_ns) / 1e9, VG_STREAM_REQUESTS_MAX);
    if (collection->cut > 0)
        note(stream, "%" G_GUINT64_FORMAT " requests without an arrival time are left out",
             collection->cut);
}

static int
compare_streams(const void *a, const void *b)
{
    const struct vg_stream *x = *(struct vg_stream *const *)a;
    const struct vg_stream *y = *(struct vg_stream *const *)b;

    return strcmp(x->device, y->device);
}

static GPtrArray *
make_streams(const struct vg_analysis *analysis, const struct collection *collection,
             const struct vg_simulate_options *options)
{
    const struct part part = find_part(analysis, collection);
    GPtrArray *streams = g_ptr_array_new_with_free_func(simulate_stream_free);
    g_autofree bool *seen = g_new0(bool, VG_NAMES_MAX);

    for (unsigned int i = 0; i < collection->requests->len; i++) {
        uint16_t device = g_array_index(collection->requests, struct kept, i).device;
        if (seen[device])
            continue;
        seen[device] = true;
        struct vg_stream *stream =
            make_stream(analysis, collection->requests, &part, device, options);
        bool wanted = !options->device || strcmp(options->device, stream->device) == 0;
        note_part(stream, &part, collection);
        /* An unmeasured device is retained only to report that it has too many VMs. */
        if (wanted && (stream->measured || stream->scenario->vms->len > VG_GPUSCHED_VMS_MAX))
            g_ptr_array_add(streams, stream);
        else
            simulate_stream_free(stream);
    }
    g_ptr_array_sort(streams, compare_streams);
    return streams;
}

/* VMs without records are assigned to the only device. */
static int
finish_stream(struct vg_stream *stream, const struct vg_simulate_options *options, bool only,
              GError **err)
{
    struct vg_gpusched_scenario *scenario = stream->scenario;

    if (only && vg_simulate_set_weights(scenario, options, true, err) < 0)
        return -1;
    if (scenario->vms->len > VG_GPUSCHED_VMS_MAX)
        return vg_error(err, VG_E_INVALID, "%s: there are %u VMs, but at most %d can be simulated",
                        stream->device, scenario->vms->len, VG_GPUSCHED_VMS_MAX);
    g_array_set_size(stream->measured, scenario->vms->len);
    vg_gpumode_set_default(scenario, stream->platform);
    return vg_simulate_set_present(scenario, options, err);
}

static GPtrArray *
read_recording(struct vg_trace_args *args, vg_recording *take_recording,
               const struct vg_simulate_options *options, GError **err)
{
    g_autoptr(GArray) requests = g_array_new(FALSE, FALSE, sizeof(struct kept));
    struct collection collection = {.requests = requests};
    struct vg_analysis_options run = vg_trace_args_options(args, take_recording);

    run.on_request = simulate_stream_collect;
    run.enough = &collection.enough;
    run.data = &collection;
    struct vg_analysis *analysis = vg_analysis_run(take_recording, &run, err);
    if (!analysis)
        return NULL;
    complete_devices(requests);
    GPtrArray *streams = make_streams(analysis, &collection, options);
    vg_trace_args_warn(args, analysis);
    vg_analysis_free(analysis);
    return streams;
}

/* Checks that there are streams, and that --weight does not apply to several devices. */
static int
check_streams(const GPtrArray *streams, const struct vg_simulate_options *options, GError **err)
{
    if (streams->len == 0)
        return vg_error(err, VG_E_NOT_FOUND, "no GPU request was recorded from start to end%s%s",
                        options->device ? " on " : "", options->device ? options->device : "");
    if (streams->len > 1 && options->weights->len > 0)
        return vg_error(err, VG_E_INVALID,
                        "--weight needs --device because there are requests on %u GPUs",
                        streams->len);
    return 0;
}

GPtrArray *
vg_stream_read(struct vg_trace_args *args, const struct vg_simulate_options *options, GError **err)
{
    g_autoptr(GPtrArray) recordings = vg_trace_args_open(args, err);

    if (!recordings)
        return NULL;
    if (recordings->len > 1) {
        vg_error(err, VG_E_INVALID,
                 "there are %u recordings without a common clock; specify one of them",
                 recordings->len);
        return NULL;
    }
    g_autoptr(GPtrArray) streams =
        read_recording(args, g_ptr_array_steal_index(recordings, 0), options, err);
    if (!streams || check_streams(streams, options, err) < 0)
        return NULL;
    for (unsigned int i = 0; i < streams->len; i++) {
        if (finish_stream(streams->pdata[i], options, streams->len == 1, err) < 0)
            return NULL;
    }
    return g_steal_pointer(&streams);
}

void
vg_stream_warn(const struct vg_stream *stream)
{
    for (unsigned int i = 0; i < stream->notes->len; i++)
        vg_cli_warn("%s: %s", stream->device, (const char *)stream->notes->pdata[i]);
}
