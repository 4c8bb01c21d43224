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
#include "model/names.h"
#include "trace/alias.h"

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
    VG_SLOT_DEVICE, /* a number or a name, as all of these but ids */
    VG_SLOT_ENGINE, /* its name, or "class:instance" */
    VG_SLOT_ENGINE_CLASS,
    VG_SLOT_ENGINE_INSTANCE,
    VG_SLOT_RING, /* number or name of an engine */
    VG_SLOT_TIMELINE,
    VG_SLOT_VGPU,
    VG_SLOT_WORKLOAD,
    VG_SLOT_JOB,
    VG_SLOT_FENCE, /* address, or "context:seqno" */
    VG_SLOT_FENCE_CONTEXT,
    VG_SLOT_SEQNO,
    VG_SLOT_GLOBAL_SEQNO,
    VG_SLOT_STATUS,
    VG_SLOT_DEPTH,  /* of the hardware's queue */
    VG_SLOT_ENTITY, /* address of that of the DRM scheduler */
    VG_SLOT_OBJECT,
    VG_SLOT_SIZE,
    VG_SLOT_VM, /* its name */
    VG_SLOT_AT, /* ns of the recording's clock: when it was so, which is recorded later */
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
    uint8_t gpu_op;     /* of VG_EVENT_GPU: enum vg_gpu_op */
    uint16_t gpu_flags; /* and enum vg_gpu_flag */
};

/* A measure that needs events. */
struct vg_adapter_need {
    const char *event;  /* that is missing, as people record it; NULL: the end */
    uint32_t types;     /* VG_SEEN_...: any of them will do */
    unsigned int lack;  /* enum vg_cpu_lack: without them */
    uint32_t with;      /* types of which one must be there for the lack to be worth a warning */
    const char *beside; /* "sched_switch": these, as people record them */
    bool only_with;     /* nothing is lacking without these */
};

/* What was seen in a recording: types of events, and ops of GPU events. */
#define VG_SEEN_TYPE(type) (1U << (type))
#define VG_SEEN_GPU(op)    (1U << (16 + (op)))
_Static_assert(VG_EVENT_TYPE_MAX <= 16 && VG_GPU_OP_MAX <= 16, "types and ops have 16 bits each");

/* Whether prev_state is one bit too high (vg_state_may_be_shifted()). */
enum vg_state_shift { VG_SHIFT_UNKNOWN, VG_SHIFT_NONE, VG_SHIFT_ONE_BIT };

/* Names of devices and engines that records tell by small numbers, so that they are made once; 0:
 * not yet. */
#define VG_GPU_NUMBERS_MAX 16
struct vg_gpu_numbers {
    uint16_t cards[VG_GPU_NUMBERS_MAX];
    uint16_t rings[VG_GPU_NUMBERS_MAX];
    uint16_t engines[VG_GPU_NUMBERS_MAX][VG_GPU_NUMBERS_MAX]; /* by class and instance */
};

/* Old kernels record the name of a ring by its address, which only some recorders turn into text. A
 * record of amdgpu has the name, and is followed by the scheduler's of the same job by the same
 * thread, or has the address as well. */
#define VG_RINGS_MAX       64
#define VG_RINGS_ASKED_MAX 16

struct vg_ring_names {
    struct {
        uint64_t address;
        uint16_t name; /* of names */
    } known[VG_RINGS_MAX];
    struct {
        int32_t tid;
        uint64_t job;
        uint16_t name;
    } asked[VG_RINGS_ASKED_MAX]; /* jobs that amdgpu told last */
    uint32_t n_known, n_asked;
};

/* What holds for a whole recording; one for all streams of it, as reading adds what the records
 * give away. */
struct vg_adapt_env {
    int64_t state_max_bit; /* vg_state_max_bit() of the recorded kernel */
    enum vg_state_shift state_shift;
    bool shows_exits; /* as X or Z, which tells that trace-cmd's x is no exit */
    vg_names *names;  /* of GPUs and engines; borrowed */
    struct vg_gpu_numbers gpu_numbers;
    struct vg_ring_names rings;
    bool xe_tells; /* of its jobs, which the DRM scheduler tells once more */
};

/* release: `uname -r` of the recorded kernel, NULL if unknown. */
void vg_adapt_env_init(struct vg_adapt_env *env, const char *release, vg_names *names);

/* One event class, bound. */
struct vg_binding {
    const struct vg_adapter *adapter; /* NULL: VG_EVENT_OTHER, only the context is read */
    const struct vg_field_reader *reader;
    bool is_perf_record;     /* of perf itself, about processes; no tracepoint */
    int handle[VG_SLOT_MAX]; /* -1: absent */
};

/* Looks the event name up in all families and its fields in the class. aliases: other names; may be
 * NULL. */
void vg_binding_init(struct vg_binding *binding, const char *event_name, const vg_aliases *aliases,
                     const struct vg_field_reader *reader, void *event_class);

/* The name of an event without "system:", which perf and its CTF put before it. */
const char *vg_event_without_system(const char *event_name);

/* The adapter of an event, "system:" before it or not; NULL: there is none. */
const struct vg_adapter *vg_adapter_find(const char *event_name);
bool vg_adapter_has_field(const struct vg_adapter *adapter, const char *name);

/* event->ts_ns, cpu and stream are the caller's; everything else is set here. Returns NULL, or the
 * reason why this record must not be used. */
const char *vg_binding_read(const struct vg_binding *binding, struct vg_adapt_env *env,
                            const void *record, struct vg_event *event);

/* slot.c: for the families, the value of a slot; false if absent. */
bool vg_binding_int(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int64_t *ret_value);
bool vg_binding_str(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    char *buf, size_t size);
/* A thread id: 0..VG_TID_LIMIT. False if absent or impossible; required slots reject then. */
bool vg_binding_tid(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int32_t *ret_tid);

/* The families: arrays that end with an entry whose names[0] is NULL. */
extern const struct vg_adapter vg_adapt_sched[];
extern const struct vg_adapter_need vg_adapt_sched_needs[]; /* ends with an entry without event */
extern const struct vg_adapter vg_adapt_kvm[];
extern const struct vg_adapter_need vg_adapt_kvm_needs[]; /* likewise */
extern const struct vg_adapter_need vg_adapt_gpu_needs[]; /* likewise, of all that follow */
extern const struct vg_adapter vg_adapt_gvt[];
extern const struct vg_adapter vg_adapt_i915[];
extern const struct vg_adapter vg_adapt_drm[];
extern const struct vg_adapter vg_adapt_amdgpu[];
extern const struct vg_adapter vg_adapt_xe[];
extern const struct vg_adapter vg_adapt_vgpu_proxy[];

#endif
