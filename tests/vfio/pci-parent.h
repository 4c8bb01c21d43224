/* SPDX-License-Identifier: Apache-2.0
 *
 * Included by the kernel's sample drivers, which offer their types of mediated devices at a device
 * of their own; libvirt lists types of PCI functions only. With pci=0000:01:00.0 they offer them at
 * that function, as the driver of a real GPU does.
 */
#ifndef VG_TESTS_VFIO_PCI_PARENT_H
#define VG_TESTS_VFIO_PCI_PARENT_H

#include <linux/module.h>
#include <linux/pci.h>

static char *pci;
module_param(pci, charp, 0444);

/* Returns the function that the parameter names, or else the driver's own device. */
static struct device *
pci_parent(struct device *own)
{
    struct device *found = pci ? bus_find_device_by_name(&pci_bus_type, NULL, pci) : NULL;

    return found ? found : own;
}

#endif
