/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: qemuMigrationSrcIsAllowed(), qemuMigrationSrcIsAllowedHostdev() and
 * qemuMigrationSrcIsSafe() of libvirt 9.0.0 and 11.3.0; devices that call migrate_add_blocker() or
 * are unmigratable in QEMU 7.2 and 10.0. Both libvirt versions query QEMU about host devices, and
 * make no statement about them themselves.
 */
#include "config.h"

#include "host/move-blockers.h"

#include <string.h>

#include "host/virtio-gpu.h"
#include "host/xml-walk.h"

#define TEXT_BYTES_MAX 1024

enum { DEBIAN_12, DEBIAN_13, DEBIANS, UNKNOWN = DEBIANS };

enum blocker_who { LIBVIRT, QEMU, NOBODY };

/* NO: such a VM cannot be migrated. MAY: it depends on `if_text`. NEVER: nothing refuses the
 * migration, but the VM would continue with different data. */
enum blocker_verdict { YES, NO, MAY, NEVER };

struct blocker_row {
    const char *element; /* an element below <devices> */
    /* The condition: the element, or the element at this path below it, has the attribute with this
     * value (is_not: another value, or none). If attribute is NULL, the element only has to exist.
     * If path is also NULL, the condition always holds. */
    const char *path, *attribute, *value;
    bool is_not;
    enum blocker_who who;
    enum blocker_verdict verdicts[DEBIANS];
    const char *what;
    const char *if_text; /* the condition for MAY, and the reason for NEVER */
};

#define IS(path, attribute, value) path, attribute, value, false

static const char blocker_by_driver[] =
    "only if its driver supports migration, which vfio-pci does not";
static const char blocker_by_backend[] = "only if the program that serves it can log memory writes";

/* The first row that matches an element counts. */
static const struct blocker_row blocker_rows[] = {
    {"hostdev", IS(NULL, "mode", "capabilities"), LIBVIRT, {NO, NO}, "a host capability", ""},
    {"hostdev", IS(NULL, "type", "pci"), QEMU, {NO, MAY}, "a host PCI device", blocker_by_driver},
    {"hostdev",
     IS(NULL, "type", "mdev"),
     QEMU,
     {NO, MAY},
     "a host mediated device",
     blocker_by_driver},
    {"hostdev",
     IS(NULL, "type", "scsi_host"),
     QEMU,
     {NO, NO},
     "a host SCSI adapter (vhost-scsi)",
     ""},
    {"hostdev",
     IS(NULL, "type", "scsi"),
     NOBODY,
     {NEVER, NEVER},
     "a host SCSI device",
     "the target would use its own device at that address, or none"},
    {"hostdev", IS("source", "startupPolicy", "requisite"), NOBODY, {YES, YES}, "", ""},
    {"hostdev", IS("source", "startupPolicy", "optional"), NOBODY, {YES, YES}, "", ""},
    {"hostdev",
     IS(NULL, "type", "usb"),
     LIBVIRT,
     {MAY, MAY},
     "a host USB device",
     "only if the target has one of the same vendor and product, or at the same address"},
    {"interface",
     IS(NULL, "type", "hostdev"),
     QEMU,
     {NO, MAY},
     "a host network card",
     blocker_by_driver},
    {"interface",
     IS(NULL, "type", "vdpa"),
     QEMU,
     {NO, MAY},
     "a host vDPA network card",
     "only if QEMU can track its queues"},
    {"interface",
     IS(NULL, "type", "vhostuser"),
     QEMU,
     {MAY, MAY},
     "a vhost-user network card",
     blocker_by_backend},
    {"interface", IS("model", "type", "usb-net"), QEMU, {NO, NO}, "a USB network card", ""},
    {"disk", IS("transient", NULL, NULL), LIBVIRT, {NO, NO}, "a transient disk", ""},
    {"disk",
     IS("mirror", NULL, NULL),
     LIBVIRT,
     {NO, NO},
     "a disk that is being copied (a block job)",
     ""},
    {"disk", IS(NULL, "type", "nvme"), LIBVIRT, {NO, NO}, "a host NVMe disk", ""},
    {"disk",
     IS(NULL, "type", "vhostuser"),
     QEMU,
     {MAY, MAY},
     "a vhost-user disk",
     blocker_by_backend},
    {"disk",
     IS(NULL, "type", "vhostvdpa"),
     NOBODY,
     {NEVER, NEVER},
     "a host vDPA disk",
     "the target would use its own device at that address, or none"},
    {"disk", IS("driver", "type", "qcow"), QEMU, {NO, NO}, "a disk in qcow format", ""},
    {"disk", IS("driver", "type", "vdi"), QEMU, {NO, NO}, "a disk in vdi format", ""},
    {"disk", IS("driver", "type", "vmdk"), QEMU, {NO, NO}, "a disk in vmdk format", ""},
    {"disk", IS("driver", "type", "vpc"), QEMU, {NO, NO}, "a disk in vpc format", ""},
    {"disk", IS("driver", "type", "ploop"), QEMU, {NO, NO}, "a disk in ploop format", ""},
    {"disk",
     IS(NULL, "type", "dir"),
     QEMU,
     {MAY, MAY},
     "a host directory used as a disk",
     "only if the guest cannot write to it"},
    {"filesystem",
     IS("driver", "type", "virtiofs"),
     LIBVIRT,
     {NO, MAY},
     "a host directory (virtiofs)",
     "only if its virtiofsd supports migration"},
    {"filesystem", IS("driver", "type", "mtp"), QEMU, {NO, NO}, "a host directory (MTP)", ""},
    {"filesystem",
     IS(NULL, NULL, NULL),
     QEMU,
     {NO, NO},
     "a host directory (9p), which blocks a migration while the guest has it mounted",
     ""},
    {"shmem",
     IS("model", "type", "ivshmem"),
     LIBVIRT,
     {NO, NO},
     "host shared memory (ivshmem)",
     ""},
    {"shmem",
     NULL,
     "role",
     "master",
     true,
     LIBVIRT,
     {NO, NO},
     "host shared memory whose role is not master",
     ""},
    {"tpm",
     IS("backend", "type", "passthrough"),
     NOBODY,
     {NEVER, NEVER},
     "the host's TPM",
     "the target has a different TPM, without the VM's secrets"},
    {"tpm",
     IS("backend", "type", "external"),
     QEMU,
     {MAY, MAY},
     "a TPM emulator outside of libvirt",
     "only if the program that serves it can export its state"},
    {"input", IS(NULL, "type", "passthrough"), QEMU, {NO, NO}, "a host input device", ""},
    {"sound", IS(NULL, "model", "usb"), QEMU, {NO, NO}, "a USB sound card", ""},
    {"sound", IS(NULL, "model", "virtio"), QEMU, {NO, NO}, "a virtio sound card", ""},
    {"channel",
     IS(NULL, "type", "qemu-vdagent"),
     QEMU,
     {NO, NO},
     "a clipboard channel (qemu-vdagent)",
     ""},
    {"serial", IS("target", "type", "usb-serial"), QEMU, {NO, NO}, "a USB serial port", ""},
    {"crypto", IS(NULL, NULL, NULL), QEMU, {NO, NO}, "a crypto device (virtio-crypto)", ""},
};

static void
blocker_free(void *free_blocker)
{
    struct vg_move_blocker *blocker = free_blocker;

    g_free(blocker->text);
    g_free(blocker->pci_source);
    g_free(blocker);
}

/* ---- versions ---- */

static const struct {
    unsigned long libvirt, qemu; /* major * 1000 + minor */
    const char *names[2];        /* by blocker_who */
} blocker_debians[DEBIANS] = {
    {9000, 7002, {"libvirt 9.0", "QEMU 7.2"}},
    {11003, 10000, {"libvirt 11.3", "QEMU 10.0"}},
};

/* Returns the index in blocker_debians, or UNKNOWN. */
static int
blocker_find_version(const struct vg_virt_versions *versions, enum blocker_who who)
{
    const unsigned long libvirt = versions->libvirt / 1000, qemu = versions->qemu / 1000;

    for (int i = 0; i < DEBIANS; i++)
        if (who == QEMU && versions->qemu > 0 ? qemu == blocker_debians[i].qemu
                                              : libvirt == blocker_debians[i].libvirt)
            return i;
    return UNKNOWN;
}

/* Formats a version like "QEMU 8.2.2". */
static char *
blocker_name_version(const struct vg_virt_versions *versions, enum blocker_who who)
{
    const unsigned long version = who == QEMU ? versions->qemu : versions->libvirt;
    const char *name = who == QEMU ? "QEMU" : "libvirt";

    return version == 0 ? g_strdup_printf("this %s", name)
                        : g_strdup_printf("%s %lu.%lu.%lu", name, version / 1000000,
                                          version / 1000 % 1000, version % 1000);
}

/* ---- what a row says ---- */

static bool
blocker_row_fits(const struct blocker_row *row, const xmlNode *node)
{
    const xmlNode *at = row->path ? vg_xml_at(node, row->path) : node;

    if (strcmp(row->element, (const char *)node->name) != 0)
        return false;
    if (!row->attribute)
        return at != NULL;
    return vg_xml_attribute_is(at, row->attribute, row->value) != row->is_not;
}

static const char blocker_advice[] =
    "; remove it, or add a group [gpu NAME] for it if it should move with the VM";

/* Describes a blocker for an unknown version. */
static char *
blocker_describe_unknown(const struct blocker_row *row, const char *device, const char *version,
                         bool *ret_sure)
{
    const char *const *older = blocker_debians[DEBIAN_12].names;
    const char *const *newer = blocker_debians[DEBIAN_13].names;

    *ret_sure = row->verdicts[DEBIAN_12] == NO && row->verdicts[DEBIAN_13] == NO;
    if (*ret_sure)
        return g_strdup_printf("device '%s' is %s: %s and %s do not migrate a VM with one; whether "
                               "%s does is unknown%s",
                               device, row->what, older[row->who], newer[row->who], version,
                               blocker_advice);
    if (row->verdicts[DEBIAN_12] == NO)
        return g_strdup_printf("device '%s' is %s: %s does not migrate a VM with one, and %s does "
                               "%s; whether %s does is unknown",
                               device, row->what, older[row->who], newer[row->who], row->if_text,
                               version);
    return g_strdup_printf(
        "device '%s' is %s: %s and %s migrate a VM with one %s; whether %s does is unknown", device,
        row->what, older[row->who], newer[row->who], row->if_text, version);
}

/* Describes a blocker, or returns NULL if it is none. */
static char *
blocker_describe(const struct blocker_row *row, const char *device,
                 const struct vg_virt_versions *versions, bool *ret_sure)
{
    const int version = blocker_find_version(versions, row->who);
    g_autofree char *name = blocker_name_version(versions, row->who);

    *ret_sure = true;
    if (row->verdicts[DEBIAN_12] == YES)
        return NULL;
    if (row->verdicts[DEBIAN_12] == NEVER)
        return g_strdup_printf("device '%s' is %s, and %s%s", device, row->what, row->if_text,
                               blocker_advice);
    if (version == UNKNOWN)
        return blocker_describe_unknown(row, device, name, ret_sure);
    *ret_sure = row->verdicts[version] == NO;
    const char *known = blocker_debians[version].names[row->who];
    if (*ret_sure)
        return g_strdup_printf("device '%s' is %s: a VM with one cannot be migrated (by %s)%s",
                               device, row->what, known, blocker_advice);
    return g_strdup_printf(
        "device '%s' is %s: %s migrates a VM with one %s; whether this is the case here is unknown",
        device, row->what, known, row->if_text);
}

/* ---- devices ---- */

static void
blocker_add(GPtrArray *blockers, char *take_text, bool sure, char *take_pci_source)
{
    struct vg_move_blocker *blocker = g_new0(struct vg_move_blocker, 1);

    blocker->text = take_text;
    blocker->sure = sure;
    blocker->pci_source = take_pci_source;
    g_ptr_array_add(blockers, blocker);
}

static void
blocker_judge(const xmlNode *node, const char *const *off, const struct vg_virt_versions *versions,
              GPtrArray *blockers)
{
    g_autofree char *alias = vg_xml_attribute(vg_xml_child(node, "alias"), "name", TEXT_BYTES_MAX);
    const struct blocker_row *row = NULL;
    bool sure = false;

    /* libvirt itself unplugs network cards in a team. */
    if ((alias && g_strv_contains(off, alias)) ||
        vg_xml_attribute_is(vg_xml_child(node, "teaming"), "type", "transient"))
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(blocker_rows) && !row; i++)
        row = blocker_row_fits(&blocker_rows[i], node) ? &blocker_rows[i] : NULL;
    char *text = row ? blocker_describe(row, alias ? alias : row->element, versions, &sure) : NULL;
    if (text)
        blocker_add(blockers, text, sure,
                    !sure && row->if_text == blocker_by_driver
                        ? vg_xml_pci_address(vg_xml_at(node, "source/address"))
                        : NULL);
}

/* ---- virtio-gpu ---- */

/* QEMU's message in hw/display/virtio-gpu-base.c, in 7.2 as in 10.0, is "virgl is not yet
 * migratable". It also applies to Venus and native contexts. */
static void
blocker_judge_virtio_gpu(const xmlNode *domain, const struct vg_virt_versions *versions,
                         GPtrArray *blockers)
{
    const enum vg_virtio_gpu gpu = vg_virtio_gpu_read(domain, NULL);
    const int version = blocker_find_version(versions, QEMU);
    g_autofree char *name = version == UNKNOWN ? blocker_name_version(versions, QEMU)
                                               : g_strdup(blocker_debians[version].names[QEMU]);

    if (gpu == VG_VIRTIO_GPU_NONE)
        return;
    blocker_add(
        blockers,
        g_strdup_printf("%s cannot be migrated live (by %s): shut the VM down and start it on the "
                        "other host, or remove it from the VM (%s)",
                        vg_virtio_gpu_words(gpu), name,
                        gpu == VG_VIRTIO_GPU_VENUS ? "`vgpuctl vulkan disable` if vgpud added it"
                                                   : "another video card"),
        true, NULL);
    ((struct vg_move_blocker *)blockers->pdata[blockers->len - 1])->ask_qemu = true;
}

/* ---- the domain itself ---- */

/* Returns whether the CPU has an invariant TSC, and no frequency is set for it. */
static bool
blocker_has_invtsc(const xmlNode *domain)
{
    const xmlNode *feature = vg_xml_at(domain, "cpu/feature");
    bool has = false;

    for (; feature && !has; feature = vg_xml_next(feature))
        has = vg_xml_attribute_is(feature, "name", "invtsc") &&
              !vg_xml_attribute_is(feature, "policy", "disable") &&
              !vg_xml_attribute_is(feature, "policy", "forbid");
    for (const xmlNode *timer = vg_xml_at(domain, "clock/timer"); timer; timer = vg_xml_next(timer))
        if (vg_xml_attribute_is(timer, "name", "tsc") &&
            vg_xml_attribute_number(timer, "frequency", INT64_MAX, 0) > 0)
            has = false;
    return has;
}

static void
blocker_judge_domain(const xmlNode *domain, GPtrArray *blockers)
{
    const xmlNode *cpu = vg_xml_child(domain, "cpu");

    if (vg_xml_child(domain, "launchSecurity"))
        blocker_add(
            blockers,
            g_strdup("the VM's memory is encrypted (<launchSecurity>), and cannot be copied to "
                     "another host"),
            true, NULL);
    if (vg_xml_attribute_is(vg_xml_at(domain, "features/hyperv"), "mode", "passthrough"))
        blocker_add(
            blockers,
            g_strdup(
                "the VM has all of the host's Hyper-V features (<hyperv mode='passthrough'>), and "
                "QEMU does not migrate such a VM: list only the features that the VM needs"),
            true, NULL);
    if (blocker_has_invtsc(domain))
        blocker_add(
            blockers,
            g_strdup("the VM's CPU has the feature 'invtsc', and libvirt migrates such a VM only "
                     "if <timer name='tsc' frequency='...'/> is set"),
            true, NULL);
    if (vg_xml_attribute_is(cpu, "migratable", "off"))
        blocker_add(
            blockers,
            g_strdup("the VM has features of the host's CPU that cannot be migrated (<cpu "
                     "migratable='off'>): QEMU refuses if the CPU has 'invtsc', which is unknown"),
            false, NULL);
    if (vg_xml_child(domain, "commandline"))
        blocker_add(blockers,
                    g_strdup("the VM has extra QEMU arguments (<qemu:commandline>); it is unknown "
                             "whether these prevent a migration"),
                    false, NULL);
}

GPtrArray *
vg_move_blockers(const char *xml, const char *const *off, const struct vg_virt_versions *versions,
                 GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return NULL;
    GPtrArray *blockers = g_ptr_array_new_with_free_func(blocker_free);
    const xmlNode *devices = vg_xml_child(vg_xml_root(doc), "devices");
    blocker_judge_domain(vg_xml_root(doc), blockers);
    blocker_judge_virtio_gpu(vg_xml_root(doc), versions, blockers);
    for (const xmlNode *node = devices ? devices->children : NULL; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE)
            blocker_judge(node, off, versions, blockers);
    return blockers;
}
