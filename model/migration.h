/* SPDX-License-Identifier: Apache-2.0
 *
 * A move of a VM from one host to another, with its GPUs: what was wanted, how far it has come, and
 * how it ended. Plain data described by records; kept by the journal, told by the API.
 */
#ifndef VG_MODEL_MIGRATION_H
#define VG_MODEL_MIGRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/asker.h"
#include "base/record.h"
#include "model/migration-tls.h"
#include "model/verdict.h"

#define VG_MIGRATION_DEVICES_MAX 16
#define VG_MIGRATION_STEPS_MAX   100 /* kept of a move */
#define VG_MIGRATION_XML_MAX     65536
#define VG_MIGRATION_TEXT_MAX    8192
#define VG_MIGRATION_NAME_MAX    255 /* bytes, in a request */
/* Of `gpu_during`: vgpud chooses. */
#define VG_MIGRATION_PLACE_CHOSEN "proxy"
#define VG_MIGRATION_PLACE_MAX    128 /* with the NUL, which an agent takes (docs/vgpud-guest.7) */
#define VG_MIGRATION_ASKER_MAX    512 /* the same: an identity, and the host where it holds */
#define VG_MOVABLE_REASONS_MAX    100
#define VG_GUEST_PROGRAMS_MAX     32 /* that a guest tells of, those with a trouble first */

/* The first nine are the way forward, in this order. */
enum vg_migration_state {
    VG_MIGRATION_PENDING,
    VG_MIGRATION_PRECHECKING,
    VG_MIGRATION_RESERVING, /* the target's GPUs, and the source's for a way back */
    VG_MIGRATION_QUIESCING, /* the guest lets go of its GPUs */
    VG_MIGRATION_DETACHING,
    VG_MIGRATION_MIGRATING,
    VG_MIGRATION_ATTACHING,
    VG_MIGRATION_RESUMING, /* the guest takes the GPUs up */
    VG_MIGRATION_VERIFYING,
    VG_MIGRATION_ROLLING_BACK, /* what was done is being undone */
    VG_MIGRATION_DONE,
    VG_MIGRATION_ROLLED_BACK, /* a step failed; the VM is on the source as it was */
    VG_MIGRATION_ABORTED,     /* somebody asked for it; the VM is on the source as it was */
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
    VG_PLACE_MOVING,  /* libvirt, or nova, is at it */
    VG_PLACE_NOWHERE, /* it runs on neither host */
    VG_PLACE_BOTH,    /* it runs on both: somebody has started it twice */
    VG_PLACE_MAX
};

/* Whether it has its GPUs there. */
enum vg_migration_gpu {
    VG_GPU_UNKNOWN,
    VG_GPU_ATTACHED,
    VG_GPU_DETACHED,
    VG_GPU_PARTLY, /* some of several */
    VG_GPU_STATE_MAX
};

/* What has started a move. */
enum vg_migration_origin {
    VG_ORIGIN_REQUEST, /* a person, or another vgpud */
    VG_ORIGIN_DRAIN,   /* the drain of the host that the VM leaves */
    VG_ORIGIN_MAX
};

/* The asked_by of a move that a drain has begun: this, and who began the drain. */
#define VG_DRAIN_BY "drain by "

/* Who moves the VM. */
enum vg_migration_executor {
    VG_EXECUTOR_LIBVIRT,
    VG_EXECUTOR_NOVA, /* it manages the VM, and is asked to */
    VG_EXECUTOR_MAX
};

/* What becomes of the GPUs meanwhile. */
enum vg_migration_mode {
    VG_MODE_DETACH, /* they are unplugged, and others are plugged in on the target */
    VG_MODE_NATIVE, /* QEMU takes their state along (VFIO migration) */
    VG_MODE_MAX
};

enum vg_move_device_kind {
    VG_MOVE_DEVICE_NAMED, /* a device of [gpu NAME] in the configuration */
    VG_MOVE_DEVICE_MDEV,
    VG_MOVE_DEVICE_PCI, /* a whole GPU, another function of its card, or a virtual function */
    VG_MOVE_DEVICE_KIND_MAX
};

/* A GPU that moves with the VM. The hosts have one each. */
struct vg_move_device {
    enum vg_move_device_kind kind;
    char *type;           /* NAME of [gpu NAME], else as of vg_gpu_part */
    char *alias;          /* in the domain: "ua-gpu0" */
    char *function_of;    /* alias of the GPU that it is another function of; NULL: it is a GPU */
    char *guest_address;  /* PCI, as libvirt has it: "0000:01:00.0"; NULL: none */
    char *guest_path;     /* slots from the root bus: "00:02.0/00.0"; NULL: unknown */
    char *source_address; /* NAMED: NULL; MDEV: UUID; PCI: "0000:41:00.0" */
    char *target_address; /* likewise, once reserved */
    bool persistent;      /* the domain's persistent definition has it, too */
    char *source_xml;     /* the element, as the source's live domain has it */
    char *target_xml;     /* the element to attach on the target, once reserved */
};

/* What was asked of somebody, and what came of it. */
struct vg_migration_step {
    char *verb; /* "detach" */
    int64_t began_ns;
    int64_t ended_ns; /* 0: it is not known to have ended */
    bool ok;
    bool undoes;     /* it was part of the way back */
    int64_t attempt; /* how often the move had been taken up again by then */
    char *asked;     /* in words: "guest0 on h1: detach ua-gpu0" */
    char *answer;    /* what came back, or the error */
};

/* What a host's libvirt says of a VM. */
enum vg_domain_place {
    VG_DOMAIN_ABSENT,   /* there is no such domain, or it does not run */
    VG_DOMAIN_HERE,     /* it runs */
    VG_DOMAIN_STILL,    /* it is there and stands still, and no migration is under way */
    VG_DOMAIN_LEAVING,  /* it runs, and a migration to elsewhere is under way */
    VG_DOMAIN_INCOMING, /* it is being migrated to here, and does not run yet */
};

/* How far copying the memory is, as libvirt or nova tells. */
struct vg_migration_progress {
    int64_t total_bytes;
    int64_t remaining_bytes;
    int64_t processed_bytes;
    int64_t dirty_bytes_per_s;
    int64_t bytes_per_s;
    int64_t iteration;
    int64_t eta_ns;      /* 0: unknown */
    int64_t downtime_ns; /* of a migration that has ended, as libvirt measured; 0: unknown */
    int64_t elapsed_ns;
};

/* A process of the guest that uses its GPUs, as the guest's agent tells. Times are 0 for what was
 * not done. */
struct vg_guest_program {
    char *by;    /* the agent's provider that releases it: "cuda" */
    int64_t pid; /* as the guest sees it */
    char *comm;
    char *state;   /* of docs/vgpud-guest.7: "running", "locked", "released", ... */
    char *movable; /* whether it could be brought back: "yes", "no", "unknown"; NULL: not told */
    char *why;     /* what is in the way of releasing it or of bringing it back; NULL: nothing */
    char *at;      /* the vgpu-proxy at which it computes; NULL: none that it was sent to */
    int64_t gpu_bytes; /* GPU memory; 0: none, or the driver does not say */
    int64_t lock_ns;   /* how long the driver took */
    int64_t checkpoint_ns;
    int64_t restore_ns;
    int64_t unlock_ns;
    int64_t
        stop_ns; /* how long it stood still, on the guest's clock; 0: it still does, or never did */
    int64_t away_ns;      /* how long before that, until it computed at a proxy; 0: it did not */
    int64_t held_threads; /* how many of its threads faulted meanwhile and were held */
};

/* What is known of the programs in the guest that use its GPUs. */
struct vg_guest_programs {
    char *doing;       /* what the agent is at now, one sentence; NULL: nothing was asked of it */
    int64_t total;     /* may be more than are listed */
    int64_t gpu_bytes; /* of all of them, in GPU memory */
    int64_t forked;    /* children of theirs that have only inherited files of the GPUs, which they
                        * give up, or gave up: how many */
    int64_t forked_descriptors; /* what all of these have, or had, of that */
    int64_t forked_maps;
    char *driver;             /* version of NVIDIA's driver in the guest; NULL: not told */
    GPtrArray *driver_faults; /* char *, sentences: what users have reported of this version */
    GPtrArray *programs;      /* struct vg_guest_program */
};

/* Returns the first program that the driver can never bring back, or NULL. */
const struct vg_guest_program *vg_guest_programs_lost(const struct vg_guest_programs *programs);

/* Returns whether another order to resume cannot help any program: some are lost, and no other one
 * waits. Programs that are not listed may wait. */
bool vg_guest_programs_are_final(const struct vg_guest_programs *programs);

/* Return the time that a guest is allowed for undoing a release, beyond a fixed part, and for an
 * order: least_ns, and the copying. An order to release may have to be undone. Copying is allowed
 * at half a GB of GPU memory a second in one direction. Drivers copied 1 to 8 GiB a second; the
 * exception was JAX with cuda_async, 12 GB of which took 43 s, which least_ns covers. The agent
 * counts alike (guest/work.h). */
int64_t vg_guest_undo_ns(int64_t gpu_bytes);
int64_t vg_guest_allowed_ns(int64_t least_ns, int64_t gpu_bytes, bool releases);

/* CPU time that the VM lost to waiting, on average over up to VG_EFFECT_S seconds. */
#define VG_EFFECT_S 300

struct vg_migration_effect {
    bool known;
    int64_t lost_cpu_ns_per_s; /* 1e9 is one core */
    int64_t seconds;           /* that were measured */
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
    char *peer;     /* name of [peer NAME] that is the target */
    char *plan_id;  /* or NULL */
    char *undo_of;  /* id of the move that this one takes back, or NULL */
    char *asked_by; /* person, by identity; "uid:0 at h1" where the vgpud of h1 passed it on */
    enum vg_migration_origin begun_by; /* not in the API */
    bool no_agent;                     /* the guest has no agent, or is not to be asked */
    char
        *gpu_during; /* where programs of OpenCL go on without a GPU, "proxy:PATH"; NULL: nowhere */
    char *gpu_during_why; /* where vgpud has chosen that: why there, or why nowhere; or NULL */
    enum vg_migration_executor executor;
    enum vg_migration_mode mode;
    char *mode_why;       /* why this one, one sentence; NULL: there is nothing to say */
    enum vg_move_tls tls; /* decided once, also for a retry and the way back */
    bool tls_warns;       /* as in vg_tls_choice */
    char *tls_why;        /* one sentence; NULL: an older vgpud began the move */
    char *nova_from;      /* what nova calls both hosts; NULL: it has not told yet */
    char *nova_to;
    enum vg_migration_state state;
    char *step; /* verb that runs now, or NULL */
    bool abort_asked;
    int64_t retries;        /* how often it was taken up again after it had failed */
    char *retried_by;       /* identity, the last time; NULL: never */
    char *waits_for;        /* why it does not go on now, one sentence; NULL: it does */
    int64_t waits_since_ns; /* epoch */
    char *cause;            /* the first failure, one sentence; NULL: none; see below for users */
    char *left_over;        /* what tidying up could not remove; NULL: nothing; not in the API */
    char *not_resumed;      /* why a move that had failed was not resumed; likewise */
    enum vg_migration_place vm_on;
    char *stands; /* why the VM stands still where it is: "paused by a user"; NULL: it does not */
    enum vg_migration_gpu gpu;
    char *reservation;      /* id, on the target; NULL: none held */
    int64_t made_ns;        /* epoch */
    int64_t ended_ns;       /* epoch; 0: not yet */
    int64_t guest_pause_ns; /* the longest that the guest saw; 0: unknown */
    /* Programs with a GPU stood still from this time (epoch) on; 0: they have not. */
    int64_t standstill_began_ns;
    int64_t standstill_ns;     /* for so long; 0: they still do, or never did */
    int64_t downtime_limit_ns; /* the longest pause that was wanted; 0: there was no limit */
    struct vg_migration_progress progress;
    struct vg_guest_programs guest;
    bool predicted;                  /* by a plan: the next one is known */
    int64_t predicted_gain_ns_per_s; /* CPU time no longer lost, on all hosts */
    int64_t predicted_gpu_ns_per_s;  /* time that GPU requests no longer wait */
    char *rule;                      /* the rule that made the plan; NULL without a plan */
    int64_t group;       /* in that plan: the moves of a group are judged together; zero if none */
    int64_t group_moves; /* how many moves the group has */
    struct vg_migration_effect before; /* on the source */
    struct vg_migration_effect after;  /* on the target, since the move was done */
    struct vg_move_verdict verdict;    /* once it was judged */
    GPtrArray *doubts;                 /* char *: what may make it fail, and cannot be told */
    GPtrArray *devices;                /* struct vg_move_device */
    GPtrArray *steps;                  /* struct vg_migration_step, oldest first */
};

/* A VM that a move has taken its GPUs, and that has not got them back. */
struct vg_bare_vm {
    char *vm;
    char *display_name; /* as vg_migration.display_name */
    char *uuid;
    char *host; /* on which it is, as far as is known */
    char *move; /* id of the move that is to be finished */
};

/* The alert of such a VM. */
#define VG_BARE_ALERT "vm-without-gpu"

enum vg_movable_answer {
    VG_MOVABLE_UNKNOWN, /* reasons say why */
    VG_MOVABLE_YES,
    VG_MOVABLE_NO,
    VG_MOVABLE_MAX
};

/* Whether a VM could be moved now, as far as its own host and guest can tell: the other host is not
 * looked at. */
struct vg_movable {
    char *vm;
    char *uuid; /* NULL: it has none that is known */
    enum vg_movable_answer movable;
    GPtrArray *reasons; /* char *, sentences: all that speaks against it */
    GPtrArray *doubts;  /* char *, sentences: what may make a move fail, and cannot be told */
    GPtrArray *devices; /* struct vg_move_device: GPUs that would move with it */
    struct vg_guest_programs guest;
};
typedef struct vg_movable vg_movable;

/* What somebody asks for. Strings may be NULL but for vm and to. */
struct vg_migration_request {
    char *vm; /* name or UUID */
    char *to; /* host, or name of a peer */
    bool dry_run;
    bool no_agent;
    char *gpu_during; /* as in struct vg_migration, or VG_MIGRATION_PLACE_CHOSEN */
    bool forward;     /* if another vgpud has the VM, that one is asked */
    char *mode;       /* "detach" or "native"; NULL: "native" where that can be */
    char *plan_id;    /* the move is part of this plan, and is refused if things have changed */
    char *plan_hash;  /* input_hash of that plan */
    char *undo_of;
    char *on_behalf_of;                /* the person for whom another vgpud asks */
    char *asked_by;                    /* identity; not part of the document */
    enum vg_migration_origin begun_by; /* not part of the document */
    char *key;                         /* Idempotency-Key; not part of the document */
    struct vg_asker asker;             /* not part of the document */
    /* The prediction, if another vgpud passes the request on; or NULL. Not part of the document. */
    vg_move_forecast *forecast;
};

/* The header field that has the prediction: its record as JSON. */
#define VG_FORECAST_HEADER "X-Vgpud-Forecast"
#define VG_FORECAST_MAX    4096

extern const struct vg_record_type vg_move_forecast_record;

vg_move_forecast *vg_move_forecast_new(void);
void vg_move_forecast_free(void *forecast); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_forecast, vg_move_forecast_free)

/* Converts to the text of the header field, which the caller frees, and back. */
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

/* Returns whether text is "proxy:" and a path or an address that an agent takes; the second one
 * fails with VG_E_INVALID unless it is. */
bool vg_migration_is_place(const char *text);
int vg_migration_check_place(const char *text, GError **err);

/* Puts take_from in the place of what is in to, but for `doing`, which stays. NULL: changes
 * nothing. */
void vg_guest_programs_replace(struct vg_guest_programs *to, struct vg_guest_programs *take_from);
void vg_guest_programs_free(void *programs); /* NULL is fine */

void vg_bare_vm_free(void *vm); /* NULL is fine */

struct vg_migration *vg_migration_new(void);
void vg_migration_free(void *migration); /* NULL is fine */
struct vg_migration *vg_migration_copy(const struct vg_migration *migration);

/* Returns the cause as users see it: the first failure, what is left over, and why the move was not
 * resumed. NULL if there is none of these; the caller frees it. */
char *vg_migration_cause(const struct vg_migration *migration);

/* Returns whether a move waits in the queue of its host: it was asked for, or is to be taken up
 * again, and no step has begun since. The record must have its steps. */
bool vg_migration_is_queued(const struct vg_migration *migration);

/* The newest moves that the vgpud of one host runs or has run. */
struct vg_host_moves {
    char *host;
    char *peer;       /* what that vgpud is called as a peer; NULL: it is this one */
    char *reason;     /* why the moves are not known, as a sentence; NULL: they are */
    GPtrArray *moves; /* struct vg_migration, without their steps, newest first */
};

/* Returns one without moves, whose members are owned; the caller frees it. */
struct vg_host_moves *vg_host_moves_new(const char *host);
void vg_host_moves_free(void *moves); /* NULL is fine */

/* Makes an object of what lists and events tell of every move: its id and state, whose it is, and
 * from where to where it goes. The caller puts it. */
json_object *vg_migration_summary(const struct vg_migration *migration);

typedef struct vg_migration vg_migration;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_migration, vg_migration_free)

void vg_movable_free(void *movable); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_movable, vg_movable_free)

#endif
