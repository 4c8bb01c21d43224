/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how much of a VM's memory a migration would copy, and how fast the guest rewrites it.
 */
#include "config.h"

#include <pthread.h>
#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-link.h"
#include "base/clock.h"
#include "base/thread.h"

/* The time for which QEMU observes the memory. */
#define MEMORY_DIRTY_S  1
#define MEMORY_WAIT_NS  (3 * VG_NS_PER_S)
#define MEMORY_CHECK_NS (100 * VG_NS_PER_MS)

#define MIB (INT64_C(1) << 20)

/* The UUIDs of the VMs that are being measured. QEMU (for example 7.2) corrupts its list of threads
 * if a second measurement is requested before the thread of the first has started: the second
 * thread ends immediately but stays in the list. When its memory is reused for another thread, such
 * as a migration's, the list becomes a cycle, and that thread never ends. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static GHashTable *measured; /* char *; exists until the process ends */

struct memory_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    int64_t touched_bytes;
    int64_t dirty_bytes_per_s;
};

static void
memory_free(struct vg_virt_job *base)
{
    struct memory_job *job = (struct memory_job *)base;

    g_free(job->uuid);
    g_free(job);
}

/* Returns the memory that the guest has touched, approximated by QEMU's RSS, or 0 with huge pages,
 * which are not in the RSS. */
static int64_t
memory_touched(virDomainPtr domain, vg_virt_host *host)
{
    g_autofree char *xml = vg_virt_host_xml(host, domain, 0, NULL);

    if (!xml || strstr(xml, "<hugepages"))
        return 0;
    virDomainMemoryStatStruct stats[VIR_DOMAIN_MEMORY_STAT_NR];
    const int n = virDomainMemoryStats(domain, stats, VIR_DOMAIN_MEMORY_STAT_NR, 0);

    for (int i = 0; i < n; i++) {
        if (stats[i].tag == VIR_DOMAIN_MEMORY_STAT_RSS)
            return (int64_t)MIN(stats[i].val, (unsigned long long)(INT64_MAX / 1024)) * 1024;
    }
    return 0;
}

/* Reads the rate. Returns -1 if QEMU has not measured it. */
static int64_t
memory_read_dirty(virDomainPtr domain)
{
    virDomainPtr domains[] = {domain, NULL};
    virDomainStatsRecordPtr *records = NULL;
    long long mib = 0;
    int status = -1;

    const int n = virDomainListGetStats(domains, VIR_DOMAIN_STATS_DIRTYRATE, &records, 0);
    if (n > 0) {
        virTypedParamsGetInt(records[0]->params, records[0]->nparams, "dirtyrate.calc_status",
                             &status);
        virTypedParamsGetLLong(records[0]->params, records[0]->nparams,
                               "dirtyrate.megabytes_per_second", &mib);
    }
    if (n >= 0)
        virDomainStatsRecordListFree(records);
    return status == VIR_DOMAIN_DIRTYRATE_MEASURED ? MAX(mib, 0) * MIB : -1;
}

static void
memory_pause(vg_virt_host *host)
{
    vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + MEMORY_CHECK_NS);
    vg_virt_host_goes_on(host);
}

/* Marks the VM as being measured. Returns false if it already is. */
static bool
memory_begin(const char *uuid)
{
    VG_LOCK_SCOPE(&memory_lock);
    if (!measured)
        measured = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return !g_hash_table_contains(measured, uuid) && g_hash_table_add(measured, g_strdup(uuid));
}

static void
memory_end(const char *uuid)
{
    VG_LOCK_SCOPE(&memory_lock);
    g_hash_table_remove(measured, uuid);
}

/* Measures the rate. Returns 0 if QEMU cannot. */
static int64_t
memory_measure_dirty(virDomainPtr domain, vg_virt_host *host)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + MEMORY_WAIT_NS;
    int64_t rate;

    if (virDomainStartDirtyRateCalc(domain, MEMORY_DIRTY_S, 0) < 0)
        return 0;
    do {
        memory_pause(host);
        rate = memory_read_dirty(domain);
    } while (rate < 0 && vg_clock_monotonic_ns() < until_ns && !atomic_load(&host->given_up));
    return MAX(rate, 0);
}

/* Returns the rate, or 0 if unknown. A caller that arrives during another's measurement gets its
 * result. */
static int64_t
memory_dirty(virDomainPtr domain, vg_virt_host *host, const char *uuid)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + MEMORY_WAIT_NS;
    bool waited = false;

    while (!memory_begin(uuid)) {
        if (vg_clock_monotonic_ns() >= until_ns || atomic_load(&host->given_up))
            return 0;
        memory_pause(host);
        waited = true;
    }
    const int64_t rate =
        waited ? MAX(memory_read_dirty(domain), 0) : memory_measure_dirty(domain, host);
    memory_end(uuid);
    return rate;
}

static int
memory_run(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct memory_job *job = (struct memory_job *)base;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, job->uuid, err);

    if (!domain)
        return -1;
    job->touched_bytes = memory_touched(domain, host);
    job->dirty_bytes_per_s = memory_dirty(domain, host, job->uuid);
    virResetLastError();
    return 0;
}

int
vg_virt_measure(vg_virt_link *link, const char *uuid, int64_t *ret_touched_bytes,
                int64_t *ret_dirty_bytes_per_s, GError **err)
{
    struct memory_job *job = g_new0(struct memory_job, 1);

    vg_virt_job_init(&job->base, "to read how the guest uses its memory", memory_run, memory_free,
                     NULL);
    job->uuid = g_strdup(uuid);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret_touched_bytes = job->touched_bytes;
    *ret_dirty_bytes_per_s = job->dirty_bytes_per_s;
    memory_free(&job->base);
    return 0;
}
