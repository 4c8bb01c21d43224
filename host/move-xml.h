/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the XML of a running domain what it requires of another host, and any obstacles to a
 * move to any host. Pure; any thread.
 */
#ifndef VG_HOST_MOVE_XML_H
#define VG_HOST_MOVE_XML_H

#include <stdbool.h>

#include <glib.h>

typedef struct vg_move_needs vg_move_needs;
struct vg_move_needs {
    char *virt_type; /* "kvm" */
    char *arch;
    char *machine; /* "pc-q35-7.2" */
    char *emulator;
    char *cpu_xml;      /* the <cpu> element; NULL if the domain has none */
    bool host_cpu;      /* the domain uses the host's CPU model */
    bool huge_pages;    /* the domain's memory is not counted as free memory */
    GPtrArray *paths;   /* struct vg_path_need, in the order of its disks, then boot files */
    GPtrArray *objects; /* struct vg_move_object (host/move-objects.h) */
    GPtrArray *news;    /* char *, paths of elements unknown to this version of vgpud */
    GPtrArray *disks;   /* char *, the domain's names of its disks, "vda" */
};

/* Returns NULL and sets *err if the XML is not a domain. */
vg_move_needs *vg_move_needs_read(const char *xml, GError **err);
void vg_move_needs_free(vg_move_needs *needs); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_needs, vg_move_needs_free)

/* Appends a sentence (char *) to problems for each device with one of these aliases
 * (NULL-terminated) that cannot be unplugged, or that cannot be recognised by its alias after it is
 * plugged in again. Returns -1 and sets *err if the XML is not a domain. */
int vg_move_xml_problems(const char *xml, const char *const *off, GPtrArray *problems,
                         GError **err);

#endif
