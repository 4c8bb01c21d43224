/* SPDX-License-Identifier: Apache-2.0
 *
 * Migrates a running domain. libvirt's call blocks until the end: a thread makes it, while the
 * caller monitors the progress, helps the migration converge, and can cancel it. The migration is
 * peer to peer: the source's libvirtd controls it, notices if the target dies, and continues if
 * vgpud dies. It is never post-copy, because the guest could then no longer return.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define CHECK_NS (250 * VG_NS_PER_MS)
/* The interval between abort requests to libvirt. */
#define ABORT_AGAIN_NS VG_NS_PER_S
/* The time for libvirt to end a cancelled migration. */
#define CALL_OFF_NS (5 * VG_NS_PER_S)
/* If libvirt has copied nothing after this time, it waits for the other host's libvirt. */
#define BEGIN_NS (10 * VG_NS_PER_S)
/* A domain that is paused for longer than its downtime limit plus this time is not switching hosts:
 * a user or program has paused it. */
#define PAUSED_NS (2 * VG_NS_PER_S)
/* QEMU's default downtime limit, which applies at the start of every migration. */
#define DOWNTIME_NS (300 * VG_NS_PER_MS)
/* The limit is doubled every PASSES_A_STEP passes over the memory, starting with pass
 * PATIENT_PASSES. The earlier passes show how fast the guest changes memory while it is copied. */
#define PATIENT_PASSES 4
#define PASSES_A_STEP  2

#define MIB (INT64_C(1) << 20)

struct migrate {
    vg_virt_host *host;
    virDomainPtr domain;
    const struct vg_virt_migration *migration;
    const struct vg_verb *verb;
    virTypedParameterPtr params;
    int n_params;
    unsigned flags;
    int64_t began_ns;
    atomic_bool switching; /* true after the domain was seen paused for the switch */
    /* Written by the thread and read after its end. */
    int result;
    char *words;
    /* Only the caller uses these members. */
    int64_t begin_ns;    /* the maximum time until data is copied */
    int64_t copied_ns;   /* the time of the last progress or of the start */
    int64_t paused_ns;   /* the start of the current pause, or 0 if the domain runs */
    bool was_paused;     /* paused for longer than a switch takes, while memory was copied */
    int64_t downtime_ns; /* the limit set last */
    int64_t raise_at;    /* the pass at which the limit is raised next */
    struct vg_migration_progress progress;
};

/* Pauses the domain again if the connection to the other host was lost during the switch, after all
 * data was sent. libvirt resumes the domain even if it runs there and only the answer was lost. It
 * would then run twice. */
static void
migrate_pause_if_unclear(struct migrate *migrate, const virError *error)
{
    /* Until QEMU has sent everything, the error does not come from RPC but from the migration. */
    if (atomic_load(&migrate->switching) && error && error->domain == VIR_FROM_RPC)
        virDomainSuspend(migrate->domain);
}

/* Makes the call. This thread is not supervised, as it cannot send heartbeats while libvirt
 * works. */
static void
migrate_run(vg_thread *self, void *arg)
{
    struct migrate *migrate = arg;

    (void)self;
    migrate->result =
        virDomainMigrateToURI3(migrate->domain, migrate->migration->peer_uri, migrate->params,
                               (unsigned)migrate->n_params, migrate->flags);
    migrate->words = g_strdup(migrate->result < 0 ? virGetLastErrorMessage() : "");
    if (migrate->result < 0)
        migrate_pause_if_unclear(migrate, virGetLastError());
    virResetLastError();
}

/* ---- the definition ---- */

/* Creates the domain's XML for the target. A detached device in the persistent definition would
 * otherwise also be defined on the target, with an address of this host. Devices that QEMU migrates
 * get their addresses on the target; *ret_n counts them. */
static char *
migrate_make_xml(const struct migrate *migrate, unsigned flags, size_t *ret_n, GError **err)
{
    const GPtrArray *devices = migrate->migration->devices;
    g_autofree const char **aliases = g_new0(const char *, devices->len);
    g_autofree const char **from = g_new0(const char *, devices->len);
    g_autofree const char **to = g_new0(const char *, devices->len);
    g_autofree char *xml =
        vg_virt_host_xml(migrate->host, migrate->domain,
                         flags | VIR_DOMAIN_XML_SECURE | VIR_DOMAIN_XML_MIGRATABLE, err);
    bool changed = false;

    if (!xml)
        return NULL;
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        aliases[i] = device->alias;
        from[i] = device->source_address;
        to[i] = device->target_address;
    }
    if (migrate->migration->native)
        return vg_domain_xml_with_sources(xml, aliases, from, to, devices->len, ret_n, err);
    char *without = vg_domain_xml_without(xml, aliases, from, devices->len, &changed, err);
    *ret_n = changed;
    return without;
}

static int
migrate_add_definition(struct migrate *migrate, int *room, GError **err)
{
    size_t n = 0;

    if (!migrate->migration->devices || migrate->migration->devices->len == 0)
        return 0;
    g_autofree char *xml = migrate_make_xml(migrate, VIR_DOMAIN_XML_INACTIVE, &n, err);
    if (!xml)
        return -1;
    if (n > 0 && virTypedParamsAddString(&migrate->params, &migrate->n_params, room,
                                         VIR_MIGRATE_PARAM_PERSIST_XML, xml) < 0)
        return vg_virt_host_failed(migrate->host, err,
                                   "cannot pass the VM's definition to libvirt");
    return 0;
}

/* Adds the live XML for the target if QEMU migrates devices. */
static int
migrate_add_live(struct migrate *migrate, int *room, GError **err)
{
    size_t n = 0;

    if (!migrate->migration->native)
        return 0;
    g_autofree char *xml = migrate_make_xml(migrate, 0, &n, err);
    if (!xml)
        return -1;
    if (n != migrate->migration->devices->len)
        return vg_error(err, VG_E_CONFLICT, "'%s' has only %zu of its %u GPUs",
                        virDomainGetName(migrate->domain), n, migrate->migration->devices->len);
    if (virTypedParamsAddString(&migrate->params, &migrate->n_params, room,
                                VIR_MIGRATE_PARAM_DEST_XML, xml) < 0)
        return vg_virt_host_failed(migrate->host, err, "cannot pass the VM's live XML to libvirt");
    return 0;
}

static int
migrate_set_up(struct migrate *migrate, GError **err)
{
    const int64_t bandwidth = migrate->migration->bandwidth_bytes_per_s;
    int persistent = virDomainIsPersistent(migrate->domain), room = 0;

    if (persistent < 0)
        return vg_virt_host_failed(migrate->host, err, "cannot check whether '%s' is persistent",
                                   virDomainGetName(migrate->domain));
    migrate->flags = VIR_MIGRATE_LIVE | VIR_MIGRATE_PEER2PEER | VIR_MIGRATE_ABORT_ON_ERROR |
                     VIR_MIGRATE_AUTO_CONVERGE;
    if (persistent)
        migrate->flags |= VIR_MIGRATE_PERSIST_DEST | VIR_MIGRATE_UNDEFINE_SOURCE;
    if (migrate->migration->tls)
        migrate->flags |= VIR_MIGRATE_TLS;
    if (bandwidth > 0 && virTypedParamsAddULLong(&migrate->params, &migrate->n_params, &room,
                                                 VIR_MIGRATE_PARAM_BANDWIDTH,
                                                 (unsigned long long)MAX(bandwidth / MIB, 1)) < 0)
        return vg_virt_host_failed(migrate->host, err,
                                   "cannot pass the bandwidth limit to libvirt");
    if (migrate_add_live(migrate, &room, err) < 0)
        return -1;
    return persistent ? migrate_add_definition(migrate, &room, err) : 0;
}

/* ---- progress ---- */

static int64_t
virt_migrate_number_of(virTypedParameterPtr params, int n, const char *name)
{
    unsigned long long value = 0;

    virTypedParamsGetULLong(params, n, name, &value);
    return (int64_t)MIN(value, (unsigned long long)VG_JSON_INT_MAX);
}

static int64_t
product_of(int64_t a, int64_t b)
{
    return a > 0 && b > VG_JSON_INT_MAX / a ? VG_JSON_INT_MAX : a * b;
}

static void
read_progress(virTypedParameterPtr params, int n, struct vg_migration_progress *ret)
{
    ret->total_bytes = virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_TOTAL);
    ret->remaining_bytes = virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_REMAINING);
    ret->processed_bytes = virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_PROCESSED);
    /* The rate is in pages per second. */
    ret->dirty_bytes_per_s =
        product_of(virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_DIRTY_RATE),
                   virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_PAGE_SIZE));
    ret->bytes_per_s = virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_BPS);
    ret->iteration = virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_MEMORY_ITERATION);
    ret->elapsed_ns =
        product_of(virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_TIME_ELAPSED), VG_NS_PER_MS);
    /* If the guest changes memory faster than it is copied, the end is unknown. */
    int64_t gain = ret->bytes_per_s - ret->dirty_bytes_per_s;
    ret->eta_ns =
        gain > 0 ? (int64_t)((double)ret->remaining_bytes / (double)gain * (double)VG_NS_PER_S) : 0;
    ret->eta_ns = MIN(ret->eta_ns, VG_JSON_INT_MAX);
}

static void
migrate_set_downtime(struct migrate *migrate, int64_t ns)
{
    if (virDomainMigrateSetMaxDowntime(migrate->domain,
                                       (unsigned long long)MAX(ns / VG_NS_PER_MS, 1), 0) == 0) {
        g_autofree char *text = g_strdup_printf("the downtime may now be up to %lld ms",
                                                (long long)(ns / VG_NS_PER_MS));
        if (migrate->verb->tell)
            migrate->verb->tell(migrate->verb->data, &migrate->progress, text);
    }
    migrate->downtime_ns = ns;
    virResetLastError();
}

/* Raises the downtime limit if the migration does not converge. */
static void
migrate_help(struct migrate *migrate)
{
    const int64_t max_ns = migrate->migration->downtime_max_ns, pass = migrate->progress.iteration;

    if (max_ns <= 0)
        return;
    if (migrate->downtime_ns > max_ns)
        migrate_set_downtime(migrate, max_ns);
    if (pass < migrate->raise_at || migrate->downtime_ns >= max_ns)
        return;
    migrate_set_downtime(migrate, MIN(migrate->downtime_ns * 2, max_ns));
    migrate->raise_at = pass + PASSES_A_STEP;
}

/* Reports that libvirt has not started copying. libvirt has no time limit for connecting to the
 * other host. */
static void
migrate_report_waiting(const struct migrate *migrate)
{
    g_autofree char *text = g_strdup_printf(
        "libvirt at '%s', which is waiting for libvirt at '%s' and has copied nothing",
        migrate->host->uri, migrate->migration->peer_uri);

    if (migrate->verb->tell && vg_clock_monotonic_ns() - migrate->began_ns >= BEGIN_NS)
        migrate->verb->tell(migrate->verb->data, NULL, text);
}

/* Detects that the domain is paused for the switch. If the other host's answer is lost, the pause
 * lasts until keepalive fails, so that this case is always detected. libvirt gives the same reason
 * if a user has paused the domain. */
static void
migrate_check_switch(struct migrate *migrate)
{
    int state = VIR_DOMAIN_NOSTATE, reason = 0;
    const bool is_paused = virDomainGetState(migrate->domain, &state, &reason, 0) == 0 &&
                           state == VIR_DOMAIN_PAUSED && reason == VIR_DOMAIN_PAUSED_MIGRATION;

    virResetLastError();
    if (!is_paused) {
        migrate->paused_ns = 0;
        return;
    }
    atomic_store(&migrate->switching, true);
    if (migrate->paused_ns == 0)
        migrate->paused_ns = migrate->copied_ns = vg_clock_monotonic_ns();
}

/* Detects that a user has paused the domain: memory is still copied although the pause is longer
 * than any switch. */
static void
migrate_check_pause(struct migrate *migrate, const struct vg_migration_progress *progress)
{
    const int64_t switch_ns = PAUSED_NS + 2 * migrate->downtime_ns;

    /* The state of a GPU is copied while the domain is paused, however long this takes. */
    if (!migrate->migration->native && migrate->paused_ns > 0 &&
        vg_clock_monotonic_ns() - migrate->paused_ns > switch_ns &&
        progress->processed_bytes > migrate->progress.processed_bytes)
        migrate->was_paused = true;
}

static void
migrate_poll(struct migrate *migrate)
{
    virTypedParameterPtr params = NULL;
    struct vg_migration_progress progress = {0};
    int type = VIR_DOMAIN_JOB_NONE, n = 0;

    /* An error here means that the domain has left the host. */
    if (virDomainGetJobStats(migrate->domain, &type, &params, &n, 0) == 0)
        read_progress(params, n, &progress);
    virTypedParamsFree(params, n);
    virResetLastError();
    migrate_check_switch(migrate);
    /* Initially, all figures are 0. */
    if (migrate->progress.total_bytes == 0 && progress.total_bytes == 0)
        migrate_report_waiting(migrate);
    /* After libvirt has abandoned the migration, there are no figures. */
    const bool is_copying = type != VIR_DOMAIN_JOB_NONE && progress.total_bytes > 0;
    if (is_copying && (migrate->progress.total_bytes == 0 ||
                       progress.processed_bytes != migrate->progress.processed_bytes))
        migrate->copied_ns = vg_clock_monotonic_ns();
    if (!is_copying)
        return;
    migrate_check_pause(migrate, &progress);
    migrate->progress = progress;
    if (migrate->verb->tell)
        migrate->verb->tell(migrate->verb->data, &progress, NULL);
    migrate_help(migrate);
}

/* Cancels the migration, and waits until libvirt has ended it. It may also have finished, and a
 * caller that checks earlier would see it incomplete. If libvirt does not end it, the caller must
 * abandon the job. */
static void
migrate_call_off(struct migrate *migrate, vg_thread *thread, const GError *why)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + CALL_OFF_NS;
    int64_t again_ns = 0;

    while (!vg_thread_ended(thread) && !atomic_load(&migrate->host->given_up)) {
        int64_t now_ns = vg_clock_monotonic_ns();
        if (now_ns >= again_ns) {
            virDomainAbortJob(migrate->domain);
            virResetLastError();
            again_ns = now_ns + ABORT_AGAIN_NS;
        }
        if (now_ns < until_ns)
            vg_virt_host_goes_on(migrate->host);
        else if (!atomic_load(&migrate->host->given_up))
            vg_virt_host_despair(migrate->host, why);
        vg_clock_poll(NULL, 0, now_ns + CHECK_NS / 10);
    }
}

static int
migrate_check_stuck(const struct migrate *migrate, GError **err)
{
    const int64_t most_ns =
        migrate->progress.total_bytes > 0 ? VG_VIRT_STUCK_NS : migrate->begin_ns;

    if (vg_clock_monotonic_ns() - migrate->copied_ns < most_ns)
        return 0;
    return vg_error(err, VG_E_IO, "no data of '%s' has reached '%s' for %lld s",
                    virDomainGetName(migrate->domain), migrate->migration->peer_uri,
                    (long long)(most_ns / VG_NS_PER_S));
}

/* Monitors the migration. Returns -1 and *err with the reason if it was cancelled. If the caller no
 * longer waits, libvirt continues the migration. */
static int
migrate_watch(struct migrate *migrate, vg_thread *thread, GError **err)
{
    int64_t look_ns = 0;

    while (!vg_thread_ended(thread)) {
        int64_t now_ns = vg_clock_monotonic_ns();
        if (now_ns >= look_ns) {
            migrate_poll(migrate);
            vg_virt_host_goes_on(migrate->host);
            look_ns = now_ns + CHECK_NS;
        }
        if (migrate_check_stuck(migrate, err) < 0 ||
            vg_verb_pause(migrate->verb, CHECK_NS / 10, "the migration", err) < 0) {
            migrate_call_off(migrate, thread, *err);
            return -1;
        }
    }
    return 0;
}

void
vg_virt_host_read_arrival(vg_virt_host *host, const char *uuid,
                          struct vg_migration_progress *progress)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, NULL);
    const int64_t elapsed_ns = progress->elapsed_ns;
    virTypedParameterPtr params = NULL;
    int type, n = 0;

    if (domain &&
        virDomainGetJobStats(domain, &type, &params, &n, VIR_DOMAIN_JOB_STATS_COMPLETED) == 0) {
        read_progress(params, n, progress);
        progress->downtime_ns =
            product_of(virt_migrate_number_of(params, n, VIR_DOMAIN_JOB_DOWNTIME), VG_NS_PER_MS);
    }
    if (n == 0)
        progress->elapsed_ns = elapsed_ns;
    progress->eta_ns = 0;
    virTypedParamsFree(params, n);
    virResetLastError();
}

static int
migrate_all(struct migrate *migrate, GError **err)
{
    g_autoptr(GError) called_off = NULL;

    if (migrate_set_up(migrate, err) < 0)
        return -1;
    migrate->begin_ns = vg_virt_host_begin_ns(migrate->host, migrate->domain);
    migrate->began_ns = migrate->copied_ns = vg_clock_monotonic_ns();
    vg_thread *thread = vg_thread_new("migrate", migrate_run, NULL, migrate, err);
    if (!thread)
        return -1;
    migrate_watch(migrate, thread, &called_off);
    vg_thread_free(thread);
    if (migrate->result == 0) {
        /* Before the end, the downtime is only QEMU's estimate. */
        migrate->progress.downtime_ns = 0;
        migrate->progress.eta_ns = 0;
        migrate->progress.elapsed_ns = vg_clock_monotonic_ns() - migrate->began_ns;
        return 0;
    }
    if (!called_off)
        vg_error(&called_off, VG_E_EXTERNAL, "the migration of '%s' to '%s' failed: %s",
                 virDomainGetName(migrate->domain), migrate->migration->peer_uri, migrate->words);
    if (!migrate->was_paused) {
        g_propagate_error(err, g_steal_pointer(&called_off));
        return -1;
    }
    return vg_error(err, (enum vg_error_code)called_off->code,
                    "%s; the VM had been paused during the migration, and libvirt has resumed it",
                    called_off->message);
}

int
vg_virt_host_migrate(vg_virt_host *host, const struct vg_virt_migration *migration,
                     const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, migration->uuid, err);
    struct migrate migrate = {
        .host = host,
        .domain = domain,
        .migration = migration,
        .verb = verb,
        .downtime_ns = DOWNTIME_NS,
        .raise_at = PATIENT_PASSES,
    };

    if (!domain)
        return -1;
    int result = migrate_all(&migrate, err);
    virTypedParamsFree(migrate.params, migrate.n_params);
    g_free(migrate.words);
    *ret = migrate.progress;
    if (migration->ret_paused)
        *migration->ret_paused = migrate.was_paused;
    return result;
}

int
vg_virt_host_go_on(vg_virt_host *host, const char *uuid, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    int state = VIR_DOMAIN_NOSTATE;

    if (!domain)
        return -1;
    if (virDomainGetState(domain, &state, NULL, 0) == 0 && state == VIR_DOMAIN_RUNNING)
        return 0;
    if (virDomainResume(domain) < 0)
        return vg_virt_host_failed(host, err, "cannot resume '%s'", virDomainGetName(domain));
    return 0;
}

void
vg_virt_host_abort(vg_virt_host *host, const char *uuid)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, NULL);

    if (domain)
        virDomainAbortJob(domain);
    virResetLastError();
}
