/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns the verbs of actuators/virt-move.h into jobs for the links' threads.
 */
#include "config.h"

#include "actuators/virt-link.h"
#include "base/clock.h"

/* The time that an answer may take beyond its verb's deadline. */
#define LATE_NS (5 * VG_NS_PER_S)
/* The time to end a QEMU: libvirt waits 10 s before it kills it, and 5 s after that. */
#define END_NS (20 * VG_NS_PER_S)

/* ---- copies ---- */

static void
verbs_free_device(void *device)
{
    vg_record_free(&vg_move_device_record, device);
}

GPtrArray *
vg_virt_copy_devices(const GPtrArray *devices)
{
    GPtrArray *copy = g_ptr_array_new_with_free_func(verbs_free_device);

    for (unsigned i = 0; devices && i < devices->len; i++)
        g_ptr_array_add(copy, vg_record_copy(&vg_move_device_record, devices->pdata[i]));
    return copy;
}

static GPtrArray *
verbs_copy_texts(const GPtrArray *texts)
{
    GPtrArray *copy = g_ptr_array_new_with_free_func(g_free);

    for (unsigned i = 0; texts && i < texts->len; i++)
        g_ptr_array_add(copy, g_strdup(texts->pdata[i]));
    return copy;
}

/* The data and results of a job. */
struct verbs_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    GStrv aliases;
    GPtrArray *devices;
    GPtrArray *taken;
    bool dry_run;
    bool packs;
    struct vg_named_device *named;
    size_t n_named;
    char *xml;
    const char *order; /* a constant */
    char *opencl_at;
    char *token;
    char *peer_uri;
    struct vg_virt_migration migration;

    struct vg_domain_look look;
    GPtrArray *gpus;
    struct vg_migration_progress progress;
    bool was_paused;
    struct vg_guest_answer answer;
};

static void
verbs_free(struct vg_virt_job *base)
{
    struct verbs_job *job = (struct verbs_job *)base;

    for (size_t i = 0; i < job->n_named; i++) {
        g_free((char *)job->named[i].name);
        g_free((char *)job->named[i].xml);
    }
    g_free(job->named);
    g_free(job->uuid);
    g_strfreev(job->aliases);
    if (job->devices)
        g_ptr_array_unref(job->devices);
    if (job->taken)
        g_ptr_array_unref(job->taken);
    if (job->gpus)
        g_ptr_array_unref(job->gpus);
    g_free(job->xml);
    g_free(job->peer_uri);
    g_free(job->opencl_at);
    g_free(job->token);
    vg_guest_answer_clear(&job->answer);
    g_free(job);
}

static struct verbs_job *
verbs_new(const char *what, int (*run)(struct vg_virt_job *job, vg_virt_host *host, GError **err),
          const char *uuid, const struct vg_verb *limits)
{
    struct verbs_job *job = g_new0(struct verbs_job, 1);

    vg_virt_job_init(&job->base, what, run, verbs_free, limits);
    job->uuid = g_strdup(uuid);
    return job;
}

static void
verbs_copy_named(struct verbs_job *job, const struct vg_named_device *named, size_t n_named)
{
    job->named = g_new0(struct vg_named_device, n_named);
    job->n_named = n_named;
    for (size_t i = 0; i < n_named; i++)
        job->named[i] = (struct vg_named_device){.name = g_strdup(named[i].name),
                                                 .xml = g_strdup(named[i].xml),
                                                 .slots = named[i].slots};
}

/* ---- querying a domain ---- */

static int
verbs_do_look(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_look(host, job->uuid, (const char *const *)job->aliases, &job->look, err);
}

int
vg_virt_look(vg_virt_link *link, const char *uuid, const char *const *aliases,
             struct vg_domain_look *ret, GError **err)
{
    struct verbs_job *job = verbs_new("for the VM", verbs_do_look, uuid, NULL);

    job->aliases = g_strdupv((char **)aliases);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret = job->look;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_gpus(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    job->gpus = vg_virt_host_gpus(host, job->uuid, job->named, job->n_named, err);
    return job->gpus ? 0 : -1;
}

GPtrArray *
vg_virt_gpus(vg_virt_link *link, const char *uuid, const struct vg_named_device *named,
             size_t n_named, GError **err)
{
    struct verbs_job *job = verbs_new("for the VM's GPUs", verbs_do_gpus, uuid, NULL);

    verbs_copy_named(job, named, n_named);
    if (vg_virt_call(link, &job->base, err) < 0)
        return NULL;
    GPtrArray *gpus = g_steal_pointer(&job->gpus);
    verbs_free(&job->base);
    return gpus;
}

/* ---- devices ---- */

static int
verbs_do_pick(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_pick(host, job->devices, job->taken, job->dry_run, job->packs, job->named,
                             job->n_named, err);
}

int
vg_virt_pick(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken, bool dry_run,
             bool packs, const struct vg_named_device *named, size_t n_named, GError **err)
{
    struct verbs_job *job = verbs_new("for free GPUs", verbs_do_pick, NULL, NULL);

    job->devices = vg_virt_copy_devices(devices);
    job->taken = verbs_copy_texts(taken);
    job->dry_run = dry_run;
    job->packs = packs;
    verbs_copy_named(job, named, n_named);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    for (unsigned i = 0; i < devices->len; i++) {
        struct vg_move_device *device = devices->pdata[i], *picked = job->devices->pdata[i];
        g_free(device->target_address);
        g_free(device->target_xml);
        device->target_address = g_steal_pointer(&picked->target_address);
        device->target_xml = g_steal_pointer(&picked->target_xml);
    }
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_drop_mdevs(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_drop_mdevs(host, job->devices, job->taken, err);
}

int
vg_virt_drop_mdevs(vg_virt_link *link, const GPtrArray *devices, const GPtrArray *taken,
                   GError **err)
{
    struct verbs_job *job =
        verbs_new("to remove mediated devices", verbs_do_drop_mdevs, NULL, NULL);

    job->devices = vg_virt_copy_devices(devices);
    job->taken = verbs_copy_texts(taken);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_check_others(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_check_others(host, job->uuid, job->devices, job->named, job->n_named, err);
}

int
vg_virt_check_others(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                     const struct vg_named_device *named, size_t n_named, GError **err)
{
    struct verbs_job *job =
        verbs_new("to find the VM that has the GPUs", verbs_do_check_others, uuid, NULL);

    job->devices = vg_virt_copy_devices(devices);
    verbs_copy_named(job, named, n_named);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_detach(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_detach(host, job->uuid, job->devices, &base->verb, err);
}

int
vg_virt_detach(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
               const struct vg_verb *verb, GError **err)
{
    struct verbs_job *job = verbs_new("to unplug GPUs", verbs_do_detach, uuid, verb);

    job->devices = vg_virt_copy_devices(devices);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_attach(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_attach(host, job->uuid, job->devices->pdata[0], job->xml, &base->verb, err);
}

/* Attaches a device. Plugging in a GPU may take long because QEMU pins all of the VM's memory. */
int
vg_virt_attach(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
               const char *xml, const struct vg_verb *verb, GError **err)
{
    struct verbs_job *job = verbs_new("to plug in a GPU", verbs_do_attach, uuid, verb);
    const int64_t left_ns = verb->deadline_ns - vg_clock_monotonic_ns();

    job->devices = vg_virt_copy_devices(NULL);
    g_ptr_array_add(job->devices, vg_record_copy(&vg_move_device_record, device));
    job->xml = g_strdup(xml);
    job->base.call_ns = MAX(left_ns + LATE_NS, VG_VIRT_CALL_NS);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

/* ---- the definition ---- */

static int
verbs_do_define_device(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_define_device(host, job->uuid, job->devices->pdata[0], job->xml, err);
}

int
vg_virt_define_device(vg_virt_link *link, const char *uuid, const struct vg_move_device *device,
                      const char *xml, GError **err)
{
    struct verbs_job *job = verbs_new("to define a GPU", verbs_do_define_device, uuid, NULL);

    job->devices = vg_virt_copy_devices(NULL);
    g_ptr_array_add(job->devices, vg_record_copy(&vg_move_device_record, device));
    job->xml = g_strdup(xml);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_end_paused(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    return vg_virt_host_end_paused(host, ((struct verbs_job *)base)->uuid, err);
}

int
vg_virt_end_paused(vg_virt_link *link, const char *uuid, GError **err)
{
    struct verbs_job *job = verbs_new("to end a paused VM", verbs_do_end_paused, uuid, NULL);

    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_end_incoming(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    return vg_virt_host_end_incoming(host, ((struct verbs_job *)base)->uuid, err);
}

int
vg_virt_end_incoming(vg_virt_link *link, const char *uuid, GError **err)
{
    struct verbs_job *job = verbs_new("to end a QEMU process that waits for a migration",
                                      verbs_do_end_incoming, uuid, NULL);

    job->base.call_ns = END_NS;
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

static int
verbs_do_undefine(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    return vg_virt_host_undefine(host, ((struct verbs_job *)base)->uuid, err);
}

int
vg_virt_undefine(vg_virt_link *link, const char *uuid, GError **err)
{
    struct verbs_job *job = verbs_new("to undefine the VM", verbs_do_undefine, uuid, NULL);

    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

/* ---- the migration ---- */

static int
verbs_do_migrate(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_migrate(host, &job->migration, &base->verb, &job->progress, err);
}

static int
verbs_do_read_arrival(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    (void)err;
    vg_virt_host_read_arrival(host, job->uuid, &job->progress);
    return 0;
}

/* Queries the target for figures that are only displayed. */
static void
verbs_read_arrival(vg_virt_link *target, const char *uuid, struct vg_migration_progress *progress)
{
    struct verbs_job *job =
        verbs_new("to check how the VM arrived", verbs_do_read_arrival, uuid, NULL);

    job->progress = *progress;
    if (vg_virt_call(target, &job->base, NULL) < 0)
        return;
    *progress = job->progress;
    verbs_free(&job->base);
}

static int
verbs_do_resume(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    return vg_virt_host_go_on(host, ((struct verbs_job *)base)->uuid, err);
}

int
vg_virt_go_on(vg_virt_link *link, const char *uuid, GError **err)
{
    struct verbs_job *job = verbs_new("to resume the VM", verbs_do_resume, uuid, NULL);

    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    verbs_free(&job->base);
    return 0;
}

int
vg_virt_migrate(vg_virt_link *link, const struct vg_virt_migration *migration,
                const struct vg_verb *verb, struct vg_migration_progress *ret, GError **err)
{
    struct verbs_job *job = verbs_new("to migrate", verbs_do_migrate, migration->uuid, verb);

    job->migration = *migration;
    job->devices = vg_virt_copy_devices(migration->devices);
    job->peer_uri = g_strdup(migration->peer_uri);
    job->migration.uuid = job->uuid;
    job->migration.peer_uri = job->peer_uri;
    job->migration.devices = job->devices;
    job->migration.target = NULL;
    job->migration.ret_paused = &job->was_paused;
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret = job->progress;
    if (migration->ret_paused)
        *migration->ret_paused = job->was_paused;
    verbs_free(&job->base);
    if (migration->target)
        verbs_read_arrival(migration->target, migration->uuid, ret);
    return 0;
}

static int
verbs_do_abort(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    (void)err;
    vg_virt_host_abort(host, ((struct verbs_job *)base)->uuid);
    return 0;
}

void
vg_virt_abort(vg_virt_link *link, const char *uuid)
{
    struct verbs_job *job = verbs_new("to end a migration", verbs_do_abort, uuid, NULL);

    if (vg_virt_call(link, &job->base, NULL) == 0)
        verbs_free(&job->base);
}

/* ---- the guest ---- */

static int
verbs_do_order_guest(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_ask_guest(host, job->uuid, job->order, job->devices, job->opencl_at,
                                  &base->verb, &job->answer, err);
}

/* Sends an order to the agent of a domain. order is a constant, as for vg_virt_host_ask_guest(). */
static int
verbs_order_guest(vg_virt_link *link, const char *uuid, const char *order, const GPtrArray *devices,
                  const char *opencl_at, const struct vg_verb *verb, struct vg_guest_answer *ret,
                  GError **err)
{
    struct verbs_job *job =
        verbs_new("for the channel of the guest", verbs_do_order_guest, uuid, verb);

    job->order = order;
    job->opencl_at = g_strdup(opencl_at);
    job->devices = devices ? vg_virt_copy_devices(devices) : NULL;
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret = job->answer;
    job->answer = (struct vg_guest_answer){0};
    verbs_free(&job->base);
    return 0;
}

int
vg_guest_hello(vg_virt_link *link, const char *uuid, const struct vg_verb *verb,
               struct vg_guest_answer *ret, GError **err)
{
    return verbs_order_guest(link, uuid, NULL, NULL, NULL, verb, ret, err);
}

int
vg_guest_status(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err)
{
    return verbs_order_guest(link, uuid, "status", devices, NULL, verb, ret, err);
}

int
vg_guest_prepare(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                 const char *opencl_at, const struct vg_verb *verb, struct vg_guest_answer *ret,
                 GError **err)
{
    return verbs_order_guest(link, uuid, "prepare", devices, opencl_at, verb, ret, err);
}

int
vg_guest_switch(vg_virt_link *link, const char *uuid, const char *opencl_at,
                const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err)
{
    return verbs_order_guest(link, uuid, "switch", NULL, opencl_at, verb, ret, err);
}

int
vg_guest_resume(vg_virt_link *link, const char *uuid, const GPtrArray *devices,
                const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err)
{
    return verbs_order_guest(link, uuid, "resume", devices, NULL, verb, ret, err);
}

static int
verbs_do_send_proxy(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct verbs_job *job = (struct verbs_job *)base;

    return vg_virt_host_send_proxy(host, job->uuid, job->opencl_at, job->token, &base->verb,
                                   &job->answer, err);
}

int
vg_guest_send_proxy(vg_virt_link *link, const char *uuid, const char *opencl_at, const char *token,
                    const struct vg_verb *verb, struct vg_guest_answer *ret, GError **err)
{
    struct verbs_job *job =
        verbs_new("for the channel of the guest", verbs_do_send_proxy, uuid, verb);

    job->opencl_at = g_strdup(opencl_at);
    job->token = g_strdup(token);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret = job->answer;
    job->answer = (struct vg_guest_answer){0};
    verbs_free(&job->base);
    return 0;
}
