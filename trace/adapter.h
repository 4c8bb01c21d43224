/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts raw records of any format to vg_events. A format (CTF, text, perf rings) provides access
 * to its records through a field reader; an adapter family (trace/adapt-*.c) is a table that says
 * which event names it understands and which fields it wants. Names are looked up once per event
 * class, in vg_binding_init(); vg_binding_read() then only reads values.
 *
 * A record whose values cannot be true (a thread id that no kernel assigns, a CPU that cannot
 * exist) is rejected with a reason instead of becoming an event. Reentrant; no global state.
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

/* How one format provides access to a record. event_class and record are the format's own. */
struct vg_field_reader {
    /* Returns a handle >= 0 for the field, or -1 if the class has no such field. A format that
     * does not know its fields before it reads a record may return a handle for any name. */
    int (*find)(void *event_class, enum vg_field_scope scope, const char *name);
    /* Returns false if the record does not have the field or it is not a number. */
    bool (*get_int)(const void *record, int handle, int64_t *ret_value);
    /* Writes at most size - 1 bytes and pads with NUL to size. Returns false if the field is
     * absent or not text. */
    bool (*get_str)(const void *record, int handle, char *buf, size_t size);
};

/* The fields that an adapter can request. Their names depend on the dialect. */
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
    VG_SLOT_EXCEPTION, /* KVM's code on arm64: a number or a name */
    VG_SLOT_EXCEPTION_CLASS,
    VG_SLOT_DEVICE, /* a number or a name, like all of these except ids */
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
    VG_SLOT_ENTITY, /* address of the DRM scheduler's entity */
    VG_SLOT_OBJECT,
    VG_SLOT_SIZE,
    VG_SLOT_VM, /* its name */
    VG_SLOT_AT, /* ns of the recording's clock: time of an event that was recorded later */
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
    const char *names[6]; /* event names without the "system:" prefix; NULL-terminated */
    enum vg_event_type type;
    const struct vg_adapter_field *fields; /* ends with an entry whose names[0] is NULL */
    vg_adapt_fn *read;
    uint8_t gpu_op;     /* of VG_EVENT_GPU: enum vg_gpu_op */
    uint16_t gpu_flags; /* and enum vg_gpu_flag */
};

/* A measurement that requires certain events. */
struct vg_adapter_need {
    const char *event;  /* the required event, in the usual notation; NULL ends the table */
    uint32_t types;     /* VG_SEEN_...: any of these is sufficient */
    unsigned int lack;  /* enum vg_cpu_lack: the consequence if they are missing */
    uint32_t with;      /* the lack deserves a warning only if one of these types was recorded */
    const char *beside; /* name for these types in the warning, as in "sched_switch" */
    bool only_with;     /* without these types, nothing is considered missing */
};

/* The event types in a recording and the ops of its GPU events, as bits. */
#define VG_SEEN_TYPE(type) (1U << (type))
#define VG_SEEN_GPU(op)    (1U << (16 + (op)))
_Static_assert(VG_EVENT_TYPE_MAX <= 16 && VG_GPU_OP_MAX <= 16, "types and ops have 16 bits each");

/* Whether prev_state is shifted by one bit (vg_state_may_be_shifted()). */
enum vg_state_shift { VG_SHIFT_UNKNOWN, VG_SHIFT_NONE, VG_SHIFT_ONE_BIT };

/* Names of devices and engines that records give as small numbers, so that each is created only
 * once; 0 if not created yet. */
#define VG_GPU_NUMBERS_MAX 16
struct vg_gpu_numbers {
    uint16_t cards[VG_GPU_NUMBERS_MAX];
    uint16_t rings[VG_GPU_NUMBERS_MAX];
    uint16_t engines[VG_GPU_NUMBERS_MAX][VG_GPU_NUMBERS_MAX]; /* by class and instance */
};

/* Old kernels record a ring's name as an address, which only some recorders convert to text. An
 * amdgpu record has the name. Either it has the address as well, or the scheduler's record for the
 * same job by the same thread follows. */
#define VG_RINGS_MAX       64
#define VG_RINGS_ASKED_MAX 16

struct vg_ring_names {
    struct {
        uint64_t address;
        uint16_t name; /* id of the name */
    } known[VG_RINGS_MAX];
    struct {
        int32_t tid;
        uint64_t job;
        uint16_t name;
    } asked[VG_RINGS_ASKED_MAX]; /* the latest jobs reported by amdgpu */
    uint32_t n_known, n_asked;
};

/* State of a whole recording. All its streams share one, because records reveal facts during
 * reading. */
struct vg_adapt_env {
    int64_t state_max_bit; /* vg_state_max_bit() of the recorded kernel */
    enum vg_state_shift state_shift;
    bool shows_exits; /* shows exits as X or Z, so that trace-cmd's x does not mean an exit */
    vg_names *names;  /* of GPUs and engines; borrowed */
    struct vg_gpu_numbers gpu_numbers;
    struct vg_ring_names rings;
    bool xe_tells; /* xe reports its jobs itself; the DRM scheduler's reports are duplicates */
};

/* release: `uname -r` of the recorded kernel, NULL if unknown. */
void vg_adapt_env_init(struct vg_adapt_env *env, const char *release, vg_names *names);

/* An event class with its adapter. */
struct vg_binding {
    const struct vg_adapter *adapter; /* NULL for VG_EVENT_OTHER, where only the context is read */
    const struct vg_field_reader *reader;
    bool is_perf_record;     /* perf's own record about processes, not a tracepoint */
    int handle[VG_SLOT_MAX]; /* -1 if absent */
};

/* Finds the adapter for the event name in all families, and its fields in the class. aliases has
 * other names and may be NULL. */
void vg_binding_init(struct vg_binding *binding, const char *event_name, const vg_aliases *aliases,
                     const struct vg_field_reader *reader, void *event_class);

/* Returns an event's name without the "system:" prefix of perf and its CTF. */
const char *vg_event_without_system(const char *event_name);

/* Returns the adapter of an event, given with or without "system:", or NULL if not found. */
const struct vg_adapter *vg_adapter_find(const char *event_name);
bool vg_adapter_has_field(const struct vg_adapter *adapter, const char *name);

/* Reads all members except event->ts_ns, cpu and stream, which the caller sets. Returns NULL, or
 * the reason why the record must not be used. */
const char *vg_binding_read(const struct vg_binding *binding, struct vg_adapt_env *env,
                            const void *record, struct vg_event *event);

/* For the families: read the value of a slot. Return false if it is absent. Defined in slot.c. */
bool vg_binding_int(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int64_t *ret_value);
bool vg_binding_str(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    char *buf, size_t size);
/* Reads a thread id in 0..VG_TID_LIMIT. Returns false if it is absent or out of range; required
 * slots then reject the record. */
bool vg_binding_tid(const struct vg_binding *binding, enum vg_slot slot, const void *record,
                    int32_t *ret_tid);

/* The families: each array ends with an entry whose names[0] is NULL. */
extern const struct vg_adapter vg_adapt_sched[];
extern const struct vg_adapter_need
    vg_adapt_sched_needs[]; /* ends with an entry without an event */
extern const struct vg_adapter vg_adapt_kvm[];
extern const struct vg_adapter_need vg_adapt_kvm_needs[]; /* same */
extern const struct vg_adapter_need vg_adapt_gpu_needs[]; /* all of the following are the same */
extern const struct vg_adapter vg_adapt_gvt[];
extern const struct vg_adapter vg_adapt_i915[];
extern const struct vg_adapter vg_adapt_drm[];
extern const struct vg_adapter vg_adapt_amdgpu[];
extern const struct vg_adapter vg_adapt_xe[];
extern const struct vg_adapter vg_adapt_vgpu_proxy[];

#endif
