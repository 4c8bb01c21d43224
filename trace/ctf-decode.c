/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-decode.h"

#include <string.h>

#include "trace/ctf-fields.h"

#define EVENT_CLASS_IDS_MAX 65536

/* Environment entries that name VMs. */
#define VM_PREFIX      "vm_"
#define VM_UUID_SUFFIX "_uuid"

/* LTTng before 2.11 may write an event slightly after the end time of its packet. */
#define AFTER_PACKET_END_NS   INT64_C(10000000)
#define LTTNG_EXACT_END_MAJOR 2
#define LTTNG_EXACT_END_MINOR 11

void
ctf_decoder_init(struct ctf_decoder *decoder)
{
    *decoder = (struct ctf_decoder){.bindings = g_ptr_array_new_with_free_func(g_free)};
}

void
ctf_decoder_clear(struct ctf_decoder *decoder)
{
    g_clear_pointer(&decoder->bindings, g_ptr_array_unref);
    g_clear_pointer(&decoder->clock_key, g_free);
    g_clear_pointer(&decoder->hostname, g_free);
}

/* ---- what the first message tells ---- */

void
ctf_clock_describe(struct ctf_clock *clock, const bt_clock_class *from)
{
    bt_uuid uuid = bt_clock_class_get_uuid(from);
    int64_t seconds;
    uint64_t cycles;

    clock->frequency = bt_clock_class_get_frequency(from);
    bt_clock_class_get_offset(from, &seconds, &cycles);
    __int128 offset =
        (__int128)seconds * 1000000000 + (__int128)cycles * 1000000000 / (__int128)clock->frequency;
    clock->offset_ns = (int64_t)CLAMP(offset, -VG_TIME_MAX, VG_TIME_MAX);
    clock->has_uuid = uuid != NULL;
    if (uuid)
        memcpy(clock->uuid, uuid, CTF_UUID_SIZE);
}

/* A clock without a UUID is never shared. */
static char *
make_clock_key(const struct ctf_clock *clock, const char *key)
{
    GString *text = g_string_new(clock->has_uuid ? "" : key);

    for (size_t i = 0; clock->has_uuid && i < CTF_UUID_SIZE; i++)
        g_string_append_printf(text, "%02x", clock->uuid[i]);
    g_string_append_printf(text, "@%" G_GUINT64_FORMAT, clock->frequency);
    return g_string_free(text, FALSE);
}

static const char *
env_string(const bt_trace *trace, const char *name)
{
    const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

    return value && bt_value_is_string(value) ? bt_value_string_get(value) : NULL;
}

static int64_t
env_int(const bt_trace *trace, const char *name, int64_t otherwise)
{
    const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

    return value && bt_value_is_signed_integer(value) ? bt_value_integer_signed_get(value)
                                                      : otherwise;
}

static int64_t
tolerated_after_end(const bt_trace *trace)
{
    const char *tracer = env_string(trace, "tracer_name");
    int64_t major = env_int(trace, "tracer_major", LTTNG_EXACT_END_MAJOR);
    int64_t minor = env_int(trace, "tracer_minor", LTTNG_EXACT_END_MINOR);

    if (!tracer || !g_str_has_prefix(tracer, "lttng"))
        return 0;
    return major < LTTNG_EXACT_END_MAJOR ||
                   (major == LTTNG_EXACT_END_MAJOR && minor < LTTNG_EXACT_END_MINOR)
               ? AFTER_PACKET_END_NS
               : 0;
}

static bool
class_has_event(const bt_stream_class *stream_class, const char *name)
{
    uint64_t events = bt_stream_class_get_event_class_count(stream_class);

    for (uint64_t e = 0; e < events; e++) {
        const char *event = bt_event_class_get_name(
            bt_stream_class_borrow_event_class_by_index_const(stream_class, e));
        const char *colon = event ? strchr(event, ':') : NULL;
        if (event && strcmp(colon ? colon + 1 : event, name) == 0)
            return true;
    }
    return false;
}

static bool
trace_has_event(const bt_trace_class *trace_class, const char *name)
{
    uint64_t n = bt_trace_class_get_stream_class_count(trace_class);

    for (uint64_t s = 0; s < n; s++) {
        if (class_has_event(bt_trace_class_borrow_stream_class_by_index_const(trace_class, s),
                            name))
            return true;
    }
    return false;
}

void
ctf_decoder_init_env(const bt_stream *stream, vg_names *names, struct vg_adapt_env *env)
{
    const bt_trace *trace = bt_stream_borrow_trace_const(stream);
    const char *release = env_string(trace, "kernel_release");

    vg_adapt_env_init(env, release ? release : env_string(trace, "release"), names);
}

void
ctf_decoder_read_vms(const bt_stream *stream, vg_recording *recording, const char *file)
{
    const bt_trace *trace = bt_stream_borrow_trace_const(stream);
    uint64_t n = bt_trace_get_environment_entry_count(trace);

    for (uint64_t i = 0; i < n; i++) {
        const char *key;
        const bt_value *value;
        guint64 pid;
        bt_trace_borrow_environment_entry_by_index_const(trace, i, &key, &value);
        if (!g_str_has_prefix(key, VM_PREFIX) || !bt_value_is_string(value) ||
            !g_ascii_string_to_unsigned(key + strlen(VM_PREFIX), 10, 0, INT32_MAX, &pid, NULL))
            continue;
        g_autofree char *uuid_key = g_strconcat(key, VM_UUID_SUFFIX, NULL);
        vg_recording_add_vm(recording, file, (int32_t)pid, bt_value_string_get(value),
                            env_string(trace, uuid_key));
    }
}

void
ctf_decoder_describe(struct ctf_decoder *decoder, const bt_stream *stream, const char *key)
{
    const bt_stream_class *stream_class = bt_stream_borrow_class_const(stream);
    const bt_trace *trace = bt_stream_borrow_trace_const(stream);
    const bt_trace_class *trace_class = bt_trace_borrow_class_const(trace);
    const bt_clock_class *clock = bt_stream_class_borrow_default_clock_class_const(stream_class);
    const char *tracer = env_string(trace, "tracer_name");
    const char *hostname = env_string(trace, "hostname");

    decoder->described = true;
    if (clock) {
        ctf_clock_describe(&decoder->clock, clock);
        decoder->clock_key = make_clock_key(&decoder->clock, key);
    }
    decoder->after_end_ns = tolerated_after_end(trace);
    decoder->has_coverage = tracer && g_str_has_prefix(tracer, "lttng");
    decoder->is_of_one_cpu = decoder->has_coverage || g_strcmp0(tracer, "perf") == 0;
    decoder->hostname = g_strdup(hostname ? hostname : env_string(trace, "host"));
    decoder->class_id = bt_stream_class_get_id(stream_class);
    decoder->has_switch = class_has_event(stream_class, "sched_switch");
    decoder->has_wakeup = trace_has_event(trace_class, "sched_wakeup");
    decoder->comm_from_switches = trace_has_event(trace_class, "sched_switch");
}

/* ---- messages ---- */

void
ctf_decoder_forget_classes(struct ctf_decoder *decoder)
{
    g_ptr_array_set_size(decoder->bindings, 0);
}

bool
ctf_clock_cycles_to_ns(const struct ctf_clock *clock, uint64_t cycles, int64_t *ret)
{
    if (clock->frequency != 1000000000)
        cycles = (uint64_t)((unsigned __int128)cycles * 1000000000 / clock->frequency);
    if (cycles > (uint64_t)VG_TIME_MAX)
        return false;
    *ret = (int64_t)cycles;
    return true;
}

bool
ctf_clock_to_ns(const struct ctf_clock *clock, const bt_clock_snapshot *snapshot, int64_t *ret)
{
    return ctf_clock_cycles_to_ns(clock, bt_clock_snapshot_get_value(snapshot), ret);
}

const struct vg_binding *
ctf_decoder_binding(struct ctf_decoder *decoder, const bt_event_class *event_class)
{
    uint64_t id = bt_event_class_get_id(event_class);

    if (id >= EVENT_CLASS_IDS_MAX)
        id = EVENT_CLASS_IDS_MAX; /* shares one slot, which is bound again each time */
    if (id >= decoder->bindings->len)
        g_ptr_array_set_size(decoder->bindings, (int)id + 1);
    struct vg_binding *binding = g_ptr_array_index(decoder->bindings, id);
    if (binding && id < EVENT_CLASS_IDS_MAX)
        return binding;
    struct ctf_event_class c = {event_class, decoder->comm_from_switches};
    const char *name = bt_event_class_get_name(event_class);
    if (!binding)
        binding = g_new0(struct vg_binding, 1);
    vg_binding_init(binding, name ? name : "", decoder->aliases, &ctf_field_reader, &c);
    g_ptr_array_index(decoder->bindings, id) = binding;
    return binding;
}

bool
ctf_decoder_learn_events(const bt_stream *stream, vg_recording *recording)
{
    const bt_stream_class *stream_class = bt_stream_borrow_class_const(stream);
    uint64_t events = bt_stream_class_get_event_class_count(stream_class);
    bool has_gpu = false;

    for (uint64_t e = 0; e < events; e++) {
        const char *event = bt_event_class_get_name(
            bt_stream_class_borrow_event_class_by_index_const(stream_class, e));
        const struct vg_alias *alias = event ? vg_aliases_find(recording->aliases, event) : NULL;
        const char *name = alias ? vg_alias_event(alias) : event;
        const struct vg_adapter *adapter = name ? vg_adapter_find(name) : NULL;
        has_gpu |= adapter && adapter->type == VG_EVENT_GPU;
        if (name)
            vg_recording_learn_event(recording, name);
    }
    return has_gpu;
}

bool
ctf_packet_cpu(const bt_packet *packet, int64_t *ret_told, int32_t *ret)
{
    *ret = VG_NONE;
    if (!ctf_struct_int(bt_packet_borrow_context_field_const(packet), "cpu_id", ret_told))
        return false;
    if (*ret_told >= 0 && *ret_told < VG_CPU_LIMIT)
        *ret = (int32_t)*ret_told;
    return true;
}
