/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/verdict.h"

#include <math.h>

#define NS_PER_S 1e9

/* The minimum measured part of a step for it to count, and the minimum part of the steps that must
 * count. */
#define STEP_PART  0.8
#define STEPS_PART 0.8

/* Neighbouring steps are correlated, so at most this many means are treated as independent. */
#define SAMPLES_MAX 10

/* If the VMs' work changes by more than this factor, the effect of the move cannot be judged. */
#define WORK_FACTOR 2.0

struct vg_verdict_host *
vg_verdict_host_new(const char *name, guint steps)
{
    struct vg_verdict_host *host = g_new0(struct vg_verdict_host, 1);

    host->name = g_strdup(name);
    host->before = g_array_new(FALSE, TRUE, sizeof(struct vg_verdict_step));
    host->after = g_array_new(FALSE, TRUE, sizeof(struct vg_verdict_step));
    g_array_set_size(host->before, steps);
    g_array_set_size(host->after, steps);
    return host;
}

void
vg_verdict_host_free(void *data)
{
    struct vg_verdict_host *host = data;

    if (!host)
        return;
    g_array_unref(host->before);
    g_array_unref(host->after);
    g_free(host->name);
    g_free(host->reason);
    g_free(host);
}

/* ---- which figures can be used ---- */

static const struct vg_verdict_step *
verdict_step(const struct vg_verdict_host *host, bool after, guint i)
{
    return &g_array_index(after ? host->after : host->before, struct vg_verdict_step, i);
}

static bool
verdict_is_good(const struct vg_verdict_step *step)
{
    return step->known && (double)step->measured_ns >= STEP_PART * VG_VERDICT_STEP_NS;
}

/* Checks that enough steps of one side were measured, and that the number of VMs is constant.
 * Returns NULL and *ret_vms, or the reason against it, which the caller frees. */
static char *
verdict_check_side(const struct vg_verdict_host *host, bool after, double *ret_vms)
{
    const guint n = (after ? host->after : host->before)->len;
    const char *side = after ? "after" : "before";
    double vms = -1;
    guint good = 0, unknown = 0;

    for (guint i = 0; i < n; i++) {
        const struct vg_verdict_step *step = verdict_step(host, after, i);
        unknown += step->measured_ns > 0 && !step->known;
        if (!verdict_is_good(step))
            continue;
        if (vms >= 0 && fabs(step->vms - vms) > 0.01)
            return g_strdup_printf(
                "a VM came to host '%s', left it, started or stopped in the period %s the move",
                host->name, side);
        vms = step->vms;
        good++;
    }
    if (unknown > 0 && good < STEPS_PART * n)
        return g_strdup_printf(
            "the CPU time that VMs lost on host '%s' is unknown for the period %s the move",
            host->name, side);
    if (good < STEPS_PART * n)
        return g_strdup_printf("host '%s' was measured for only %u of %u s %s the move", host->name,
                               good * (guint)(VG_VERDICT_STEP_NS / (int64_t)NS_PER_S),
                               n * (guint)(VG_VERDICT_STEP_NS / (int64_t)NS_PER_S), side);
    *ret_vms = vms;
    return NULL;
}

/* Returns NULL and the number of VMs before the move, or why the host cannot be judged. The caller
 * frees the reason. */
static char *
verdict_check_host(const struct vg_verdict_host *host, double *ret_vms)
{
    double before = 0, after = 0;

    if (host->reason)
        return g_strdup(host->reason);
    char *reason = verdict_check_side(host, false, &before);
    if (!reason)
        reason = verdict_check_side(host, true, &after);
    if (!reason && fabs(after - before - (double)host->arrived) > 0.01)
        reason = g_strdup_printf("other VMs came to host '%s', left it, started or stopped between "
                                 "the two periods: it had %.0f VMs before and %.0f after",
                                 host->name, before, after);
    *ret_vms = before;
    return reason;
}

/* Checks that all hosts together were measured for enough of one side. Returns the reason against
 * it, which the caller frees, or NULL. */
static char *
verdict_check_common(const GPtrArray *hosts, bool after)
{
    const struct vg_verdict_host *first = hosts->pdata[0];
    const guint n = first->before->len;
    guint good = 0;

    for (guint i = 0; i < n; i++) {
        bool common = true;
        for (guint h = 0; h < hosts->len && common; h++)
            common = verdict_is_good(verdict_step(hosts->pdata[h], after, i));
        good += common;
    }
    if (good >= STEPS_PART * n)
        return NULL;
    return g_strdup_printf("the hosts were measured at the same time for only %u of %u s %s the "
                           "move",
                           good * (guint)(VG_VERDICT_STEP_NS / (int64_t)NS_PER_S),
                           n * (guint)(VG_VERDICT_STEP_NS / (int64_t)NS_PER_S),
                           after ? "after" : "before");
}

/* ---- statistics ---- */

/* A mean, its variance, and the degrees of freedom of the variance. */
struct verdict_mean {
    double mean;
    double variance;
    double freedom;
};

static struct verdict_mean
verdict_mean_of(const double *values, guint n)
{
    struct verdict_mean ret = {0, 0, MAX(n, 2) - 1};
    double squares = 0;

    for (guint i = 0; i < n; i++)
        ret.mean += values[i] / n;
    for (guint i = 0; i < n; i++)
        squares += (values[i] - ret.mean) * (values[i] - ret.mean);
    if (n > 1)
        ret.variance = squares / (n - 1) / n;
    return ret;
}

/* Combines neighbouring samples so that at most SAMPLES_MAX means remain. */
static struct verdict_mean
verdict_batch(const GArray *samples)
{
    const guint size = (samples->len + SAMPLES_MAX - 1) / SAMPLES_MAX;
    double means[SAMPLES_MAX] = {0};
    guint n = 0;

    for (guint i = 0; size > 0 && i < samples->len; i += size, n++) {
        const guint end = MIN(i + size, samples->len);
        for (guint k = i; k < end; k++)
            means[n] += g_array_index(samples, double, k) / (end - i);
    }
    return verdict_mean_of(means, n);
}

/* Adds or subtracts an independent mean (Welch and Satterthwaite). */
static struct verdict_mean
verdict_combine(struct verdict_mean x, struct verdict_mean y, double factor)
{
    const double more = y.variance * factor * factor;
    const double variance = x.variance + more;
    const double parts = x.variance * x.variance / x.freedom + more * more / y.freedom;

    return (struct verdict_mean){x.mean + factor * y.mean, variance,
                                 parts > 0 ? variance * variance / parts
                                           : MIN(x.freedom, y.freedom)};
}

/* Returns Student's t for a two-sided interval of 95 %. */
static double
verdict_student(double freedom)
{
    static const double t[] = {12.71, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447,
                               2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
                               2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};

    return freedom >= (double)G_N_ELEMENTS(t) ? 2.086 : t[(guint)MAX(freedom, 0)];
}

/* ---- sums of hosts ---- */

/* The figure that is summed up. */
enum verdict_what { VERDICT_LOST, VERDICT_WORK, VERDICT_GPU };

static double
verdict_rate(const struct vg_verdict_step *step, enum verdict_what what)
{
    switch (what) {
    case VERDICT_WORK:
        return (double)(step->run_ns + step->lost_ns) / (double)step->measured_ns;
    case VERDICT_GPU:
        return (double)step->gpu_wait_ns / (double)MAX(step->gpu_of_ns, 1);
    case VERDICT_LOST:
    default:
        return (double)step->lost_ns / (double)step->measured_ns;
    }
}

/* Returns the sum over all hosts for each step that counts on every host. */
static GArray *
verdict_sums(const GPtrArray *hosts, bool after, enum verdict_what what)
{
    const struct vg_verdict_host *first = hosts->pdata[0];
    GArray *sums = g_array_new(FALSE, FALSE, sizeof(double));

    for (guint i = 0; i < first->before->len; i++) {
        double sum = 0;
        bool good = true;
        for (guint h = 0; h < hosts->len && good; h++) {
            const struct vg_verdict_step *step = verdict_step(hosts->pdata[h], after, i);
            good = verdict_is_good(step) && (what != VERDICT_GPU || step->gpu_of_ns > 0);
            sum += good ? verdict_rate(step, what) : 0;
        }
        if (good)
            g_array_append_val(sums, sum);
    }
    return sums;
}

/* The figures of one host or several hosts. */
struct verdict_sides {
    double lost[2]; /* cores; before and after */
    double work[2];
    bool gpu_known;
    double gpu[2];              /* engines */
    struct verdict_mean change; /* the change of the judged figure, from before to after */
};

static double
verdict_plain_mean(const GArray *values)
{
    double sum = 0;

    for (guint i = 0; i < values->len; i++)
        sum += g_array_index(values, double, i);
    return values->len > 0 ? sum / values->len : 0;
}

/* Sums up the figures of hosts. gpu_weight is 0 if the time waiting for GPUs does not count. */
static struct verdict_sides
verdict_sides_of(const GPtrArray *hosts, double gpu_weight)
{
    struct verdict_sides ret = {.gpu_known = true};
    struct verdict_mean means[2];
    GArray *lost[2], *gpu[2];

    for (int side = 0; side < 2; side++) {
        g_autoptr(GArray) work = verdict_sums(hosts, side, VERDICT_WORK);
        lost[side] = verdict_sums(hosts, side, VERDICT_LOST);
        gpu[side] = verdict_sums(hosts, side, VERDICT_GPU);
        ret.lost[side] = verdict_plain_mean(lost[side]);
        ret.work[side] = verdict_plain_mean(work);
        ret.gpu[side] = verdict_plain_mean(gpu[side]);
        ret.gpu_known = ret.gpu_known && gpu[side]->len > 0 && gpu[side]->len == lost[side]->len;
    }
    for (int side = 0; side < 2; side++) {
        for (guint i = 0; ret.gpu_known && i < lost[side]->len; i++)
            g_array_index(lost[side], double, i) +=
                gpu_weight * g_array_index(gpu[side], double, i);
        means[side] = verdict_batch(lost[side]);
        g_array_unref(lost[side]);
        g_array_unref(gpu[side]);
    }
    ret.change = verdict_combine(means[1], means[0], -1);
    return ret;
}

/* ---- the hosts for comparison ---- */

/* Chooses the hosts that can be compared: they have VMs and complete figures. */
static GPtrArray *
verdict_choose_others(const struct vg_verdict_question *question, bool with_gpu)
{
    GPtrArray *chosen = g_ptr_array_new();

    for (guint i = 0; i < question->others->len && chosen->len < VG_VERDICT_HOSTS_MAX; i++) {
        struct vg_verdict_host *host = question->others->pdata[i];
        double vms = 0;
        g_autofree char *reason = verdict_check_host(host, &vms);
        if (reason || vms <= 0)
            continue;
        g_autoptr(GPtrArray) alone = g_ptr_array_new();
        g_ptr_array_add(alone, host);
        if (!with_gpu || verdict_sides_of(alone, 0).gpu_known)
            g_ptr_array_add(chosen, host);
    }
    return chosen;
}

/* Computes the mean change of these hosts, with the larger of the variances within and between
 * hosts. */
static struct verdict_mean
verdict_others_change(const GPtrArray *others, double gpu_weight)
{
    g_autofree double *changes = g_new0(double, others->len);
    double variance = 0, freedom = 0;

    for (guint i = 0; i < others->len; i++) {
        g_autoptr(GPtrArray) alone = g_ptr_array_new();
        g_ptr_array_add(alone, others->pdata[i]);
        const struct verdict_mean change = verdict_sides_of(alone, gpu_weight).change;
        changes[i] = change.mean;
        variance += change.variance / others->len / others->len;
        freedom += change.freedom;
    }
    struct verdict_mean ret = verdict_mean_of(changes, others->len);
    if (ret.variance < variance) {
        ret.variance = variance;
        ret.freedom = freedom;
    }
    return ret;
}

/* ---- the verdict ---- */

static int64_t
verdict_ns(double cores)
{
    return (int64_t)llround(CLAMP(cores, -1e6, 1e6) * NS_PER_S);
}

static void
verdict_cannot_tell(struct vg_move_verdict *ret, char *take_why)
{
    ret->result = VG_VERDICT_CANNOT_TELL;
    g_free(ret->why);
    ret->why = take_why;
}

/* Stores the result that follows from the confidence interval of the gain. */
static void
verdict_decide(const struct vg_verdict_question *question, double predicted, double gain,
               double half, struct vg_move_verdict *ret)
{
    /* "No effect" requires that the interval excludes half of the predicted gain, and equal
     * harm. */
    const double least = MAX(question->min_gain, question->predicted ? predicted / 2 : 0);
    const char *beside =
        ret->others->len == 0 ? "; there was no other host with VMs to compare with" : "";

    if (gain - half > 0 && gain >= question->min_gain) {
        ret->result = VG_VERDICT_HELPED;
        ret->why = g_strdup_printf("the VMs of its hosts lose %.2f cores less%s", gain, beside);
    } else if (gain + half < 0 && gain <= -question->min_gain) {
        ret->result = VG_VERDICT_WORSE;
        ret->why = g_strdup_printf("the VMs of its hosts lose %.2f cores more%s", -gain, beside);
    } else if (gain - half > -least && gain + half < least) {
        ret->result = VG_VERDICT_NO_EFFECT;
        ret->why = g_strdup_printf("the change is between %+.2f and %+.2f cores%s", -gain - half,
                                   -gain + half, beside);
    } else {
        verdict_cannot_tell(ret,
                            g_strdup_printf("the CPU time that VMs lose varies too much: the "
                                            "change is anywhere between %+.2f and %+.2f cores%s",
                                            -gain - half, -gain + half, beside));
    }
}

/* Returns whether the VMs' demand for CPU time has changed, so that their losses cannot be
 * compared. */
static bool
verdict_work_changed(const struct vg_verdict_question *question, const struct verdict_sides *sides)
{
    const double less = MIN(sides->work[0], sides->work[1]);
    const double more = MAX(sides->work[0], sides->work[1]);

    return more - less >= question->min_gain && more > WORK_FACTOR * less;
}

static void
verdict_compare(const struct vg_verdict_question *question, struct vg_move_verdict *ret)
{
    const struct verdict_sides sides = verdict_sides_of(question->hosts, question->gpu_weight);
    const double weight = sides.gpu_known ? question->gpu_weight : 0;
    g_autoptr(GPtrArray) others = verdict_choose_others(question, weight > 0);
    struct verdict_mean change = sides.change;

    ret->measured = true;
    ret->before_ns_per_s = verdict_ns(sides.lost[0]);
    ret->after_ns_per_s = verdict_ns(sides.lost[1]);
    ret->gpu_measured = sides.gpu_known;
    ret->gpu_before_ns_per_s = sides.gpu_known ? verdict_ns(sides.gpu[0]) : 0;
    ret->gpu_after_ns_per_s = sides.gpu_known ? verdict_ns(sides.gpu[1]) : 0;
    for (guint i = 0; i < others->len; i++)
        g_ptr_array_add(ret->others,
                        g_strdup(((const struct vg_verdict_host *)others->pdata[i])->name));
    if (others->len > 0) {
        const struct verdict_mean other = verdict_others_change(others, weight);
        ret->others_ns_per_s = verdict_ns(other.mean * question->hosts->len);
        change = verdict_combine(change, other, -(double)question->hosts->len);
    }
    const double half = verdict_student(change.freedom) * sqrt(change.variance);
    ret->gain_ns_per_s = verdict_ns(-change.mean);
    ret->low_ns_per_s = verdict_ns(-change.mean - half);
    ret->high_ns_per_s = verdict_ns(-change.mean + half);
    if (question->predicted && fabs(question->gpu_gain) > 0 && !sides.gpu_known)
        verdict_cannot_tell(ret, g_strdup("the plan predicted less waiting for GPUs, but how long "
                                          "GPU requests wait on these hosts is unknown"));
    else if (verdict_work_changed(question, &sides))
        verdict_cannot_tell(
            ret, g_strdup_printf(
                     "the VMs' demand for CPU time has changed: %.2f cores before, %.2f after",
                     sides.work[0], sides.work[1]));
    else
        verdict_decide(question, question->cpu_gain + question->gpu_weight * question->gpu_gain,
                       -change.mean, half, ret);
}

void
vg_verdict_judge(const struct vg_verdict_question *question, struct vg_move_verdict *ret)
{
    ret->predicted = question->predicted;
    if (question->predicted)
        ret->predicted_ns_per_s =
            verdict_ns(question->cpu_gain + question->gpu_weight * question->gpu_gain);
    for (guint i = 0; i < question->hosts->len; i++) {
        const struct vg_verdict_host *host = question->hosts->pdata[i];
        double vms;
        g_ptr_array_add(ret->hosts, g_strdup(host->name));
        char *reason = ret->result == VG_VERDICT_NONE ? verdict_check_host(host, &vms) : NULL;
        if (reason)
            verdict_cannot_tell(ret, reason);
    }
    for (int side = 0; ret->result == VG_VERDICT_NONE && side < 2; side++) {
        char *reason = verdict_check_common(question->hosts, side);
        if (reason)
            verdict_cannot_tell(ret, reason);
    }
    if (ret->result == VG_VERDICT_NONE)
        verdict_compare(question, ret);
}
