/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-part.h"

#include <string.h>

#define THIS vg_gpu_part
static const struct vg_field part_fields[] = {
    VG_ROW_ENUM("kind", kind, VG_FIELD_REQUIRED, vg_gpu_part_kind_names),
    VG_ROW_STRING(address, 0, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(type, 0, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_gpu_part_state_names),
    VG_ROW_INT(free, 0, 0, 1e6),
    VG_ROW_STRING(why, 0, 0, 4 * VG_SNAPSHOT_TEXT_FIELD_MAX),
};
const struct vg_record_type vg_gpu_part_record = VG_ROW_TYPE(part_fields);
#undef THIS

const char *const vg_gpu_part_kind_names[] = {
    [VG_GPU_PART_WHOLE] = "gpu", [VG_GPU_PART_FUNCTION] = "function", [VG_GPU_PART_VF] = "vf",
    [VG_GPU_PART_MDEV] = "mdev", [VG_GPU_PART_ROOM] = "room",         [VG_GPU_PART_KIND_MAX] = NULL,
};

const char *const vg_gpu_part_state_names[] = {
    [VG_GPU_PART_FREE] = "free",         [VG_GPU_PART_USED] = "used",
    [VG_GPU_PART_RESERVED] = "reserved", [VG_GPU_PART_DIVIDED] = "divided",
    [VG_GPU_PART_HOST] = "host",         [VG_GPU_PART_UNSET] = "unset",
    [VG_GPU_PART_UNKNOWN] = "unknown",   [VG_GPU_PART_STATE_MAX] = NULL,
};

#define NVIDIA_IDS "10de:"

struct part_list {
    GPtrArray *parts;
    const GPtrArray *taken;
    GHashTable *owners; /* address or UUID -> struct vg_inv_vm */
};

static void
gpu_part_free(void *data)
{
    struct vg_gpu_part *part = data;

    /* This is not a member of the record. */
    g_free(part->gpu);
    vg_record_free(&vg_gpu_part_record, part);
}

/* ---- the parts ---- */

static void
part_set(struct vg_gpu_part *part, enum vg_gpu_part_state state, char *take_why)
{
    part->state = state;
    part->free = state == VG_GPU_PART_FREE;
    g_free(part->why);
    part->why = take_why;
}

static struct vg_gpu_part *
part_add(const struct part_list *list, enum vg_gpu_part_kind kind, const struct vg_inv_gpu *gpu,
         const char *address, const char *type)
{
    struct vg_gpu_part *part = vg_record_new(&vg_gpu_part_record);

    part->kind = kind;
    part->gpu = g_strdup(gpu->device);
    part->address = g_strdup(address);
    part->type = g_strdup(type);
    g_ptr_array_add(list->parts, part);
    return part;
}

static bool
part_is_taken(const GPtrArray *taken, const char *address)
{
    for (guint i = 0; taken && i < taken->len; i++)
        if (g_ascii_strcasecmp(taken->pdata[i], address) == 0)
            return true;
    return false;
}

/* Checks whether a VM has the part, or will have it. Returns whether that is so. */
static bool
part_find_owner(const struct part_list *list, struct vg_gpu_part *part)
{
    const struct vg_inv_vm *vm = g_hash_table_lookup(list->owners, part->address);

    if (vm)
        part_set(part, VG_GPU_PART_USED,
                 g_strdup_printf("assigned to VM '%s'%s", vm->name,
                                 vm->state == VG_DOMAIN_SHUTOFF ? ", which is not running" : ""));
    else if (part_is_taken(list->taken, part->address))
        part_set(part, VG_GPU_PART_RESERVED, g_strdup("reserved for a VM that is being moved"));
    else
        return false;
    return true;
}

/* Returns whether the driver gives a device to VMs: vfio-pci, xe-vfio-pci, mlx5_vfio_pci,
 * nvgrace_gpu_vfio_pci. */
static bool
part_is_vfio(const char *driver)
{
    return driver && strstr(driver, "vfio");
}

/* Returns true if no driver uses the device. pci-stub only keeps other drivers away. */
static bool
part_is_unbound(const char *driver)
{
    return !driver || strcmp(driver, "pci-stub") == 0;
}

/* Judges a function that no VM has, by its driver. */
static void
part_judge_driver(struct vg_gpu_part *part, const char *driver, const struct vg_inv_use *use)
{
    const bool vfio = part_is_vfio(driver), unbound = part_is_unbound(driver);

    part->bound = vfio;
    if (use->known && use->text)
        part_set(part, vfio || unbound ? VG_GPU_PART_USED : VG_GPU_PART_HOST,
                 g_strdup_printf("bound to %s, and in use by %s", driver ? driver : "no driver",
                                 use->text));
    else if (vfio)
        part_set(part, VG_GPU_PART_FREE, g_strdup_printf("bound to %s, and not in use", driver));
    else if (unbound)
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("bound to %s, and not in use: libvirt binds it for a VM with "
                                 "managed='yes'",
                                 driver ? driver : "no driver"));
    else if (use->known)
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("bound to %s, and no program has it open: libvirt binds it for a "
                                 "VM with managed='yes'",
                                 driver));
    else
        part_set(part, VG_GPU_PART_UNKNOWN,
                 g_strdup_printf("bound to %s; it is unknown whether a host program uses it%s%s",
                                 driver, use->text ? ": " : "", use->text ? use->text : ""));
    part->last = part->state == VG_GPU_PART_FREE && !vfio && !unbound;
}

/* ---- a whole GPU ---- */

static const char part_no_iommu[] = "the kernel has no IOMMU for it, so no VM can use it (`vgpuctl "
                                    "doctor` on that host shows the remedy)";

/* Finds a function that keeps the IOMMU group of a GPU from VMs, or returns NULL. */
static const struct vg_inv_function *
part_find_blocker(const struct vg_inv_gpu *gpu)
{
    for (guint i = 0; gpu->iommu_group >= 0 && i < gpu->functions->len; i++) {
        const struct vg_inv_function *function = gpu->functions->pdata[i];
        if (function->iommu_group == gpu->iommu_group && !part_is_vfio(function->driver) &&
            !part_is_unbound(function->driver))
            return function;
    }
    return NULL;
}

static void
part_judge_whole(const struct part_list *list, const struct vg_inv_gpu *gpu,
                 struct vg_gpu_part *part)
{
    const struct vg_inv_function *blocker = part_find_blocker(gpu);
    guint mdevs = 0;

    for (guint i = 0; i < gpu->mdevs->len; i++)
        mdevs += !((const struct vg_inv_mdev *)gpu->mdevs->pdata[i])->inactive;
    if (part_find_owner(list, part))
        return;
    if (gpu->vfs->len > 0 || mdevs > 0) {
        const guint n = gpu->vfs->len > 0 ? gpu->vfs->len : mdevs;
        part_set(part, VG_GPU_PART_DIVIDED,
                 g_strdup_printf("divided into %u %s%s", n,
                                 gpu->vfs->len > 0 ? "virtual function" : "mediated device",
                                 n == 1 ? "" : "s"));
        return;
    }
    if (gpu->no_iommu) {
        part->bound = part_is_vfio(gpu->driver);
        part_set(part, VG_GPU_PART_UNSET, g_strdup(part_no_iommu));
        return;
    }
    part_judge_driver(part, gpu->driver, &gpu->use);
    part->by_function = part->state == VG_GPU_PART_FREE && blocker;
    if (part->by_function)
        part_set(part, VG_GPU_PART_HOST,
                 g_strdup_printf(
                     "%s (%s) is bound to %s, and is in the same IOMMU group %" G_GINT64_FORMAT
                     ", which a VM gets only as a whole: bind it to vfio-pci, too",
                     blocker->address, blocker->what, blocker->driver, gpu->iommu_group));
}

static void
part_add_function(const struct part_list *list, const struct vg_inv_gpu *gpu,
                  const struct vg_inv_function *function)
{
    struct vg_gpu_part *part =
        part_add(list, VG_GPU_PART_FUNCTION, gpu, function->address, function->pci_id);

    part->bound = part_is_vfio(function->driver);
    if (!part_find_owner(list, part))
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("%s next to the GPU, bound to %s; it moves with the GPU",
                                 function->what,
                                 function->driver ? function->driver : "no driver"));
}

/* ---- virtual functions ---- */

static char *
part_creatable(const struct vg_inv_vf *vf)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < vf->creatable->len; i++) {
        const struct vg_inv_mdev_type *type = vf->creatable->pdata[i];
        g_string_append_printf(text, "%s%s", i > 0 ? ", " : "", type->type);
    }
    return g_string_free(text, FALSE);
}

/* Judges a function whose own driver gives it to VMs, as the vGPU that it was configured to be. */
static void
part_judge_vgpu(const struct vg_inv_vf *vf, struct vg_gpu_part *part)
{
    g_autofree char *creatable = part_creatable(vf);

    part->bound = true;
    if (vf->use.known && vf->use.text)
        part_set(part, VG_GPU_PART_USED, g_strdup_printf("in use by %s", vf->use.text));
    else if (vf->vgpu_type)
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("a vGPU of %s, and not in use", vf->driver));
    else
        part_set(part, VG_GPU_PART_UNSET,
                 g_strdup_printf("no vGPU yet: nvidia/current_vgpu_type is 0%s%s",
                                 *creatable ? ", and it can become " : ", and no type is available",
                                 creatable));
}

/* Finds the type of a virtual function. Returns NULL if it is unknown: NVIDIA's functions need a
 * vGPU type, which only the driver reports.
 */
static char *
part_find_vf_type(const struct vg_inv_gpu *gpu, const struct vg_inv_vf *vf)
{
    if (vf->vgpu_told)
        return g_strdup(vf->vgpu_type);
    return vf->pci_id && !g_str_has_prefix(vf->pci_id, NVIDIA_IDS)
               ? g_strdup_printf("%s:vf%u", vf->pci_id, gpu->vfs->len)
               : NULL;
}

static bool
part_has_mdev(const struct vg_inv_gpu *gpu, const struct vg_inv_vf *vf)
{
    bool has = false;

    for (guint i = 0; i < gpu->mdevs->len && !has; i++) {
        const struct vg_inv_mdev *mdev = gpu->mdevs->pdata[i];
        has = !mdev->inactive && g_strcmp0(mdev->function, vf->address) == 0;
    }
    return has;
}

static void
part_add_vf(const struct part_list *list, const struct vg_inv_gpu *gpu, const struct vg_inv_vf *vf)
{
    g_autofree char *type = part_find_vf_type(gpu, vf);
    struct vg_gpu_part *part = part_add(list, VG_GPU_PART_VF, gpu, vf->address, type);

    if (part_find_owner(list, part))
        return;
    if (vf->no_iommu && type)
        part_set(part, VG_GPU_PART_UNSET, g_strdup(part_no_iommu));
    else if (vf->vgpu_told)
        part_judge_vgpu(vf, part);
    else if (type)
        part_judge_driver(part, vf->driver, &vf->use);
    else if (part_has_mdev(gpu, vf))
        part_set(part, VG_GPU_PART_DIVIDED, g_strdup("it is used for a mediated device"));
    else if (gpu->mdev_types->len > 0)
        part_set(part, VG_GPU_PART_UNSET, g_strdup("it is not used for a mediated device"));
    else
        part_set(part, VG_GPU_PART_UNKNOWN,
                 g_strdup_printf("bound to %s, and its vGPU type is unknown",
                                 vf->driver ? vf->driver : "no driver"));
}

/* ---- mediated devices ---- */

static void
part_add_mdev(const struct part_list *list, const struct vg_inv_gpu *gpu,
              const struct vg_inv_mdev *mdev)
{
    struct vg_gpu_part *part = part_add(list, VG_GPU_PART_MDEV, gpu, mdev->uuid, mdev->type);

    part->bound = true;
    if (part_find_owner(list, part))
        return;
    if (mdev->inactive)
        part_set(part, VG_GPU_PART_UNSET,
                 g_strdup_printf(
                     "defined but not started; run 'virsh nodedev-start' or 'mdevctl start -u %s'",
                     mdev->uuid));
    else
        part_set(part, VG_GPU_PART_FREE, g_strdup("it exists and is not in use"));
}

static void
part_add_room(const struct part_list *list, const struct vg_inv_gpu *gpu,
              const struct vg_inv_mdev_type *type)
{
    struct vg_gpu_part *part = part_add(list, VG_GPU_PART_ROOM, gpu, NULL, type->type);

    if (type->functions > type->available && type->max_instances == 0)
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("capacity for at least %" G_GINT64_FORMAT
                                 " more; the card's maximum is unknown",
                                 type->available));
    else if (type->available > 0)
        part_set(part, VG_GPU_PART_FREE,
                 g_strdup_printf("capacity for %" G_GINT64_FORMAT " more", type->available));
    else
        part_set(part, VG_GPU_PART_USED, g_strdup("no capacity for more"));
    part->free = type->available;
}

/* ---- the whole ---- */

static GHashTable *
part_owners(const vg_inventory *inventory)
{
    GHashTable *owners = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < inventory->vms->len; i++) {
        struct vg_inv_vm *vm = inventory->vms->pdata[i];
        for (guint k = 0; k < vm->devices->len; k++)
            g_hash_table_insert(owners, ((struct vg_inv_device *)vm->devices->pdata[k])->address,
                                vm);
    }
    return owners;
}

GPtrArray *
vg_gpu_parts(const vg_inventory *inventory, const GPtrArray *taken)
{
    g_autoptr(GHashTable) owners = part_owners(inventory);
    const struct part_list list = {g_ptr_array_new_with_free_func(gpu_part_free), taken, owners};

    for (guint i = 0; i < inventory->gpus->len; i++) {
        const struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        part_judge_whole(&list, gpu,
                         part_add(&list, VG_GPU_PART_WHOLE, gpu, gpu->device, gpu->pci_id));
        for (guint k = 0; k < gpu->functions->len; k++)
            part_add_function(&list, gpu, gpu->functions->pdata[k]);
        for (guint k = 0; k < gpu->vfs->len; k++)
            part_add_vf(&list, gpu, gpu->vfs->pdata[k]);
        for (guint k = 0; k < gpu->mdevs->len; k++)
            part_add_mdev(&list, gpu, gpu->mdevs->pdata[k]);
        for (guint k = 0; k < gpu->mdev_types->len; k++)
            part_add_room(&list, gpu, gpu->mdev_types->pdata[k]);
    }
    return list.parts;
}

/* ---- the devices of VMs ---- */

static void
part_set_text(char **member, const char *value)
{
    g_free(*member);
    *member = g_strdup(value);
}

static const char *
part_name_function(const vg_inventory *inventory, const struct vg_gpu_part *part)
{
    for (guint i = 0; i < inventory->gpus->len; i++) {
        const struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        for (guint k = 0; k < gpu->functions->len; k++) {
            const struct vg_inv_function *function = gpu->functions->pdata[k];
            if (strcmp(function->address, part->address) == 0)
                return function->what;
        }
    }
    return NULL;
}

static void
part_describe_device(const vg_inventory *inventory, const struct vg_gpu_part *part,
                     struct vg_inv_device *device)
{
    const bool is_function = part->kind == VG_GPU_PART_FUNCTION;

    part_set_text(&device->parent, part->kind == VG_GPU_PART_WHOLE ? NULL : part->gpu);
    part_set_text(&device->gpu_type, is_function ? NULL : part->type);
    part_set_text(&device->mdev_type, part->kind == VG_GPU_PART_MDEV ? part->type : NULL);
    part_set_text(&device->function, is_function ? part_name_function(inventory, part) : NULL);
    device->is_gpu = !is_function;
}

void
vg_gpu_parts_assign_vms(vg_inventory *inventory)
{
    g_autoptr(GPtrArray) parts = vg_gpu_parts(inventory, NULL);
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < parts->len; i++) {
        struct vg_gpu_part *part = parts->pdata[i];
        if (part->address)
            g_hash_table_insert(known, part->address, part);
    }
    for (guint i = 0; i < inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = inventory->vms->pdata[i];
        for (guint k = 0; k < vm->devices->len; k++) {
            struct vg_inv_device *device = vm->devices->pdata[k];
            const struct vg_gpu_part *part = g_hash_table_lookup(known, device->address);
            if (part)
                part_describe_device(inventory, part, device);
        }
    }
}

/* ---- types ---- */

bool
vg_gpu_type_is_whole(const char *type)
{
    for (size_t i = 0; i < strlen("0000:0000"); i++)
        if (i == 4 ? type[i] != ':' : !g_ascii_isxdigit(type[i]))
            return false;
    return type[strlen("0000:0000")] == '\0';
}

char *
vg_gpu_type_trait(const char *type)
{
    char *trait = g_strconcat("CUSTOM_", type, NULL);

    for (char *at = trait; *at; at++)
        *at = g_ascii_isalnum(*at) ? g_ascii_toupper(*at) : '_';
    return trait;
}
