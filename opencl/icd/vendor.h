/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendors' libraries. They are found in a folder that only this library reads, loaded when the
 * program first requests platforms, and unloaded while the program is stopped.
 */
#ifndef VG_OPENCL_ICD_VENDOR_H
#define VG_OPENCL_ICD_VENDOR_H

#include "opencl/track/object.h"

#define VG_CL_PLACE 160

struct vg_wire_client;

struct vg_cl_vendor {
    char *path;                  /* as in the .icd file; NULL for the layer's own loader */
    char place[VG_CL_PLACE];     /* the proxy that currently replaces the vendor; empty if none */
    void *library;               /* from dlopen(), or of a proxy (wire/); NULL while unloaded */
    struct vg_cl_track **tracks; /* one per platform */
    cl_uint n_tracks;
    bool is_inherited; /* a proxy, with the link of the program that forked this process */
};

/* Returns the vendor's location: its proxy or its library. */
static inline const char *
vg_cl_vendor_where(const struct vg_cl_vendor *vendor)
{
    return vendor->place[0] ? vendor->place : vendor->path;
}

/* Loads all vendors, with objects for their platforms and devices if these are wrapped. Call
 * once. */
void vg_cl_vendors_load(bool are_wrapped);

/* Returns the vendor's own platforms, to be freed, or NULL if it has no platform. */
cl_platform_id *vg_cl_vendor_platforms(const struct vg_cl_vendor *vendor, cl_uint *n);

/* Returns the vendor's function with this name, which may belong to an extension, or NULL. */
void *vg_cl_vendor_address(const struct vg_cl_vendor *vendor, const char *name);

/* Makes TARGET, a loader's own vendor that cannot be unloaded, the only one. Call before
 * vg_cl_vendors_load(). */
void vg_cl_vendors_set_target(const cl_icd_dispatch *target);

/* Excludes proxies, because this process is a proxy and might become its own client. Call before
 * they are loaded. */
void vg_cl_vendors_forbid_proxies(void);

struct vg_cl_vendor *vg_cl_vendors_get(cl_uint *n);

/* Loads VENDOR again. It must have the same platforms and devices in the same order; a proxy must
 * have platforms of the same names. Returns NULL, or the reason for failure. */
const char *vg_cl_vendor_reload(struct vg_cl_vendor *vendor);

/* Returns which of a proxy's N PLATFORMS replaces TRACK of VENDOR, or NULL if it has none. */
cl_platform_id vg_cl_vendor_find_platform(const struct vg_cl_vendor *vendor,
                                          const struct vg_cl_track *track,
                                          const cl_platform_id *platforms, cl_uint n);

/* Connects to the proxy PLACE before the program is sent there. The next vendor that is loaded from
 * PLACE takes this link. Returns NULL with the reason in *WHY. From the thread that reloads. */
struct vg_wire_client *vg_cl_vendors_reach(const char *place, const char **why);

/* Disconnects the link from vg_cl_vendors_reach() if no vendor has taken it. */
void vg_cl_vendors_unreach(void);

/* Replaces all vendors that are loaded from now on with a proxy, except vendors of processors that
 * the proxy does not have. PLACE is written as in an .icd file. If it is empty, each vendor's own
 * library is used again. Returns false if PLACE is not valid. */
bool vg_cl_vendors_send(const char *place);

/* Returns the proxy set by vg_cl_vendors_send(), or an empty string if none is. */
const char *vg_cl_vendors_place(void);

/* Returns whether the program's own files or variables configure a vendor as a proxy. */
bool vg_cl_vendors_are_remote(void);

/* Returns whether the link to a vendor that is a proxy is broken, or seems to be. */
bool vg_cl_vendors_are_cut(void);

/* Lets reloaded proxies take any amount of time from now on, because the program resumes there. */
void vg_cl_vendors_stay(void);

/* Returns why the link to a proxy is permanently broken, or NULL if no link is. */
const char *vg_cl_vendors_why(void);

/* In a process that the program forked: records which vendors are proxies. */
void vg_cl_vendors_inherit(void);

/* Unloads VENDOR's library. Its objects must have been released before. */
void vg_cl_vendor_unload(struct vg_cl_vendor *vendor);

#endif
