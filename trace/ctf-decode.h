/* SPDX-License-Identifier: Apache-2.0
 *
 * What a CTF stream says of itself with its first message (its clock, host, tracer and events), and
 * its records as events: the part of reading CTF that is the same for files and for live sessions.
 * One thread at a time.
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
    uint8_t uuid[CTF_UUID_SIZE]; /* of LTTng: the id of the boot */
    uint64_t frequency;
    int64_t offset_ns; /* raw clock + offset = epoch */
};

struct ctf_decoder {
    bool described;
    char *clock_key; /* equal for streams that share a clock; NULL: there is no clock */
    struct ctf_clock clock;
    char *hostname;          /* or NULL */
    bool has_wakeup;         /* somewhere in the trace */
    bool comm_from_switches; /* the trace has sched_switch */
    bool has_switch;         /* sched_switch can be in this stream */
    bool has_gpu; /* and events of GPU requests: only where ..._learn_events() was asked */
    uint64_t class_id;
    bool is_of_one_cpu;   /* as LTTng and perf have it: all its packets are */
    bool has_coverage;    /* a packet begins where the one before ended, unless tracing paused */
    int64_t after_end_ns; /* how much later than the end of its packet an event may be */
    const vg_aliases *aliases; /* of the recording, or NULL */
    GPtrArray *bindings;       /* struct vg_binding by event class id */
};

void ctf_decoder_init(struct ctf_decoder *decoder);
void ctf_decoder_clear(struct ctf_decoder *decoder);

/* Learns; key names the clock of a stream whose clock has no UUID. */
void ctf_decoder_describe(struct ctf_decoder *decoder, const bt_stream *stream, const char *key);

/* What holds for all streams of a trace. */
void ctf_decoder_init_env(const bt_stream *stream, vg_names *names, struct vg_adapt_env *env);

/* Names of VMs in the environment: vm_PID, vm_PID_uuid. file is where problems lie. */
void ctf_decoder_read_vms(const bt_stream *stream, vg_recording *recording, const char *file);

/* The event classes of another graph come next. */
void ctf_decoder_forget_classes(struct ctf_decoder *decoder);

void ctf_clock_describe(struct ctf_clock *clock, const bt_clock_class *from);

/* Clock cycles to nanoseconds of the raw clock; false: no time that a clock could show. */
bool ctf_clock_cycles_to_ns(const struct ctf_clock *clock, uint64_t cycles, int64_t *ret);
bool ctf_clock_to_ns(const struct ctf_clock *clock, const bt_clock_snapshot *snapshot,
                     int64_t *ret);

/* The binding of a record's class; belongs to the decoder. */
const struct vg_binding *ctf_decoder_binding(struct ctf_decoder *decoder,
                                             const bt_event_class *event_class);

/* Which events the stream can have; true: of GPU requests, too. */
bool ctf_decoder_learn_events(const bt_stream *stream, vg_recording *recording);

/* The CPU of a packet. false: it does not say; *ret is VG_NONE if it is an impossible one. */
bool ctf_packet_cpu(const bt_packet *packet, int64_t *ret_told, int32_t *ret);

#endif
