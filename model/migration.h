/* SPDX-License-Identifier: Apache-2.0
 *
 * A move of a VM with its GPUs from one host to another: the request, the progress and the result.
 * Plain data described by records, stored by the journal and reported by the API.
 */
#ifndef VG_MODEL_MIGRATION_H
#define VG_MODEL_MIGRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/asker.h"
#include "base/record.h"
#include "model/gpu-target.h"
#include "model/migration-tls.h"
#include "model/verdict.h"

#define VG_MIGRATION_DEVICES_MAX 16
#define VG_MIGRATION_STEPS_MAX   100 /* stored per move */
#define VG_MIGRATION_XML_MAX     65536
#define VG_MIGRATION_TEXT_MAX    8192
#define VG_MIGRATION_NAME_MAX    255 /* bytes of a name in a request */
/* Value of `gpu_during` that lets vgpud choose. */
#define VG_MIGRATION_PLACE_CHOSEN "proxy"
#define VG_MIGRATION_PLACE_MAX    128 /* with the NUL, as in an agent (docs/vgpud-guest.7) */
#define VG_MIGRATION_ASKER_MAX                                                                     \
 512 /* maximum length of an identity, including the host where it is valid */
#define VG_MOVABLE_REASONS_MAX 100
#define VG_GUEST_PROGRAMS_MAX                                                                      \
 32 /* maximum number of programs that a guest reports; programs with a problem come first */

/* The first nine are the regular sequence, in this order. */
enum vg_migration_state {
    VG_MIGRATION_PENDING,
    VG_MIGRATION_PRECHECKING,
    VG_MIGRATION_RESERVING, /* the target's GPUs, and the source's in case of a rollback */
    VG_MIGRATION_QUIESCING, /* the guest releases its GPUs */
    VG_MIGRATION_DETACHING,
    VG_MIGRATION_MIGRATING,
    VG_MIGRATION_ATTACHING,
    VG_MIGRATION_RESUMING, /* the guest resumes the use of its GPUs */
    VG_MIGRATION_VERIFYING,
    VG_MIGRATION_ROLLING_BACK, /* completed steps are being undone */
    VG_MIGRATION_DONE,
    VG_MIGRATION_ROLLED_BACK, /* a step failed; the VM is on the source as before */
    VG_MIGRATION_ABORTED,     /* cancelled by a user; the VM is on the source as before */
    VG_MIGRATION_FAILED,      /* see cause, vm_on and gpu */
    VG_MIGRATION_STATE_MAX
};

static inline bool
vg_migration_has_ended(enum vg_migration_state state)
{
    return state >= VG_MIGRATION_DONE;
}

/* Where the VM is. */
enum vg_migration_place {
    VG_PLACE_UNKNOWN,
    VG_PLACE_SOURCE,
    VG_PLACE_TARGET,
    VG_PLACE_MOVING,  /* libvirt or nova is migrating it */
    VG_PLACE_NOWHERE, /* the VM is not running on either host */
    VG_PLACE_BOTH,    /* the VM is running on both hosts: it was started twice */
    VG_PLACE_MAX
};

/* Whether the VM has its GPUs there. */
enum vg_migration_gpu {
    VG_GPU_UNKNOWN,
    VG_GPU_ATTACHED,
    VG_GPU_DETACHED,
    VG_GPU_PARTLY, /* only some of them */
    VG_GPU_STATE_MAX
};

/* What started a move. */
enum vg_migration_origin {
    VG_ORIGIN_REQUEST, /* a user, or another vgpud */
    VG_ORIGIN_DRAIN,   /* the drain of the VM's host */
    VG_ORIGIN_MAX
};

/* asked_by of an automatic move. */
#define VG_ACT_BY "policy"

/* Prefix of asked_by for a move that a drain started, before the user who started the drain. */
#define VG_DRAIN_BY "drain by "

/* The software that migrates the VM. */
enum vg_migration_executor {
    VG_EXECUTOR_LIBVIRT,
    VG_EXECUTOR_NOVA, /* nova manages the VM, and vgpud requests the migration from nova */
    VG_EXECUTOR_MAX
};

/* What happens to the GPUs during a move. */
enum vg_migration_mode {
    VG_MODE_DETACH, /* the source's GPUs are unplugged, and the target's are plugged in */
    VG_MODE_NATIVE, /* QEMU transfers their state (VFIO migration) */
    VG_MODE_MAX
};

enum vg_move_device_kind {
    VG_MOVE_DEVICE_NAMED, /* a device of [gpu NAME] in the configuration */
    VG_MOVE_DEVICE_MDEV,
    VG_MOVE_DEVICE_PCI, /* a whole GPU, another function of its card, or a virtual function */
    VG_MOVE_DEVICE_KIND_MAX
};

/* A GPU that moves with the VM: a device on each host. */
struct vg_move_device {
    enum vg_move_device_kind kind;
    char *type;  /* NAME of [gpu NAME], otherwise as in vg_gpu_part */
    char *alias; /* in the domain: "ua-gpu0" */
    /* alias of the GPU that shares its card with this function; NULL for a GPU */
    char *function_of;
    char *guest_address;  /* PCI address in libvirt's form, "0000:01:00.0", or NULL */
    char *guest_path;     /* slots from the root bus, "00:02.0/00.0"; NULL if unknown */
    char *source_address; /* NAMED: NULL; MDEV: UUID; PCI: "0000:41:00.0" */
    char *target_gpu;     /* PCI address of the target's GPU, or NULL if any will do */
    char *target_address; /* as source_address, after reservation */
    bool persistent;      /* also part of the domain's persistent definition */
    char *source_xml;     /* XML element in the source's live domain */
    char *target_xml;     /* XML element to attach on the target, after reservation */
};

/* A request to another component, and its result. */
struct vg_migration_step {
    char *verb; /* "detach" */
    int64_t began_ns;
    int64_t ended_ns; /* 0 if the end is unknown */
    bool ok;
    bool undoes;     /* part of the rollback */
    int64_t attempt; /* number of retries of the move before this step */
    char *asked;     /* the request in words: "guest0 on h1: detach ua-gpu0" */
    char *answer;    /* the answer or the error */
};

/* The state of a VM according to a host's libvirt. */
enum vg_domain_place {
    VG_DOMAIN_ABSENT,   /* no such domain, or not running */
    VG_DOMAIN_HERE,     /* running */
    VG_DOMAIN_STILL,    /* paused, and not being migrated */
    VG_DOMAIN_LEAVING,  /* running, and being migrated to another host */
    VG_DOMAIN_INCOMING, /* being migrated to this host, and not running yet */
};

/* Progress of the memory copy, as libvirt or nova reports it. */
struct vg_migration_progress {
    int64_t total_bytes;
    int64_t remaining_bytes;
    int64_t processed_bytes;
    int64_t dirty_bytes_per_s;
    int64_t bytes_per_s;
    int64_t iteration;
    int64_t eta_ns;      /* 0 if unknown */
    int64_t downtime_ns; /* of a completed migration, as measured by libvirt; 0 if unknown */
    int64_t elapsed_ns;
};

/* A process in the guest that uses its GPUs, as the guest's agent reports it. Times of steps that
 * were not done are 0. */
struct vg_guest_program {
    char *by;    /* the agent's provider that releases it: "cuda" */
    int64_t pid; /* in the guest's pid namespace */
    char *comm;
    char *state;   /* as in docs/vgpud-guest.7: "running", "locked", "released", ... */
    char *movable; /* whether it can be restored: "yes", "no", "unknown"; NULL if not reported */
    char *why;     /* what prevents releasing or restoring it, or NULL */
    char *at;      /* the vgpu-proxy that it was switched to, or NULL */
    int64_t gpu_bytes; /* GPU memory; 0 if none, or not reported by the driver */
    int64_t lock_ns;   /* time that the driver needed to lock it */
    int64_t checkpoint_ns;
    int64_t restore_ns;
    int64_t unlock_ns;
    /* length of its pause, on the guest's clock; 0 if it is still paused, or never was */
    int64_t stop_ns;
    int64_t away_ns; /* the part of the pause before the process continued on a proxy; 0 if it did
                        not */
    int64_t held_threads; /* number of its threads that faulted during the pause and were held */
};

/* What is known about the guest's programs that use its GPUs. */
struct vg_guest_programs {
    char *doing; /* the agent's current work, one sentence; NULL if nothing was requested from it */
    int64_t total;     /* number of programs; may exceed those in the list */
    int64_t gpu_bytes; /* GPU memory used by all of them */
    int64_t forked; /* number of their forked children that inherited GPU files and are releasing or
                       have released them */
    int64_t forked_descriptors; /* total number of these files in all children, including those
                                   already released */
    int64_t forked_maps;
    char *driver; /* version of the guest's NVIDIA driver; NULL if not reported */
    /* char *, sentences: problems that users have reported for this version */
    GPtrArray *driver_faults;
    GPtrArray *programs; /* struct vg_guest_program */
};

/* Returns the first program that the driver can never restore, or NULL. */
const struct vg_guest_program *vg_guest_programs_lost(const struct vg_guest_programs *programs);

/* Returns whether another resume request would be useless: some programs are lost, and no other
 * program is waiting. Unlisted programs may be waiting. */
bool vg_guest_programs_are_final(const struct vg_guest_programs *programs);

/* The first function returns the time that a guest may take to undo a release, in addition to a
 * fixed time. The second returns the time that it may take to carry out an order: least_ns plus the
 * time for copying. The time for an order to release includes the time to undo it. The allowance
 * for copying is half a GB of GPU memory per second in one direction. Drivers copied 1 to 8 GiB per
 * second. The exception was JAX with cuda_async, where 12 GB took 43 s, which least_ns covers. The
 * agent uses the same formula (guest/work.h). */
int64_t vg_guest_undo_ns(int64_t gpu_bytes);
int64_t vg_guest_allowed_ns(int64_t least_ns, int64_t gpu_bytes, bool releases);

/* CPU time that the VM lost to waiting, averaged over up to VG_EFFECT_S seconds. */
#define VG_EFFECT_S 300

struct vg_migration_effect {
    bool known;
    int64_t lost_cpu_ns_per_s; /* 1e9 is one core */
    int64_t seconds;           /* number of seconds measured */
};

/* The prediction of a plan for a move. */
struct vg_move_forecast {
    char *plan_id;
    char *rule;
    int64_t gain_ns_per_s; /* CPU time no longer lost, on all hosts */
    int64_t gpu_ns_per_s;  /* time that GPU requests no longer wait */
    int64_t group;         /* in the plan */
    int64_t group_moves;   /* how many moves the group has */
};
typedef struct vg_move_forecast vg_move_forecast;

struct vg_migration {
    char *id; /* "move-" and 16 hexadecimal digits */
    char *vm;
    char *display_name; /* of the VM in OpenStack, or NULL */
    char *uuid;
    char *from; /* host names */
    char *to;
    char *peer;           /* NAME of the target's [peer NAME] */
    char *plan_id;        /* or NULL */
    char *undo_of;        /* id of the move that this move reverses, or NULL */
    char *act;            /* identifies an automatic move; otherwise NULL */
    int64_t act_revision; /* revision of the key of the leader that started it */
    int64_t act_until_ns; /* epoch; the move does not start later */
    bool not_started;     /* the move left the queue without executing a step */
    /* the user's identity; "uid:0 at h1" if the vgpud of h1 forwarded the request */
    char *asked_by;
    enum vg_migration_origin begun_by; /* not in the API */
    bool no_agent;                     /* the guest has no agent, or the agent is not to be used */
    char *gpu_during;     /* where OpenCL programs continue without a GPU, "proxy:PATH", or NULL */
    char *gpu_during_why; /* vgpud's reason for choosing that place or none; or NULL */
    enum vg_migration_executor executor;
    enum vg_migration_mode mode;
    char *mode_why;       /* the reason for this mode, one sentence, or NULL */
    enum vg_move_tls tls; /* decided once; also applies to retries and to the rollback */
    bool tls_warns;       /* as in vg_tls_choice */
    char *tls_why;        /* one sentence; NULL if an older vgpud started the move */
    char *nova_from;      /* nova's names for both hosts; NULL until nova has reported them */
    char *nova_to;
    enum vg_migration_state state;
    char *step; /* verb in progress, or NULL */
    bool abort_asked;
    int64_t retries;        /* number of retries after a failure */
    char *retried_by;       /* identity of the user who last retried it, or NULL */
    char *waits_for;        /* what it is waiting for, one sentence; NULL if it is not waiting */
    int64_t waits_since_ns; /* epoch */
    char *cause;       /* the first failure, one sentence, or NULL; for the text that users see, see
                        * vg_migration_cause() */
    char *left_over;   /* what the clean-up could not remove, or NULL; not in the API */
    char *not_resumed; /* why a failed move was not resumed, or NULL; not in the API */
    enum vg_migration_place vm_on;
    char *stands; /* why the VM is paused, "paused by a user"; NULL if it is not */
    enum vg_migration_gpu gpu;
    char *reservation;      /* id of the reservation held on the target, or NULL */
    int64_t made_ns;        /* epoch */
    int64_t ended_ns;       /* epoch; 0 if it has not ended */
    int64_t guest_pause_ns; /* the longest pause that the guest measured; 0 if unknown */
    /* When GPU programs were paused (epoch); 0 if they were not. */
    int64_t standstill_began_ns;
    int64_t standstill_ns;     /* length of that pause; 0 if it has not ended, or never was */
    int64_t downtime_limit_ns; /* maximum pause; 0 for no limit */
    struct vg_migration_progress progress;
    struct vg_guest_programs guest;
    bool predicted; /* a plan predicted the effect, so the next members are known */
    int64_t predicted_gain_ns_per_s; /* CPU time no longer lost, on all hosts */
    int64_t predicted_gpu_ns_per_s;  /* time that GPU requests no longer wait */
    char *rule;                      /* the rule that made the plan; NULL without a plan */
    int64_t group;       /* in that plan: the moves of a group are judged together; zero if none */
    int64_t group_moves; /* how many moves the group has */
    struct vg_migration_effect before; /* on the source */
    struct vg_migration_effect after;  /* on the target, since the move was done */
    struct vg_move_verdict verdict;    /* the verdict; NULL before the move was judged */
    GPtrArray *doubts;  /* char *: possible causes of failure that cannot be checked */
    GPtrArray *devices; /* struct vg_move_device */
    GPtrArray *steps;   /* struct vg_migration_step, oldest first */
};

/* A VM that lost its GPUs in a move and has not received any since. */
struct vg_bare_vm {
    char *vm;
    char *display_name; /* as vg_migration.display_name */
    char *uuid;
    char *host; /* where it is, as far as known */
    char *move; /* id of the unfinished move */
};

/* Name of the alert for such a VM. */
#define VG_BARE_ALERT "vm-without-gpu"

enum vg_movable_answer {
    VG_MOVABLE_UNKNOWN, /* see the reasons */
    VG_MOVABLE_YES,
    VG_MOVABLE_NO,
    VG_MOVABLE_MAX
};

/* Whether a VM can be moved now, according to its own host and guest. The target host is not
 * checked. */
struct vg_movable {
    char *vm;
    char *uuid; /* NULL if unknown */
    enum vg_movable_answer movable;
    GPtrArray *reasons; /* char *, sentences: everything that prevents a move */
    GPtrArray *doubts;  /* char *, sentences: possible causes of failure that cannot be checked */
    GPtrArray *devices; /* struct vg_move_device: GPUs that would move with it */
    struct vg_guest_programs guest;
};
typedef struct vg_movable vg_movable;

/* A request for a move. All strings except vm and to may be NULL. */
struct vg_migration_request {
    char *vm; /* name or UUID */
    char *to; /* host, or name of a peer */
    bool dry_run;
    bool no_agent;
    char *gpu_during; /* as in struct vg_migration, or VG_MIGRATION_PLACE_CHOSEN */
    bool forward;     /* if the VM is on another vgpud's host, forward the request to it */
    char *mode;       /* "detach" or "native"; NULL for "native" if possible */
    char *plan_id;   /* the move is part of this plan; it is refused if the situation has changed */
    char *plan_hash; /* that plan's input_hash */
    char *undo_of;
    char *act; /* as in struct vg_migration, like the next two */
    int64_t act_revision;
    int64_t act_until_ns;
    GPtrArray *gpus;                   /* struct vg_gpu_target: GPUs that the target is to use */
    char *on_behalf_of;                /* the user for whom another vgpud sends the request */
    char *asked_by;                    /* identity; not part of the document */
    enum vg_migration_origin begun_by; /* not part of the document */
    char *key;                         /* Idempotency-Key; not part of the document */
    struct vg_asker asker;             /* not part of the document */
    /* The prediction, if another vgpud forwarded the request; otherwise NULL. Not part of the
     * document. */
    vg_move_forecast *forecast;
};

/* The header field that contains the prediction's record as JSON. */
#define VG_FORECAST_HEADER "X-Vgpud-Forecast"
#define VG_FORECAST_MAX    4096

extern const struct vg_record_type vg_move_forecast_record;

vg_move_forecast *vg_move_forecast_new(void);
void vg_move_forecast_free(void *forecast); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_forecast, vg_move_forecast_free)

/* The first function returns the text of the header field, which the caller frees. The second
 * parses this text. */
char *vg_move_forecast_to_text(const vg_move_forecast *forecast);
vg_move_forecast *vg_move_forecast_from_text(const char *text, GError **err);

extern const struct vg_record_type vg_migration_request_record;
extern const struct vg_record_type vg_move_device_record;
extern const struct vg_record_type vg_migration_step_record;
extern const struct vg_record_type vg_migration_progress_record;
extern const struct vg_record_type vg_migration_effect_record;
extern const struct vg_record_type vg_guest_program_record;
extern const struct vg_record_type vg_guest_programs_record;
extern const struct vg_record_type vg_migration_record;
extern const struct vg_record_type vg_movable_record;
extern const struct vg_record_type vg_bare_vm_record;
extern const char *const vg_movable_names[];         /* "unknown", "yes", "no" */
extern const char *const vg_migration_state_names[]; /* "pending", ..., "rolled_back" */
extern const char *const vg_migration_place_names[];
extern const char *const vg_migration_gpu_names[];
extern const char *const vg_migration_mode_names[];     /* "detach", "native" */
extern const char *const vg_migration_origin_names[];   /* "request", "drain" */
extern const char *const vg_migration_executor_names[]; /* "libvirt", "nova" */
extern const char *const vg_move_device_kind_names[];   /* "named", "mdev", "pci" */

void vg_migration_request_free(void *request); /* NULL is fine */

/* vg_migration_is_place() returns whether text is "proxy:" and a path or an address that an agent
 * accepts. vg_migration_check_place() fails with VG_E_INVALID if it is not. */
bool vg_migration_is_place(const char *text);
int vg_migration_check_place(const char *text, GError **err);

/* Replaces the contents of to, except `doing`, with take_from. Does nothing if take_from is
 * NULL. */
void vg_guest_programs_replace(struct vg_guest_programs *to, struct vg_guest_programs *take_from);
void vg_guest_programs_free(void *programs); /* NULL is fine */

void vg_bare_vm_free(void *vm); /* NULL is fine */

struct vg_migration *vg_migration_new(void);
void vg_migration_free(void *migration); /* NULL is fine */
struct vg_migration *vg_migration_copy(const struct vg_migration *migration);

/* Returns the cause as shown to users: the first failure, what is left over, and why the move was
 * not resumed. NULL if all of these are absent. The caller frees it. */
char *vg_migration_cause(const struct vg_migration *migration);

/* Returns whether a move is waiting in the queue of its host: it was requested, or is to be
 * retried, and no step has started since. The record must include the steps. */
bool vg_migration_is_queued(const struct vg_migration *migration);

/* The newest moves, current or past, of one host's vgpud. */
struct vg_host_moves {
    char *host;
    char *peer;       /* that vgpud's name as a peer; NULL for this vgpud */
    char *reason;     /* why the moves are unknown, one sentence; NULL if they are known */
    GPtrArray *moves; /* struct vg_migration, without their steps, newest first */
};

/* Returns a record without moves that owns its members. The caller frees it. */
struct vg_host_moves *vg_host_moves_new(const char *host);
void vg_host_moves_free(void *moves); /* NULL is fine */

/* Returns an object with the members of a move that lists and events contain: its id, state, VM,
 * source and target. The caller puts it. */
json_object *vg_migration_summary(const struct vg_migration *migration);

typedef struct vg_migration vg_migration;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_migration, vg_migration_free)

void vg_movable_free(void *movable); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_movable, vg_movable_free)

#endif
