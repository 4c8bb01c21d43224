/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

struct faults {
    double drop;
    double duplicate;
    double delay;
    int64_t delay_ns;
    double reorder;
    int64_t silence_after; /* windows; -1: never */
    int64_t hang_after;
    int64_t seed;
};

struct fault {
    struct vg_collector base; /* first */
    struct vg_collector_ops ops;
    vg_collector *inner;
    struct faults faults;
    GRand *random;
    int64_t windows;
    vg_report *held; /* sent after the next one */
    /* While the thread runs: */
    vg_thread *self;
    const struct vg_report_sink *sink;
    /* For the hanging thread: */
    pthread_mutex_t lock;
    pthread_cond_t woken;
};

/* ---- the text ---- */

#define KINDS "drop:RATE, duplicate:RATE, delay:RATE:TIME, reorder:RATE, silence:N, hang:N, seed:N"

static int
parse_rate(const char *text, double *ret, GError **err)
{
    char *end;
    double rate = g_ascii_strtod(text, &end);

    if (end == text || *end != '\0' || !(rate >= 0 && rate <= 1))
        return vg_error(err, VG_E_INVALID, "'%s' is not a rate: use a number from 0 to 1", text);
    *ret = rate;
    return 0;
}

static int
parse_count(const char *text, int64_t *ret, GError **err)
{
    uint64_t count;

    if (!g_ascii_string_to_unsigned(text, 10, 0, INT64_MAX, &count, NULL))
        return vg_error(err, VG_E_INVALID, "'%s' is not a count: use a whole number", text);
    *ret = (int64_t)count;
    return 0;
}

static int
parse_time(const char *text, int64_t *ret_ns, GError **err)
{
    char *end;
    uint64_t value = g_ascii_strtoull(text, &end, 10);
    int64_t unit_ns = strcmp(end, "ms") == 0  ? VG_NS_PER_MS
                      : strcmp(end, "s") == 0 ? VG_NS_PER_S
                                              : 0;

    if (!g_ascii_isdigit(*text) || unit_ns == 0 ||
        value > (uint64_t)(VG_FAULT_DELAY_MAX_NS / unit_ns))
        return vg_error(err, VG_E_INVALID,
                        "'%s' is not a duration: use a value like \"300ms\" or \"2s\", up to %d s",
                        text, (int)(VG_FAULT_DELAY_MAX_NS / VG_NS_PER_S));
    *ret_ns = (int64_t)value * unit_ns;
    return 0;
}

static int
parse_delay(char **words, struct faults *faults, GError **err)
{
    if (parse_rate(words[1], &faults->delay, err) < 0)
        return -1;
    return parse_time(words[2], &faults->delay_ns, err);
}

static int
parse_fault(const char *text, struct faults *faults, GError **err)
{
    g_auto(GStrv) words = g_strsplit(text, ":", 4);
    unsigned n = g_strv_length(words);

    if (n == 3 && strcmp(words[0], "delay") == 0)
        return parse_delay(words, faults, err);
    if (n != 2)
        return vg_error(err, VG_E_INVALID, "unknown fault; the faults are %s", KINDS);
    if (strcmp(words[0], "drop") == 0)
        return parse_rate(words[1], &faults->drop, err);
    if (strcmp(words[0], "duplicate") == 0)
        return parse_rate(words[1], &faults->duplicate, err);
    if (strcmp(words[0], "reorder") == 0)
        return parse_rate(words[1], &faults->reorder, err);
    if (strcmp(words[0], "silence") == 0)
        return parse_count(words[1], &faults->silence_after, err);
    if (strcmp(words[0], "hang") == 0)
        return parse_count(words[1], &faults->hang_after, err);
    if (strcmp(words[0], "seed") == 0)
        return parse_count(words[1], &faults->seed, err);
    return vg_error(err, VG_E_INVALID, "unknown fault; the faults are %s", KINDS);
}

static int
parse_faults(const char *spec, struct faults *ret, GError **err)
{
    struct faults faults = {.silence_after = -1, .hang_after = -1, .seed = 1};
    g_auto(GStrv) parts = g_strsplit(spec, ",", -1);

    if (!parts[0])
        return vg_error(err, VG_E_INVALID, "no fault is named; the faults are %s", KINDS);
    for (char **part = parts; *part; part++) {
        if (parse_fault(g_strstrip(*part), &faults, err) < 0) {
            g_prefix_error(err, "fault '%s': ", *part);
            return -1;
        }
    }
    *ret = faults;
    return 0;
}

int
vg_fault_check(const char *spec, GError **err)
{
    struct faults faults;

    return parse_faults(spec, &faults, err);
}

/* ---- what happens to a window ---- */

static void
pass(struct fault *fault, vg_report *take_report)
{
    if (take_report)
        fault->sink->put(fault->sink->data, take_report);
}

static bool
happens(struct fault *fault, double rate)
{
    /* Always draw a number: one rate must not change the effect of another with the same seed. */
    return g_rand_double(fault->random) < rate;
}

/* Hangs until the thread is to stop. */
static void
hang(struct fault *fault)
{
    VG_LOCK_SCOPE(&fault->lock);
    while (!vg_thread_stopping(fault->self))
        pthread_cond_wait(&fault->woken, &fault->lock);
}

static void
put_window(struct fault *fault, vg_report *take_report)
{
    const struct faults *faults = &fault->faults;
    g_autoptr(vg_report) report = take_report;
    bool drop = happens(fault, faults->drop);
    bool twice = happens(fault, faults->duplicate);
    bool late = happens(fault, faults->delay);
    bool swap = happens(fault, faults->reorder);

    if (late)
        vg_thread_sleep_until(fault->self, vg_clock_monotonic_ns() + faults->delay_ns);
    if (drop)
        return;
    if (swap && !fault->held) {
        fault->held = g_steal_pointer(&report);
        return;
    }
    if (twice)
        pass(fault, vg_report_copy(report));
    pass(fault, g_steal_pointer(&report));
    pass(fault, g_steal_pointer(&fault->held));
}

static void
put(void *data, struct vg_report *take_report)
{
    struct fault *fault = data;
    const struct faults *faults = &fault->faults;
    g_autoptr(vg_report) report = take_report;

    if (faults->hang_after >= 0 && fault->windows >= faults->hang_after)
        hang(fault);
    if (faults->silence_after >= 0 && fault->windows >= faults->silence_after)
        return;
    if (report->kind == VG_REPORT_WINDOW) {
        fault->windows++;
        put_window(fault, g_steal_pointer(&report));
        return;
    }
    /* Nothing may follow the end, so pass the held report first. */
    if (report->kind == VG_REPORT_END)
        pass(fault, g_steal_pointer(&fault->held));
    pass(fault, g_steal_pointer(&report));
}

/* ---- the collector ---- */

static void
fault_run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct fault *fault = (struct fault *)collector;
    const struct vg_report_sink ours = {.put = put, .data = fault};

    fault->self = self;
    fault->sink = sink;
    fault->inner->ops->run(fault->inner, self, &ours);
    pass(fault, g_steal_pointer(&fault->held));
}

static void
fault_wake(vg_collector *collector)
{
    struct fault *fault = (struct fault *)collector;

    pthread_mutex_lock(&fault->lock);
    pthread_cond_broadcast(&fault->woken);
    pthread_mutex_unlock(&fault->lock);
    if (fault->inner->ops->wake)
        fault->inner->ops->wake(fault->inner);
}

static void
free_fault(vg_collector *collector)
{
    struct fault *fault = (struct fault *)collector;

    vg_collector_free(fault->inner);
    vg_report_free(fault->held);
    g_rand_free(fault->random);
    pthread_cond_destroy(&fault->woken);
    pthread_mutex_destroy(&fault->lock);
    g_free(fault);
}

vg_collector *
vg_fault_new(vg_collector *take_inner, const char *spec, GError **err)
{
    struct faults faults;

    if (parse_faults(spec, &faults, err) < 0) {
        vg_collector_free(take_inner);
        return NULL;
    }
    struct fault *fault = g_new0(struct fault, 1);
    fault->ops = (struct vg_collector_ops){
        .name = take_inner->ops->name,
        .measures_windows = take_inner->ops->measures_windows,
        .run = fault_run,
        .wake = fault_wake,
        .free = free_fault,
    };
    fault->base.ops = &fault->ops;
    fault->base.lag_ns = take_inner->lag_ns;
    fault->inner = take_inner;
    fault->faults = faults;
    fault->random = g_rand_new_with_seed((uint32_t)faults.seed);
    pthread_mutex_init(&fault->lock, NULL);
    vg_cond_init(&fault->woken);
    return &fault->base;
}
