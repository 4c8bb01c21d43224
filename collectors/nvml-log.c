/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-log.h"

#include <limits.h>

#include "model/event.h"

/* The new entries of one run list in one log. */
struct news {
    uint64_t slices;
    unsigned long long run;
    unsigned long long run_total;
    unsigned long long time;
};

static struct vg_nvml_runlist *
find_runlist(struct vg_nvml_log_meter *meter, unsigned id)
{
    for (unsigned i = 0; i < meter->n_runlists; i++) {
        if (meter->runlists[i].id == id)
            return &meter->runlists[i];
    }
    return NULL;
}

static struct news
nvml_log_collect(const struct vg_nvml_log_entry *entries, unsigned n_entries, unsigned id,
                 unsigned long long after)
{
    struct news news = {.time = after};

    for (unsigned i = 0; i < n_entries; i++) {
        const struct vg_nvml_log_entry *entry = &entries[i];
        if (entry->runlist != id || entry->time <= after)
            continue;
        news.slices++;
        news.run += MIN(entry->run, ULLONG_MAX - news.run);
        if (entry->time > news.time) {
            news.time = entry->time;
            news.run_total = entry->run_total;
        }
    }
    return news;
}

/* Counts new entries. overrun means that all entries are new, so some may be lost. The total
 * includes the run time of lost entries. */
static void
count(struct vg_nvml_log_meter *meter, const struct vg_nvml_runlist *known, const struct news *news,
      bool overrun)
{
    unsigned long long run = news->run;

    if (overrun && known && news->run_total > known->run_total)
        run = MAX(run, news->run_total - known->run_total);
    meter->slices += news->slices;
    meter->run_ns = vg_time_sum(meter->run_ns, (int64_t)MIN(run, INT64_MAX));
}

static void
remember(struct vg_nvml_log_meter *meter, struct vg_nvml_runlist *known, unsigned id,
         const struct news *news)
{
    if (!known && meter->n_runlists < VG_NVML_RUNLISTS_MAX) {
        known = &meter->runlists[meter->n_runlists++];
        known->id = id;
    }
    if (!known)
        return;
    known->time = news->time;
    known->run_total = news->run_total;
}

static bool
comes_first(const struct vg_nvml_log_entry *entries, unsigned at)
{
    for (unsigned i = 0; i < at; i++) {
        if (entries[i].runlist == entries[at].runlist)
            return false;
    }
    return true;
}

void
vg_nvml_log_meter_feed(struct vg_nvml_log_meter *meter, const struct vg_nvml_log_entry *entries,
                       unsigned n_entries)
{
    const unsigned long long seen = meter->time;
    bool overrun = n_entries == VG_NVML_LOG_MAX;

    for (unsigned i = 0; i < n_entries; i++)
        overrun = overrun && entries[i].time > seen;
    for (unsigned i = 0; i < n_entries; i++) {
        unsigned id = entries[i].runlist;
        if (!comes_first(entries, i))
            continue;
        struct vg_nvml_runlist *known = find_runlist(meter, id);
        struct news news = nvml_log_collect(entries, n_entries, id, known ? known->time : seen);
        if (news.slices == 0)
            continue;
        if (meter->started)
            count(meter, known, &news, overrun);
        remember(meter, known, id, &news);
        meter->time = MAX(meter->time, news.time);
    }
    meter->started = true;
}
