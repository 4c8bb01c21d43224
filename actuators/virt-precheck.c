/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds reasons why a move would fail, before anything is changed. QEMU is queried for its own
 * reasons only if it is known to have one, because the query taints the domain. libvirt checks them
 * when the migration starts, after the GPUs were detached. If QEMU refuses, the VM stays and gets
 * its GPUs back. host/move-blockers contains known reasons of both. Whether the source's libvirtd
 * can connect to the target's is not checked either.
 */
#include "config.h"

#include <stdarg.h>
#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-link.h"
#include "actuators/virt-objects.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/domain-xml.h"
#include "host/move-blockers.h"
#include "host/move-xml.h"
#include "host/target-lacks.h"
#include "model/path.h"
#include "model/vm-name.h"

#define MIB       (INT64_C(1) << 20)
#define KIB       INT64_C(1024)
#define STATS_MAX 16
/* The maximum number of unknown elements named in a doubt. */
#define NEWS_MAX 8

/* libvirt may have to start QEMU to determine its capabilities. */
#define PRECHECK_CALL_NS (20 * VG_NS_PER_S)

/* The state of two successive jobs: the first queries the source's libvirt for the domain, the
 * second queries the target's for everything that the domain needs. */
struct precheck {
    struct vg_virt_job base; /* the first member */
    /* The caller sets these members. */
    char *uuid;
    char *peer_uri; /* NULL if there is no target */
    bool native;
    GPtrArray *devices;
    /* These members are set while a job runs. */
    vg_virt_host *host; /* the queried host */
    virDomainPtr domain;
    /* The jobs set these members. */
    char *source_uri;
    char *name;
    char *xml;          /* the live XML */
    vg_inventory *here; /* the source's capabilities */
    vg_move_needs *needs;
    int64_t memory_bytes;
    bool runs;
    char *capabilities;        /* the target's */
    char *domain_capabilities; /* the target QEMU's for this domain, or NULL */
    GPtrArray *problems;
    GPtrArray *doubts;
};

static void precheck_add(struct precheck *check, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
precheck_add(struct precheck *check, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(check->problems, g_strdup_vprintf(fmt, args));
    va_end(args);
}

/* Handles an error in the target's answer. Returns 0 and adds a problem, or -1 and *err if the
 * target is unreachable. */
static int precheck_refused(struct precheck *check, GError **err, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

static int
precheck_refused(struct precheck *check, GError **err, const char *fmt, ...)
{
    va_list args;
    g_autoptr(GError) error = NULL;

    va_start(args, fmt);
    g_autofree char *text = g_strdup_vprintf(fmt, args);
    va_end(args);
    vg_virt_host_failed(check->host, &error, "%s", text);
    if (g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE)) {
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    precheck_add(check, "%s", error->message);
    return 0;
}

/* ---- the domain on the source ---- */

static int
check_metadata(struct precheck *check, GError **err)
{
    struct vg_inv_vm *vm = vg_record_new(&vg_inv_vm_record);
    int result = vg_domain_xml_read(check->xml, NULL, vm, err);

    if (result == 0) {
        check->memory_bytes = vm->memory_bytes;
        if (vm->nova_managed)
            precheck_add(check,
                         "'%s' belongs to OpenStack (instance %s): move it through nova with "
                         "'openstack server migrate --live-migration'",
                         check->name, vm->nova.name ? vm->nova.name : "without a name");
        else if (vm->manager)
            precheck_add(check, "'%s' belongs to %s, which alone may move it: use %s", check->name,
                         vm->manager, vm->manager_move);
    }
    vg_record_free(&vg_inv_vm_record, vm);
    return result;
}

static struct vg_virt_versions
precheck_read_versions(vg_virt_host *host)
{
    struct vg_virt_versions versions = {0};
    const char *type = virConnectGetType(host->connection);

    if (virConnectGetLibVersion(host->connection, &versions.libvirt) < 0)
        versions.libvirt = 0;
    if (g_strcmp0(type, "QEMU") != 0 || virConnectGetVersion(host->connection, &versions.qemu) < 0)
        versions.qemu = 0;
    virResetLastError();
    return versions;
}

static void
precheck_add_blocker(struct precheck *check, const struct vg_move_blocker *blocker)
{
    g_autofree char *why =
        blocker->ask_qemu && check->runs ? vg_virt_host_ask_qemu(check->domain) : NULL;

    if (blocker->sure)
        precheck_add(check, "%s%s%s", blocker->text, why ? ". " : "", why ? why : "");
    else if (blocker->pci_source && vg_virt_host_is_plain_vfio(check->host, blocker->pci_source))
        precheck_add(check, "%s: vfio-pci", blocker->text);
    else
        g_ptr_array_add(check->doubts, g_strdup(blocker->text));
}

static int
check_devices(struct precheck *check, GError **err)
{
    const GPtrArray *devices = check->devices;
    const unsigned n = devices->len;
    g_autofree const char **off = g_new0(const char *, n + 1);

    for (unsigned i = 0; i < n; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        off[i] = device->alias;
    }
    /* Devices that stay in the VM need not be unplugged. QEMU was queried for them. */
    if (!check->native && vg_move_xml_problems(check->xml, off, check->problems, err) < 0)
        return -1;
    const struct vg_virt_versions versions = precheck_read_versions(check->host);
    g_autoptr(GPtrArray) blockers = vg_move_blockers(check->xml, off, &versions, err);
    for (unsigned i = 0; blockers && i < blockers->len; i++)
        precheck_add_blocker(check, blockers->pdata[i]);
    return blockers ? 0 : -1;
}

static void
precheck_doubt_news(struct precheck *check)
{
    for (unsigned i = 0; i < MIN(check->needs->news->len, NEWS_MAX); i++)
        g_ptr_array_add(check->doubts,
                        g_strdup_printf("'%s' has an element <%s> that this vgpud does not know: "
                                        "it is unknown whether the target needs something for it",
                                        check->name, (char *)check->needs->news->pdata[i]));
}

/* Detects a block job that the domain's XML does not show. */
static void
precheck_block_jobs(struct precheck *check)
{
    for (unsigned i = 0; i < check->needs->disks->len; i++) {
        const char *disk = check->needs->disks->pdata[i];
        virDomainBlockJobInfo job;
        if (virDomainGetBlockJobInfo(check->domain, disk, &job, 0) == 1)
            precheck_add(
                check,
                "a block job is running on disk '%s' of '%s', and libvirt does not migrate such a "
                "VM: wait until the job ends, or abort it ('virsh blockjob')",
                disk, check->name);
    }
    virResetLastError();
}

static void
check_state(struct precheck *check)
{
    int state = VIR_DOMAIN_NOSTATE;
    virDomainJobInfo job = {.type = VIR_DOMAIN_JOB_NONE};

    if (virDomainGetState(check->domain, &state, NULL, 0) == 0 && state == VIR_DOMAIN_PAUSED)
        precheck_add(check,
                     "'%s' is paused, and a paused guest does not release a device: resume it "
                     "first",
                     check->name);
    if (virDomainGetJobInfo(check->domain, &job) == 0 && job.type != VIR_DOMAIN_JOB_NONE)
        precheck_add(check,
                     "another libvirt job is running on '%s' ('virsh domjobinfo' shows it): wait "
                     "until it ends",
                     check->name);
    int snapshots = virDomainSnapshotNum(check->domain, 0);
    if (snapshots > 0)
        precheck_add(check,
                     "'%s' has %d snapshots, and libvirt does not migrate such a VM: delete them "
                     "first",
                     check->name, snapshots);
    virResetLastError();
}

/* ---- the target ---- */

static void
check_other(struct precheck *check, virDomainPtr other, const char *why)
{
    if (other)
        precheck_add(check, "there is a domain '%s' on '%s' with %s: undefine or rename it",
                     virDomainGetName(other), check->host->uri, why);
}

static int
check_clashes(struct precheck *check, GError **err)
{
    virConnectPtr connection = check->host->connection;
    const char *uuid = check->uuid;
    g_autoptr(virDomain) same_uuid = virDomainLookupByUUIDString(connection, uuid);

    if (!same_uuid && virGetLastErrorCode() != VIR_ERR_NO_DOMAIN)
        return vg_virt_host_failed(check->host, err, "cannot look up domain %s", uuid);
    g_autoptr(virDomain) same_name = virDomainLookupByName(connection, check->name);
    if (!same_name && virGetLastErrorCode() != VIR_ERR_NO_DOMAIN)
        return vg_virt_host_failed(check->host, err, "cannot look up domain '%s'", check->name);
    virResetLastError();
    check_other(check, same_uuid, "the same UUID");
    char other[VIR_UUID_STRING_BUFLEN] = "";
    if (same_name && virDomainGetUUIDString(same_name, other) == 0 && !vg_vm_is(other, NULL, uuid))
        check_other(check, same_name, "the same name and a different UUID");
    return 0;
}

/* Reads the UUID and the CPU model, which may both be missing. ret_xml may be NULL. */
static vg_inventory *
read_capabilities(vg_virt_host *host, char **ret_xml, GError **err)
{
    g_autofree char *xml = vg_virt_own(virConnectGetCapabilities(host->connection));
    g_autoptr(vg_inventory) inventory = vg_inventory_new(NULL);

    if (!xml) {
        vg_virt_host_failed(host, err, "cannot read the capabilities");
        return NULL;
    }
    if (vg_capabilities_xml_read(xml, inventory, err) < 0)
        return NULL;
    if (ret_xml)
        *ret_xml = g_steal_pointer(&xml);
    return g_steal_pointer(&inventory);
}

static int
check_hosts(struct precheck *check, GError **err)
{
    const vg_inventory *here = check->here;
    g_autoptr(vg_inventory) there = read_capabilities(check->host, &check->capabilities, err);

    if (!there)
        return -1;
    if (here->uuid && g_strcmp0(here->uuid, there->uuid) == 0)
        precheck_add(check,
                     "'%s' and '%s' have the same UUID: they are the same host, or one of them "
                     "needs its own host_uuid in libvirtd.conf",
                     check->source_uri, check->host->uri);
    if (check->needs->host_cpu && g_strcmp0(here->cpu_model, there->cpu_model) != 0)
        precheck_add(check,
                     "'%s' uses its host's CPU model, %s, but the CPU of '%s' is %s: use a CPU "
                     "model that both support",
                     check->name, here->cpu_model ? here->cpu_model : "unknown", check->host->uri,
                     there->cpu_model ? there->cpu_model : "unknown");
    return 0;
}

/* Checks that the target has the same QEMU binary and machine type. */
static int
check_machine(struct precheck *check, bool *ret_known, GError **err)
{
    const vg_move_needs *needs = check->needs;
    char *xml = vg_virt_own(virConnectGetDomainCapabilities(check->host->connection,
                                                            needs->emulator, needs->arch,
                                                            needs->machine, needs->virt_type, 0));

    check->domain_capabilities = xml;
    *ret_known = xml != NULL;
    if (xml)
        return 0;
    return precheck_refused(check, err, "'%s' needs %s of %s (%s), which is unavailable",
                            check->name, needs->machine ? needs->machine : "a machine",
                            needs->emulator ? needs->emulator : "the emulator",
                            needs->virt_type ? needs->virt_type : "any type");
}

static int
check_cpu(struct precheck *check, GError **err)
{
    const vg_move_needs *needs = check->needs;

    if (!needs->cpu_xml || needs->host_cpu)
        return 0;
    int result = virConnectCompareHypervisorCPU(
        check->host->connection, needs->emulator, needs->arch, needs->machine, needs->virt_type,
        needs->cpu_xml, VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE);
    if (result >= VIR_CPU_COMPARE_IDENTICAL)
        return 0;
    /* Some architectures and drivers do not support the comparison. */
    if (result != VIR_CPU_COMPARE_INCOMPATIBLE && virGetLastErrorCode() == VIR_ERR_NO_SUPPORT) {
        virResetLastError();
        return 0;
    }
    return precheck_refused(check, err, "the CPU model of '%s' is unavailable", check->name);
}

/* Returns the free memory plus the reclaimable page cache, or -1 if unknown. */
static int64_t
memory_of(virConnectPtr connection)
{
    virNodeMemoryStats stats[STATS_MAX];
    int n = 0;
    int64_t sum = 0;

    /* The number of entries must match exactly. */
    if (virNodeGetMemoryStats(connection, VIR_NODE_MEMORY_STATS_ALL_CELLS, NULL, &n, 0) < 0 ||
        n > STATS_MAX ||
        virNodeGetMemoryStats(connection, VIR_NODE_MEMORY_STATS_ALL_CELLS, stats, &n, 0) < 0) {
        virResetLastError();
        return -1;
    }
    for (int i = 0; i < n; i++)
        if (strcmp(stats[i].field, VIR_NODE_MEMORY_STATS_TOTAL) != 0)
            sum += (int64_t)MIN(stats[i].value, (unsigned long long)(INT64_MAX / KIB / STATS_MAX));
    return sum * KIB;
}

static void
check_memory(struct precheck *check)
{
    int64_t there = memory_of(check->host->connection);

    if (!check->needs->huge_pages && there >= 0 && there < check->memory_bytes)
        precheck_add(check, "'%s' needs %lld MiB of memory, but '%s' has at most %lld MiB",
                     check->name, (long long)(check->memory_bytes / MIB), check->host->uri,
                     (long long)(there / MIB));
}

/* ---- all checks ---- */

static int
precheck_query_target(struct vg_virt_job *job, vg_virt_host *host, GError **err)
{
    struct precheck *check = (struct precheck *)job;
    bool known = false;

    check->host = host;
    if (vg_virt_host_connect(host, err) < 0 || check_clashes(check, err) < 0 ||
        check_hosts(check, err) < 0 || check_machine(check, &known, err) < 0 ||
        (known && check_cpu(check, err) < 0) ||
        vg_target_lacks(check->xml, check->capabilities, check->domain_capabilities,
                        check->problems, err) < 0)
        return -1;
    virt_objects_check(host, check->needs->objects, check->problems);
    check_memory(check);
    return 0;
}

static int
check_all(struct precheck *check, GError **err)
{
    check->xml = vg_virt_host_xml(check->host, check->domain, 0, err);
    if (!check->xml)
        return -1;
    check->needs = vg_move_needs_read(check->xml, err);
    if (!check->needs || check_metadata(check, err) < 0 || check_devices(check, err) < 0)
        return -1;
    check_state(check);
    precheck_block_jobs(check);
    precheck_doubt_news(check);
    if (!check->peer_uri)
        return 0;
    if (strstr(check->peer_uri, ":///"))
        precheck_add(check,
                     "with '%s' the source's libvirtd would connect to itself: set the URI that "
                     "reaches the target, with the target's host name",
                     check->peer_uri);
    check->here = read_capabilities(check->host, NULL, err);
    return check->here ? 0 : -1;
}

static int
precheck_query_source(struct vg_virt_job *job, vg_virt_host *host, GError **err)
{
    struct precheck *check = (struct precheck *)job;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, check->uuid, err);

    if (!domain)
        return -1;
    check->host = host;
    check->domain = domain;
    check->source_uri = g_strdup(host->uri);
    check->name = g_strdup(virDomainGetName(domain));
    check->runs = virDomainIsActive(domain) != 0;
    if (check->runs)
        return check_all(check, err);
    precheck_add(check, "'%s' is not running on '%s': start it, or move its definition",
                 check->name, host->uri);
    return 0;
}

static void
precheck_free(struct vg_virt_job *job)
{
    struct precheck *check = (struct precheck *)job;

    g_free(check->uuid);
    g_free(check->peer_uri);
    g_ptr_array_unref(check->devices);
    g_free(check->source_uri);
    g_free(check->name);
    g_free(check->xml);
    g_free(check->capabilities);
    g_free(check->domain_capabilities);
    vg_inventory_free(check->here);
    vg_move_needs_free(check->needs);
    g_ptr_array_unref(check->problems);
    g_ptr_array_unref(check->doubts);
    g_free(check);
}

static void
precheck_hand_over(GPtrArray *from, GPtrArray *to)
{
    for (unsigned i = 0; to && i < from->len; i++)
        g_ptr_array_add(to, g_strdup(from->pdata[i]));
}

int
vg_virt_precheck(vg_virt_link *source, vg_virt_link *target, struct vg_precheck *check,
                 GPtrArray *problems, GError **err)
{
    struct precheck *all = g_new0(struct precheck, 1);

    all->uuid = g_strdup(check->uuid);
    all->peer_uri = target ? g_strdup(check->peer_uri) : NULL;
    all->native = check->native;
    all->devices = vg_virt_copy_devices(check->devices);
    all->problems = g_ptr_array_new_with_free_func(g_free);
    all->doubts = g_ptr_array_new_with_free_func(g_free);
    vg_virt_job_init(&all->base, "to check for obstacles to moving the VM", precheck_query_source,
                     precheck_free, NULL);
    all->base.call_ns = PRECHECK_CALL_NS;
    if (vg_virt_call(source, &all->base, err) < 0)
        return -1;
    if (target && all->runs) {
        vg_virt_job_init(&all->base, "to check for obstacles to accepting the VM",
                         precheck_query_target, precheck_free, NULL);
        all->base.call_ns = PRECHECK_CALL_NS;
        if (vg_virt_call(target, &all->base, err) < 0)
            return -1;
    }
    check->memory_bytes = all->memory_bytes;
    precheck_hand_over(all->problems, problems);
    precheck_hand_over(all->doubts, check->doubts);
    for (unsigned i = 0; check->paths && all->needs && i < all->needs->paths->len; i++)
        g_ptr_array_add(check->paths,
                        vg_record_copy(&vg_path_need_record, all->needs->paths->pdata[i]));
    precheck_free(&all->base);
    return 0;
}
