/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendors' libraries: found in a folder that only this library reads, loaded when the program
 * first asks for platforms, and let go for a while.
 */
#ifndef VG_OPENCL_ICD_VENDOR_H
#define VG_OPENCL_ICD_VENDOR_H

#include "opencl/track/object.h"

#define VG_CL_PLACE 160

struct vg_cl_vendor {
    char *path;                  /* as the .icd file names it; NULL: the layer's own loader */
    char place[VG_CL_PLACE];     /* the proxy that stands for it at the moment; empty: none does */
    void *library;               /* of dlopen(), or a proxy's (wire/); NULL while it is let go */
    struct vg_cl_track **tracks; /* one for each platform */
    cl_uint n_tracks;
    bool is_inherited; /* a proxy, with the link of the program that forked this process */
};

/* Returns where VENDOR is: its proxy, or its library. */
static inline const char *
vg_cl_vendor_where(const struct vg_cl_vendor *vendor)
{
    return vendor->place[0] ? vendor->place : vendor->path;
}

/* Loads all vendors, with objects for their platforms and devices unless these are not wrapped.
 * Called once. */
void vg_cl_vendors_load(bool are_wrapped);

/* Returns the vendor's own platforms, to be freed; NULL if there is none. */
cl_platform_id *vg_cl_vendor_platforms(const struct vg_cl_vendor *vendor, cl_uint *n);

/* Returns the vendor's function of that name, which may be an extension's, or NULL. */
void *vg_cl_vendor_address(const struct vg_cl_vendor *vendor, const char *name);

/* Makes TARGET the only vendor: a loader's own, which cannot be let go. Before
 * vg_cl_vendors_load(). */
void vg_cl_vendors_set_target(const cl_icd_dispatch *target);

/* Leaves out proxies: this process is one, and might be its own client. Before they are loaded. */
void vg_cl_vendors_forbid_proxies(void);

struct vg_cl_vendor *vg_cl_vendors_get(cl_uint *n);

/* Loads VENDOR again: its platforms and their devices must be those that it had, in their order; or
 * a proxy must have platforms of those names. Returns NULL, or what is wrong. */
const char *vg_cl_vendor_reload(struct vg_cl_vendor *vendor);

/* Has a proxy stand for all vendors that are loaded again from now on, but for those of processors
 * that it has not got. PLACE is what an .icd file would name; empty: each is itself again. Returns
 * false if it is neither. */
bool vg_cl_vendors_send(const char *place);

/* Returns the proxy that stands for a vendor now, as vg_cl_vendors_send() was told; empty: none
 * does.
 */
const char *vg_cl_vendors_place(void);

/* Returns whether a vendor is a proxy of itself, as the program's own files or variables say. */
bool vg_cl_vendors_are_remote(void);

/* Returns whether the link to a vendor that is a proxy is broken, or seems to be. */
bool vg_cl_vendors_are_cut(void);

/* Has proxies that were loaded again take as long as they want from now on: the program goes on
 * there. */
void vg_cl_vendors_stay(void);

/* Returns why the link to a vendor that is a proxy is broken for good; NULL: none is. */
const char *vg_cl_vendors_why(void);

/* In a process that the program forked: notes which vendors are proxies. */
void vg_cl_vendors_inherit(void);

/* Lets VENDOR's library go. Its objects were released before. */
void vg_cl_vendor_unload(struct vg_cl_vendor *vendor);

#endif
