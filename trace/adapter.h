/* SPDX-License-Identifier: Apache-2.0
 *
 * From a raw record of any format to a vg_event. A format (CTF, text, perf rings) shows its records
 * through a field reader; an adapter family (trace/adapt-*.c) is a table that says which event
 * names it understands and which fields it wants. Names are looked up once per event class, in
 * vg_binding_init(); vg_binding_read() then only reads values.
 *
 * A record whose values cannot be true (a thread id no kernel hands out, a CPU that cannot exist)
 * is rejected with a reason instead of becoming an event. Reentrant; no global state.
 */
#ifndef VG_TRACE_ADAPTER_H
#define VG_TRACE_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"

enum vg_field_scope {
    VG_SCOPE_PAYLOAD,
    VG_SCOPE_CONTEXT /* what the recorder added: the thread that recorded, its process */
};

/* How one format shows a record. event_class and record are the format's own. */
struct vg_field_reader {
    /* A handle >= 0 for the field, or -1 if the class has no such field. A format that does not
     * know its fields before it sees a record may return a handle for any name. */
    int (*find)(void *event_class, enum vg_field_scope scope, const char *name);
    /* false: not in this record, or not a number. */
    bool (*get_int)(const void *record, int handle, int64_t *ret_value);
    /* Writes at most size - 1 bytes and pads with NUL to size; false: absent or not text. */
    bool (*get_str)(const void *record, int handle, char *buf, size_t size);
};

/* The fields an adapter can ask for; what each is called depends on the dialect. */
enum vg_slot {
    VG_SLOT_PREV_TID,
    VG_SLOT_PREV_STATE,
    VG_SLOT_PREV_COMM,
    VG_SLOT_NEXT_TID,
    VG_SLOT_NEXT_COMM,
    VG_SLOT_TID,
    VG_SLOT_PID,
    VG_SLOT_COMM,
    VG_SLOT_CPU,
    VG_SLOT_ORIG_CPU,
    VG_SLOT_SUCCESS,
    VG_SLOT_KIND,
    VG_SLOT_REASON,
    VG_SLOT_ISA,
    VG_SLOT_CONTEXT_TID,
    VG_SLOT_CONTEXT_PID,
    VG_SLOT_CONTEXT_COMM,
    VG_SLOT_MAX
};

struct vg_adapter_field {
    enum vg_slot slot;
    bool required;        /* without it the event class is of no use and becomes OTHER */
    const char *names[4]; /* tried in order; NULL-terminated */
};

struct vg_binding;
struct vg_adapt_env;

/* Fills event from the record; returns NULL, or why the record was rejected (static text). */
typedef const char *vg_adapt_fn(const struct vg_binding *binding, struct vg_adapt_env *env,
                                const void *record, struct vg_event *event);

struct vg_adapter {
    const char *names[6]; /* event names after the "system:" prefix is cut; NULL-terminated */
    enum vg_event_type type;
    const struct vg_adapter_field *fields; /* ends with an entry whose names[0] is NULL */
    vg_adapt_fn *read;
};

/* Whether prev_state is one bit too high (vg_state_may_be_shifted()). */
enum vg_state_shift { VG_SHIFT_UNKNOWN, VG_SHIFT_NONE, VG_SHIFT_ONE_BIT };

/* What holds for a whole recording; one for all streams of it, as reading adds what the records
 * give away. */
struct vg_adapt_env {
    int64_t state_max_bit; /* vg_state_max_bit() of the recorded kernel */
    enum vg_state_shift state_shift;
    bool shows_exits; /* as X or Z, which tells that trace-cmd's x is no exit */
};

/* release: `uname -r` of the recorded kernel, NULL if unknown. */
void vg_adapt_env_init(struct vg_adapt_env *env, const char *release);

/* One event class, bound. */
struct vg_binding {
    const struct vg_adapter *adapter; /* NULL: VG_EVENT_OTHER, only the context is read */
    const struct vg_field_reader *reader;
    bool is_perf_record;     /* of perf itself, about processes; no tracepoint */
    int handle[VG_SLOT_MAX]; /* -1: absent */
};

/* Looks the event name up in all families and its fields in the class. */
void vg_binding_init(struct vg_binding *binding, const char *event_name,
                     const struct vg_field_reader *reader, void *event_class);

/* event->ts_ns, cpu and stream are the caller's; everything else is set here. Returns NULL, or the
 * reason why this record must not be used. */
const char *vg_binding_read(const struct vg_binding *binding, struct vg_adapt_env *env,
                            const void *record, struct vg_event *event);

/* For the families: a slot's value; false if absent. */
bool vg_binding_int(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int64_t *ret_value);
bool vg_binding_str(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    char *buf, size_t size);
/* A thread id: 0..VG_TID_LIMIT. False if absent or impossible; required slots reject then. */
bool vg_binding_tid(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int32_t *ret_tid);

/* The families: arrays that end with an entry whose names[0] is NULL. */
extern const struct vg_adapter vg_adapt_sched[];
extern const struct vg_adapter vg_adapt_kvm[];

#endif
