/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes a CTF stream's description from its first message (its clock, host, tracer and events),
 * and its records into events. This code is the same for files and live sessions. One thread at a
 * time.
 */
#ifndef VG_TRACE_CTF_DECODE_H
#define VG_TRACE_CTF_DECODE_H

#include <babeltrace2/babeltrace.h>
#include <glib.h>

#include "trace/adapter.h"
#include "trace/ctf-packet.h"
#include "trace/recording.h"

struct ctf_clock {
    bool has_uuid;
    uint8_t uuid[CTF_UUID_SIZE]; /* with LTTng: the boot id */
    uint64_t frequency;
    int64_t offset_ns; /* raw clock + offset = epoch */
};

struct ctf_decoder {
    bool described;
    char *clock_key; /* equal for streams that share a clock; NULL without a clock */
    struct ctf_clock clock;
    char *hostname;          /* or NULL */
    bool has_wakeup;         /* exists somewhere in the trace */
    bool comm_from_switches; /* the trace has sched_switch */
    bool has_switch;         /* sched_switch can be in this stream */
    bool has_gpu; /* set only after ctf_decoder_learn_events(): GPU request events can be in this
                     stream */
    uint64_t class_id;
    bool is_of_one_cpu; /* all its packets are from one CPU, as with LTTng and perf */
    bool has_coverage;  /* each packet starts where the previous one ended, unless tracing paused */
    int64_t after_end_ns;      /* how much later than its packet's end an event may be */
    const vg_aliases *aliases; /* of the recording, or NULL */
    GPtrArray *bindings;       /* struct vg_binding by event class id */
};

void ctf_decoder_init(struct ctf_decoder *decoder);
void ctf_decoder_clear(struct ctf_decoder *decoder);

/* Reads the stream's description. key identifies the clock if it has no UUID. */
void ctf_decoder_describe(struct ctf_decoder *decoder, const bt_stream *stream, const char *key);

/* Initialises the properties common to all streams of a trace. */
void ctf_decoder_init_env(const bt_stream *stream, vg_names *names, struct vg_adapt_env *env);

/* Reads VM names from the environment: vm_PID, vm_PID_uuid. Problems are attributed to file. */
void ctf_decoder_read_vms(const bt_stream *stream, vg_recording *recording, const char *file);

/* Forgets all event classes, because another graph's classes follow. */
void ctf_decoder_forget_classes(struct ctf_decoder *decoder);

void ctf_clock_describe(struct ctf_clock *clock, const bt_clock_class *from);

/* Converts clock cycles to nanoseconds of the raw clock. Returns false for a time that no clock
 * could show. */
bool ctf_clock_cycles_to_ns(const struct ctf_clock *clock, uint64_t cycles, int64_t *ret);
bool ctf_clock_to_ns(const struct ctf_clock *clock, const bt_clock_snapshot *snapshot,
                     int64_t *ret);

/* Returns the binding of a record's class, which the decoder owns. */
const struct vg_binding *ctf_decoder_binding(struct ctf_decoder *decoder,
                                             const bt_event_class *event_class);

/* Determines which events the stream can have. Returns true if these include GPU requests. */
bool ctf_decoder_learn_events(const bt_stream *stream, vg_recording *recording);

/* Reads a packet's CPU. Returns false if the packet does not state it. *ret is VG_NONE if the
 * number is impossible. */
bool ctf_packet_cpu(const bt_packet *packet, int64_t *ret_told, int32_t *ret);

#endif
