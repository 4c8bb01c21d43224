/* SPDX-License-Identifier: Apache-2.0
 *
 * One stream file of a CTF trace as a queue of events in time order. Pulls messages from its graph
 * and converts them into events. If the graph fails, continues behind the damage with a separate
 * graph. One thread at a time.
 */
#ifndef VG_TRACE_CTF_STREAM_H
#define VG_TRACE_CTF_STREAM_H

#include "trace/adapter.h"
#include "trace/ctf-decode.h"
#include "trace/ctf-graph.h"
#include "trace/ctf-repair.h"
#include "trace/recording.h"

/* Only in the queue: packets cover the time up to lost.end_ns, and again from ts_ns on. */
#define CTF_EVENT_PAUSE  VG_EVENT_TYPE_MAX
#define CTF_EVENT_RESUME (VG_EVENT_TYPE_MAX + 1)

#define CTF_COVERAGE_UNKNOWN INT64_MIN

/* Data shared by the streams of one trace directory. */
struct ctf_trace {
    char *dir;
    GPtrArray *paths; /* char *: its stream files */
    struct ctf_layout layout;
    struct vg_adapt_env env;
    bool env_known; /* set by the first message of a stream */
    /* For the merge: one bit per CPU. */
    uint64_t recorded_cpus[VG_CPU_LIMIT / 64]; /* CPUs with a stream that has sched_switch */
    uint64_t known_cpus[VG_CPU_LIMIT /
                        64]; /* these, those of other traces, and those already reported */
    bool has_vague_cpus;     /* a stream with sched_switch has several CPUs or an unknown one */
    bool check_targets;      /* known_cpus is valid */
    bool begun;              /* one of its events was delivered */
};

struct ctf_stream {
    vg_recording *recording; /* counts events and receives problems; changes in a merge */
    struct ctf_trace *trace; /* borrowed */
    char *path;              /* of the original stream file; NULL until known */
    struct ctf_graph *graph; /* NULL at the end */
    unsigned int port;
    uint32_t index;

    struct ctf_decoder decoder; /* initialised after the first message */

    /* The queue: events in [head, visible) may be taken; those in [visible, fill) wait until their
     * packet is known to be good. */
    struct vg_event *queue;
    size_t capacity, head, visible, fill;
    int64_t last_ts;      /* of the last event added */
    int64_t delivered_ts; /* of the last event taken */
    bool delivered;       /* at least one was taken */
    bool any;

    /* Position in the file. */
    struct ctf_file file;       /* path, open to follow packet sizes; fd is -1 otherwise */
    struct ctf_segment segment; /* length 0 means the whole file */
    int64_t packet_at;          /* relative to the start of the segment */
    int64_t packet_length;      /* 0 if unknown */
    size_t packet_fill;         /* queue position of the packet's first event */
    bool in_packet;
    bool last_rejected; /* the last record of the packet was rejected */
    bool reject_told;   /* a rejection in this packet was already reported */
    int64_t latest_ns;  /* no event of this packet can be later */
    int64_t packet_begin_ns;
    int64_t covered_ns; /* end of the last packet, or CTF_COVERAGE_UNKNOWN */
    bool resume_due;    /* insert a CTF_EVENT_RESUME at packet_begin_ns before the next event */
    bool any_packet;
    bool has_begun;          /* the header of the first packet was read, so that these are known: */
    int64_t first_begin_ns;  /* of its first packet */
    uint64_t first_seq;      /* number of earlier packets that are missing here */
    uint64_t lost_in_packet; /* events that were dropped at the packet's end */
    int32_t cpu;

    bool loss_pending; /* insert this VG_EVENT_LOST before the next packet */
    struct vg_event loss;
    bool backwards_told;
    bool cpu_told;

    /* For the merge. */
    bool stops_early; /* packets are missing at its end */
    bool pauses;      /* since pause_begin_ns, or from the start if that is INT64_MIN */
    int64_t pause_begin_ns;
    bool ended;       /* all its events were taken */
    GPtrArray *twins; /* struct ctf_stream, borrowed; their events must not be delivered from here
                         as well. May be NULL */
};

/* Uses a port of graph, which is shared, or if graph is NULL the readable part of path. */
struct ctf_stream *ctf_stream_new(vg_recording *recording, struct ctf_trace *trace,
                                  struct ctf_graph *graph, unsigned int port, const char *path);
void ctf_stream_free(struct ctf_stream *stream);

/* Returns the next event, or NULL at the end. Valid until the next ctf_stream_pop(). */
const struct vg_event *ctf_stream_peek(struct ctf_stream *stream);
void ctf_stream_pop(struct ctf_stream *stream);

/* Returns the number of bytes decoded from the file. */
int64_t ctf_stream_position(const struct ctf_stream *stream);

#endif
