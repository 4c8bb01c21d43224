/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives QEMU a PCI device for each mediated device of fake-mdev, although the kernel has none. It
 * is preloaded into QEMU and libvirtd of the lab (lab.sh, guest-qemu). /dev/vfio/vfio and
 * /dev/vfio/GROUP are plain files. This library answers the requests of linux/vfio.h for them. The
 * device has only a configuration space, without BARs or interrupts, and nothing is mapped.
 */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/vfio.h>

#define CONFIG_BYTES 256
/* A display controller without a driver in the guest. */
#define VENDOR_ID 0x1234
#define DEVICE_ID 0x4d44
#define CLASS     0x0380

static void
fake_vfio_put16(uint8_t *config, unsigned at, unsigned value)
{
    config[at] = (uint8_t)value;
    config[at + 1] = (uint8_t)(value >> 8);
}

/* Returns a file with the configuration space, or -1. QEMU reads and writes it at the offset of the
 * region, which is 0. */
static int
fake_vfio_open_device(void)
{
    uint8_t config[CONFIG_BYTES] = {0};
    int fd = memfd_create("fake-vfio", MFD_CLOEXEC);

    fake_vfio_put16(config, 0x00, VENDOR_ID);
    fake_vfio_put16(config, 0x02, DEVICE_ID);
    fake_vfio_put16(config, 0x0a, CLASS);
    if (fd >= 0 && pwrite(fd, config, sizeof(config), 0) != (ssize_t)sizeof(config)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int
fake_vfio_tell_region(struct vfio_region_info *info)
{
    if (info->index >= VFIO_PCI_NUM_REGIONS) {
        errno = EINVAL;
        return -1;
    }
    const int is_config = info->index == VFIO_PCI_CONFIG_REGION_INDEX;
    info->flags = is_config ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0;
    info->cap_offset = 0;
    info->size = is_config ? CONFIG_BYTES : 0;
    info->offset = 0;
    return 0;
}

static int
fake_vfio_tell_irq(struct vfio_irq_info *info)
{
    info->flags = 0;
    info->count = 0;
    return 0;
}

static int
fake_vfio_tell_iommu(struct vfio_iommu_type1_info *info)
{
    info->flags = VFIO_IOMMU_INFO_PGSIZES;
    info->iova_pgsizes = 4096;
    return 0;
}

static int
fake_vfio_answer(unsigned long request, void *argument)
{
    switch (request) {
    case VFIO_GET_API_VERSION:
        return VFIO_API_VERSION;
    case VFIO_CHECK_EXTENSION:
        return (uintptr_t)argument == VFIO_TYPE1v2_IOMMU;
    case VFIO_GROUP_GET_STATUS:
        ((struct vfio_group_status *)argument)->flags = VFIO_GROUP_FLAGS_VIABLE;
        return 0;
    case VFIO_GROUP_GET_DEVICE_FD:
        return fake_vfio_open_device();
    case VFIO_DEVICE_GET_INFO: {
        struct vfio_device_info *info = argument;
        info->flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
        info->num_regions = VFIO_PCI_NUM_REGIONS;
        info->num_irqs = VFIO_PCI_NUM_IRQS;
        return 0;
    }
    case VFIO_DEVICE_GET_REGION_INFO:
        return fake_vfio_tell_region(argument);
    case VFIO_DEVICE_GET_IRQ_INFO:
        return fake_vfio_tell_irq(argument);
    case VFIO_IOMMU_GET_INFO:
        return fake_vfio_tell_iommu(argument);
    case VFIO_SET_IOMMU:
    case VFIO_GROUP_SET_CONTAINER:
    case VFIO_GROUP_UNSET_CONTAINER:
    case VFIO_DEVICE_SET_IRQS:
    case VFIO_DEVICE_RESET:
    case VFIO_IOMMU_MAP_DMA:
    case VFIO_IOMMU_UNMAP_DMA:
        return 0;
    default:
        errno = ENOTTY;
        return -1;
    }
}

int
ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (_IOC_TYPE(request) == VFIO_TYPE && _IOC_NR(request) >= VFIO_BASE)
        return fake_vfio_answer(request, argument);
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

/* libvirtd raises the limit of locked memory for such a QEMU. Nothing here needs that, and a
 * container may lack the capability for it. */
int
prlimit64(pid_t pid, enum __rlimit_resource resource, const struct rlimit64 *limit,
          struct rlimit64 *old)
{
    return (int)syscall(SYS_prlimit64, pid, resource, resource == RLIMIT_MEMLOCK ? NULL : limit,
                        old);
}

int
setrlimit64(enum __rlimit_resource resource, const struct rlimit64 *limit)
{
    return prlimit64(0, resource, limit, NULL);
}
