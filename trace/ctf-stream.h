/* SPDX-License-Identifier: Apache-2.0
 *
 * One stream file of a CTF trace as a queue of events in time order. Pulls messages from its graph,
 * turns them into events, and when the graph cannot go on carries on behind the damage with a graph
 * of its own.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_STREAM_H
#define VG_TRACE_CTF_STREAM_H

#include "trace/adapter.h"
#include "trace/ctf-decode.h"
#include "trace/ctf-graph.h"
#include "trace/ctf-repair.h"
#include "trace/recording.h"

/* In the queue only: packets cover the time up to lost.end_ns, and again from ts_ns on. */
#define CTF_EVENT_PAUSE  VG_EVENT_TYPE_MAX
#define CTF_EVENT_RESUME (VG_EVENT_TYPE_MAX + 1)

#define CTF_COVERAGE_UNKNOWN INT64_MIN

/* What the streams of one trace directory share. */
struct ctf_trace {
    char *dir;
    GPtrArray *paths; /* char *: its stream files */
    struct ctf_layout layout;
    struct vg_adapt_env env;
    bool env_known; /* since the first message of a stream */
    /* For the merge; a bit for each CPU. */
    uint64_t recorded_cpus[VG_CPU_LIMIT / 64]; /* that have a stream with sched_switch */
    uint64_t known_cpus[VG_CPU_LIMIT / 64];    /* these, of other traces, and those told of */
    bool has_vague_cpus; /* a stream with sched_switch is not of one CPU, or of an unknown one */
    bool check_targets;  /* known_cpus means something */
    bool begun;          /* an event of it was delivered */
};

struct ctf_stream {
    vg_recording *recording; /* where events are counted and problems told; changes in a merge */
    struct ctf_trace *trace; /* borrowed */
    char *path;              /* of the original stream file, NULL until known */
    struct ctf_graph *graph; /* NULL at the end */
    unsigned int port;
    uint32_t index;

    struct ctf_decoder decoder; /* described after the first message */

    /* The queue: [head, visible) may be taken, [visible, fill) waits for the packet to prove good.
     */
    struct vg_event *queue;
    size_t capacity, head, visible, fill;
    int64_t last_ts;      /* of the last event put in */
    int64_t delivered_ts; /* of the last event taken */
    bool delivered;       /* at least one was taken */
    bool any;

    /* Where in the file. */
    struct ctf_file file;       /* path, open to follow packet sizes; fd -1: not */
    struct ctf_segment segment; /* length 0: the whole file */
    int64_t packet_at;          /* from the beginning of the segment */
    int64_t packet_length;      /* 0: unknown */
    size_t packet_fill;         /* queue position where the packet's events begin */
    bool in_packet;
    bool last_rejected; /* the last record of the packet was left out */
    bool reject_told;   /* that one was left out in this packet */
    int64_t latest_ns;  /* no event of this packet can be later */
    int64_t packet_begin_ns;
    int64_t covered_ns; /* end of the last packet, or CTF_COVERAGE_UNKNOWN */
    bool resume_due;    /* a CTF_EVENT_RESUME at packet_begin_ns, before what comes next */
    bool any_packet;
    bool has_begun;          /* what follows is known: the head of its first packet was read */
    int64_t first_begin_ns;  /* of its first packet */
    uint64_t first_seq;      /* packets that were before and are not here */
    uint64_t lost_in_packet; /* events that were thrown away at the packet's end */
    int32_t cpu;

    bool loss_pending; /* a VG_EVENT_LOST to put in before the next packet */
    struct vg_event loss;
    bool backwards_told;
    bool cpu_told;

    /* For the merge. */
    bool stops_early; /* packets are missing at its end */
    bool pauses;      /* since pause_begin_ns; INT64_MIN: ever since */
    int64_t pause_begin_ns;
    bool ended;       /* all its events were taken */
    GPtrArray *twins; /* struct ctf_stream, borrowed: what stands in them is not to be delivered
                       * from here, too; NULL: none */
};

/* port of graph, which is shared; or, with graph NULL, the readable part of path. */
struct ctf_stream *ctf_stream_new(vg_recording *recording, struct ctf_trace *trace,
                                  struct ctf_graph *graph, unsigned int port, const char *path);
void ctf_stream_free(struct ctf_stream *stream);

/* The next event, or NULL at the end; good until the following call of ctf_stream_pop(). */
const struct vg_event *ctf_stream_peek(struct ctf_stream *stream);
void ctf_stream_pop(struct ctf_stream *stream);

/* Bytes of the file that were decoded. */
int64_t ctf_stream_position(const struct ctf_stream *stream);

#endif
