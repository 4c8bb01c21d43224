/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the doctor's rows on this machine's cards for VMs: reasons why the kernel could not assign a
 * card.
 */
#include "config.h"

#include <string.h>

#include "cli/doctor.h"
#include "host/gpu-cards.h"

#define DEVICES   "/sys/bus/pci/devices"
#define CARDS_MAX 64

struct cards_view {
    json_object *checks;
    const char *root;
    const char *address; /* the card's address */
    char *what;          /* the name of the card's row */
};

/* Returns the content of a PCI function's file, or "". */
static char *
cards_read(const char *root, const char *address, const char *file)
{
    g_autofree char *path = g_strconcat(root, DEVICES "/", address, "/", file, NULL);
    char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) ? g_strchomp(text) : g_strdup("");
}

/* Returns the last component of a PCI function's link, or NULL if it does not exist. */
static char *
cards_link(const char *root, const char *address, const char *link)
{
    g_autofree char *path = g_strconcat(root, DEVICES "/", address, "/", link, NULL);
    g_autofree char *to = g_file_read_link(path, NULL);

    return to ? g_path_get_basename(to) : NULL;
}

static int
cards_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists a directory below a PCI function, sorted. The list is empty if the directory does not
 * exist. */
static GPtrArray *
cards_list(const char *root, const char *address, const char *below)
{
    g_autofree char *path =
        g_strconcat(root, DEVICES, address ? "/" : "", address ? address : "", below, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    while (dir && (name = g_dir_read_name(dir)))
        g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_sort(names, cards_compare);
    return names;
}

/* Returns whether a function prevents the assignment of a card in its IOMMU group: it is bound to a
 * host driver and would not be assigned with the card. Bridges never prevent it, nor do audio and
 * USB functions in the card's slot. */
static bool
cards_is_neighbour(const struct cards_view *view, const char *other, const char *driver)
{
    g_autofree char *class = cards_read(view->root, other, "class");
    const bool same_slot = strncmp(view->address, other, strlen("0000:00:00.")) == 0;

    if (strcmp(view->address, other) == 0 || !driver || strcmp(driver, "vfio-pci") == 0 ||
        g_str_has_prefix(class, "0x06"))
        return false;
    return !same_slot || !(g_str_has_prefix(class, "0x04") || g_str_has_prefix(class, "0x0c03"));
}

/* Adds a row for the first such function. Returns false if there is none. */
static bool
cards_add_neighbour(const struct cards_view *view, const char *group)
{
    g_autoptr(GPtrArray) others = cards_list(view->root, view->address, "/iommu_group/devices");

    for (unsigned i = 0; i < others->len; i++) {
        const char *other = others->pdata[i];
        g_autofree char *driver = cards_link(view->root, other, "driver");
        if (!cards_is_neighbour(view, other, driver))
            continue;
        g_autofree char *name = g_strdelimit(g_strdup(other), ":.", '_');
        g_autofree char *mend = g_strdup_printf("virsh nodedev-detach pci_%s", name);
        vg_doctor_add(view->checks, view->what, VG_HEALTH_LACKS, mend,
                      "%s, bound to %s, is in the same IOMMU group, %s; a VM gets the entire "
                      "group, and the host would lose that device",
                      other, driver, group);
        return true;
    }
    return false;
}

/* Returns the number of mediated devices that could still be created, or -1 if the card does not
 * support any. */
static int64_t
cards_count_room(const struct cards_view *view)
{
    g_autoptr(GPtrArray) types = cards_list(view->root, view->address, "/mdev_supported_types");
    int64_t room = types->len > 0 ? 0 : -1;

    for (unsigned i = 0; i < types->len; i++) {
        g_autofree char *file = g_strdup_printf("mdev_supported_types/%s/available_instances",
                                                (const char *)types->pdata[i]);
        g_autofree char *text = cards_read(view->root, view->address, file);
        room += g_ascii_strtoll(text, NULL, 10);
    }
    return room;
}

static void
cards_check(const struct cards_view *view)
{
    g_autofree char *group = cards_link(view->root, view->address, "iommu_group");
    g_autofree char *driver = cards_link(view->root, view->address, "driver");
    g_autofree char *look = g_strdup_printf("lspci -k -s %s", view->address);
    const int64_t room = cards_count_room(view);

    if (!group && room < 0)
        vg_doctor_add(view->checks, view->what, VG_HEALTH_LACKS,
                      "journalctl -k -g 'DMAR|AMD-Vi|IOMMU'",
                      "the kernel has no IOMMU for it, so no VM can use it: enable VT-d or AMD-Vi "
                      "in the firmware, and on Intel hosts add intel_iommu=on to the kernel's "
                      "command line");
    else if (group && cards_add_neighbour(view, group))
        return;
    else if (!driver)
        vg_doctor_add(view->checks, view->what, VG_HEALTH_LACKS, look,
                      "no driver is bound to it: a VM can use the whole GPU, but no driver "
                      "measures or partitions it; the command shows which kernel modules can");
    else if (room == 0)
        vg_doctor_add(view->checks, view->what, VG_HEALTH_LACKS, "mdevctl list",
                      "it has no capacity for another mediated device of any type; another VM "
                      "needs a mediated device that exists and is free");
    else
        vg_doctor_add(view->checks, view->what, VG_HEALTH_OK, NULL,
                      "bound to %s; the host uses no other device in its IOMMU group, %s", driver,
                      group ? group : "for it has none");
}

static bool
cards_is_display(const struct cards_view *view)
{
    g_autofree char *vendor = cards_read(view->root, view->address, "vendor");
    g_autofree char *device = cards_read(view->root, view->address, "device");
    g_autofree char *id = g_strdup_printf("%04x:%04x", (unsigned)g_ascii_strtoull(vendor, NULL, 16),
                                          (unsigned)g_ascii_strtoull(device, NULL, 16));

    return vg_gpu_cards_is_display(id);
}

void
vg_doctor_read_cards(json_object *checks, const char *root)
{
    g_autoptr(GPtrArray) functions = cards_list(root, NULL, "");
    unsigned n = 0;

    for (unsigned i = 0; i < functions->len && n < CARDS_MAX; i++) {
        struct cards_view view = {checks, root, functions->pdata[i], NULL};
        g_autofree char *class = cards_read(root, view.address, "class");
        g_autofree char *physical = cards_link(root, view.address, "physfn");
        if (physical || !(g_str_has_prefix(class, "0x03") || g_str_has_prefix(class, "0x12")) ||
            cards_is_display(&view))
            continue;
        n++;
        view.what = g_strdup_printf("GPU %s", view.address);
        cards_check(&view);
        g_free(view.what);
    }
}
