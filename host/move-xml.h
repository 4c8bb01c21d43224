/* SPDX-License-Identifier: Apache-2.0
 *
 * What the XML of a running domain says about moving it: what it needs of the other host, and what
 * stands in the way whatever that is. Pure; any thread.
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
    char *cpu_xml;    /* the <cpu> element; NULL: the domain asks for none */
    bool host_cpu;    /* its CPU is the host's own, whatever that is */
    bool huge_pages;  /* its memory is not of what is free */
    GPtrArray *files; /* char *: of its disks that are files and can be written to */
    GPtrArray *disks; /* char *: what the domain calls its disks, "vda" */
};

/* NULL and *err if it is no domain. */
vg_move_needs *vg_move_needs_read(const char *xml, GError **err);
void vg_move_needs_free(vg_move_needs *needs); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_needs, vg_move_needs_free)

/* Appends a sentence (char *) to problems for each thing that keeps one of the devices of these
 * aliases (NULL-terminated) from being unplugged, or from being known by its alias when it is on
 * again. -1 and *err if it is no domain. */
int vg_move_xml_problems(const char *xml, const char *const *off, GPtrArray *problems,
                         GError **err);

#endif
