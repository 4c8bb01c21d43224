/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/forecast.h"

#include <stdlib.h>

#include "base/clock.h"
#include "model/vm-name.h"

#define UNPLUG_S 1.0
#define GUEST_S  0.5
/* The same if no program uses the GPU: only hooks run. */
#define HOOKS_S 0.3
/* The time of a migration in addition to the copying: a QEMU starts on the target. */
#define MIGRATE_S 1.0
/* The time of a query to another program. */
#define ASK_S 0.1
/* The default rates at which NVIDIA's driver moves GPU memory on H200 with huge pages, until
 * earlier moves show the VM's own rates: docs/benchmarks.md, "Large programs". */
#define RELEASE_BYTES_PER_S (2.4 * 1073741824)
#define RESTORE_BYTES_PER_S (6.0 * 1073741824)
/* With less GPU memory, the driver's fixed time would dominate the rate. */
#define RATE_BYTES_MIN (INT64_C(1) << 30)
/* The maximum number of passes over the memory. A guest that rewrites it faster is throttled. */
#define PASSES_MAX 5
/* The time for which QEMU measured the rewritten memory. A guest mostly rewrites the same pages, so
 * a longer pass finds hardly more. */
#define DIRTY_S 1.0
/* QEMU's default downtime limit. The rest that can be copied in this time is left to the switch. */
#define SWITCH_S 0.3
/* The maximum number of earlier moves whose durations are used. */
#define LEARN_MAX 5

/* ---- earlier moves ---- */

/* The durations of each verb in earlier moves. Their median is used. */
struct forecast_sample {
    unsigned n[VG_MOVE_VERB_MAX];
    double s[VG_MOVE_VERB_MAX][LEARN_MAX];
    unsigned n_copied;
    double copied[LEARN_MAX]; /* in bytes */
    double rate[LEARN_MAX];   /* in bytes per second */
    unsigned n_released, n_restored;
    double release[LEARN_MAX], restore[LEARN_MAX]; /* in bytes of GPU memory per second */
    unsigned moves;
};

static int
forecast_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
forecast_median(double *values, unsigned n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof(*values), forecast_compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Returns how long the driver copied the programs of a move, all concurrently, or 0 if unknown. */
static double
forecast_driver_s(const struct vg_migration *move, enum vg_move_verb verb)
{
    int64_t longest_ns = 0;

    for (guint i = 0; i < move->guest.programs->len; i++) {
        const struct vg_guest_program *program = move->guest.programs->pdata[i];
        longest_ns =
            MAX(longest_ns, verb == VG_MOVE_QUIESCE ? program->checkpoint_ns : program->restore_ns);
    }
    return (double)longest_ns / (double)VG_NS_PER_S;
}

/* Subtracts the driver's time from a step's and records the driver's rate. Returns the rest. */
static double
forecast_rest_s(struct forecast_sample *sample, const struct vg_migration *move,
                enum vg_move_verb verb, double s)
{
    const double bytes = (double)move->guest.gpu_bytes, driver_s = forecast_driver_s(move, verb);
    const bool releases = verb == VG_MOVE_QUIESCE;

    if (driver_s <= 0)
        return s - bytes / (releases ? RELEASE_BYTES_PER_S : RESTORE_BYTES_PER_S);
    if (move->guest.gpu_bytes < RATE_BYTES_MIN)
        return s;
    if (releases)
        sample->release[sample->n_released++] = bytes / driver_s;
    else
        sample->restore[sample->n_restored++] = bytes / driver_s;
    return s - driver_s;
}

static void
forecast_add_step(struct forecast_sample *sample, const struct vg_migration *move,
                  const struct vg_migration_step *step)
{
    const int verb = vg_move_verb_from_name(step->verb);
    double s = (double)(step->ended_ns - step->began_ns) / (double)VG_NS_PER_S;

    if (verb < 0 || !step->ok || step->undoes || step->attempt > 0 || step->ended_ns == 0 ||
        sample->n[verb] >= LEARN_MAX)
        return;
    if (verb == VG_MOVE_QUIESCE || verb == VG_MOVE_RESUME)
        s = forecast_rest_s(sample, move, (enum vg_move_verb)verb, s);
    else if (verb == VG_MOVE_MIGRATE)
        s -= (double)move->progress.elapsed_ns / (double)VG_NS_PER_S;
    sample->s[verb][sample->n[verb]++] = MAX(s, 0.001);
}

static void
forecast_add_move(struct forecast_sample *sample, const struct vg_migration *move)
{
    const struct vg_migration_progress *progress = &move->progress;
    const double copied = (double)progress->processed_bytes;

    if (sample->moves == LEARN_MAX)
        return;
    sample->moves++;
    for (guint i = 0; i < move->steps->len; i++)
        forecast_add_step(sample, move, move->steps->pdata[i]);
    if (copied <= 0 || progress->elapsed_ns <= 0)
        return;
    sample->rate[sample->n_copied] = copied * (double)VG_NS_PER_S / (double)progress->elapsed_ns;
    sample->copied[sample->n_copied++] = copied;
}

void
vg_forecast_learn(const GPtrArray *moves, const char *uuid, struct vg_forecast_past *ret)
{
    struct forecast_sample own = {0}, all = {0};

    *ret = (struct vg_forecast_past){0};
    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *move = moves->pdata[i];
        if (move->state != VG_MIGRATION_DONE || move->executor != VG_EXECUTOR_LIBVIRT)
            continue;
        forecast_add_move(&all, move);
        if (vg_vm_is(uuid, NULL, move->uuid))
            forecast_add_move(&own, move);
    }
    for (int verb = 0; verb < VG_MOVE_VERB_MAX; verb++) {
        struct forecast_sample *from = own.n[verb] > 0 ? &own : &all;
        ret->took_s[verb] = forecast_median(from->s[verb], from->n[verb]);
    }
    struct forecast_sample *releases = own.n_released > 0 ? &own : &all;
    ret->release_bytes_per_s = forecast_median(releases->release, releases->n_released);
    struct forecast_sample *restores = own.n_restored > 0 ? &own : &all;
    ret->restore_bytes_per_s = forecast_median(restores->restore, restores->n_restored);
    ret->copied_bytes = (int64_t)forecast_median(own.copied, own.n_copied);
    struct forecast_sample *from = own.n_copied > 0 ? &own : &all;
    ret->bytes_per_s = (int64_t)forecast_median(from->rate, from->n_copied);
}

/* ---- steps ---- */

/* Returns the copying rate: that of earlier moves or the link's, up to the configured maximum. */
static double
forecast_rate(const struct vg_forecast_facts *facts)
{
    const double most = (double)facts->bandwidth_bytes_per_s;
    const double link = (double)facts->link_bytes_per_s;

    const double usual =
        facts->past && facts->past->bytes_per_s > 0 ? (double)facts->past->bytes_per_s : link;

    return most > 0 ? MIN(most, usual) : usual;
}

/* Returns how much is copied. During the move, the guest's memory also holds the programs' GPU
 * memory, in previously free pages that would not be copied otherwise. Memory that the guest
 * rewrites during a pass is copied in the next pass, until the rest fits into the switch. */
static double
forecast_bytes(const struct vg_forecast_facts *facts, double rate)
{
    const double touched = facts->touched_bytes > 0
                               ? (double)MIN(facts->touched_bytes, facts->memory_bytes)
                               : (double)facts->memory_bytes;
    const double first = touched + (double)facts->gpu_bytes;
    double pass = first, bytes = first;

    for (int n = 1; n < PASSES_MAX && (n == 1 || pass > rate * SWITCH_S); n++) {
        pass = MIN((double)facts->dirty_bytes_per_s * MIN(pass / rate, DIRTY_S), first);
        bytes += pass;
    }
    return bytes;
}

static double
forecast_copy_s(const struct vg_forecast_facts *facts)
{
    const double rate = forecast_rate(facts);
    const double bytes = facts->past && facts->past->copied_bytes > 0
                             ? (double)facts->past->copied_bytes
                             : forecast_bytes(facts, rate);

    return bytes / rate + (double)facts->stun_ns / (double)VG_NS_PER_S;
}

/* Returns the duration of a verb in earlier moves, or the default. */
static double
forecast_took_s(enum vg_move_verb verb, const struct vg_forecast_facts *facts, double otherwise)
{
    return facts->past && facts->past->took_s[verb] > 0 ? facts->past->took_s[verb] : otherwise;
}

static double
forecast_expected_s(enum vg_move_verb verb, const struct vg_forecast_facts *facts)
{
    const double gpu_bytes = (double)facts->gpu_bytes;
    const double guest_s = facts->has_programs ? GUEST_S : HOOKS_S;

    switch (verb) {
    case VG_MOVE_QUIESCE:
        return forecast_took_s(verb, facts, guest_s) +
               gpu_bytes / (facts->past && facts->past->release_bytes_per_s > 0
                                ? facts->past->release_bytes_per_s
                                : RELEASE_BYTES_PER_S);
    case VG_MOVE_RESUME:
        return forecast_took_s(verb, facts, guest_s) +
               gpu_bytes / (facts->past && facts->past->restore_bytes_per_s > 0
                                ? facts->past->restore_bytes_per_s
                                : RESTORE_BYTES_PER_S);
    case VG_MOVE_DETACH:
    case VG_MOVE_ATTACH:
        return forecast_took_s(verb, facts, UNPLUG_S);
    case VG_MOVE_MIGRATE:
        return forecast_took_s(verb, facts, MIGRATE_S) + forecast_copy_s(facts);
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_RESERVE:
    case VG_MOVE_VERIFY:
    case VG_MOVE_RETURN:
    case VG_MOVE_REATTACH:
    case VG_MOVE_REVIVE:
    case VG_MOVE_TIDY:
    case VG_MOVE_RELEASE:
    case VG_MOVE_VERB_MAX:
    default:
        return forecast_took_s(verb, facts, ASK_S);
    }
}

static double
forecast_deadline_s(enum vg_move_verb verb, const struct vg_forecast_facts *facts,
                    const struct vg_forecast_limits *limits)
{
    int64_t ns = vg_move_deadline_ns(verb);

    if (verb == VG_MOVE_QUIESCE || verb == VG_MOVE_RESUME)
        ns = vg_guest_allowed_ns(limits->guest_ns, facts->gpu_bytes, verb == VG_MOVE_QUIESCE);
    else if (verb == VG_MOVE_DETACH)
        ns = limits->unplug_ns;
    else if (verb == VG_MOVE_MIGRATE)
        ns = limits->migrate_ns;
    return (double)ns / (double)VG_NS_PER_S;
}

void
vg_forecast_make(bool has_gpus, bool has_agent, const struct vg_forecast_facts *facts,
                 const struct vg_forecast_limits *limits, struct vg_forecast *ret)
{
    const struct vg_move_facts begin = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
    struct vg_move move;
    enum vg_move_verb verb;

    *ret = (struct vg_forecast){0};
    vg_move_init(&move, has_gpus, has_gpus && has_agent && !facts->native);
    move.native = facts->native;
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX && ret->n < VG_MOVE_VERB_MAX) {
        struct vg_forecast_step *step = &ret->steps[ret->n++];
        vg_move_report(&move, true, verb == VG_MOVE_LOOK ? &begin : NULL);
        step->verb = verb;
        step->expected_s = forecast_expected_s(verb, facts);
        step->deadline_s = forecast_deadline_s(verb, facts, limits);
        ret->expected_s += step->expected_s;
        /* Programs that use a proxy during the move are paused only in these two verbs. */
        const bool stands = facts->is_away ? verb == VG_MOVE_QUIESCE || verb == VG_MOVE_RESUME
                                           : verb >= VG_MOVE_QUIESCE && verb <= VG_MOVE_RESUME;
        if (has_gpus && !facts->native && stands)
            ret->standstill_s += step->expected_s;
    }
    if (has_gpus && facts->native)
        ret->standstill_s = (double)facts->stun_ns / 1e9;
}
