/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes for programs of OpenCL where the host lets this VM use a GPU by a vgpu-proxy: two files
 * beside the socket of guest/opencl-hub.h, which the library reads where there is no vendor of
 * OpenCL (opencl/icd/vendor.h). They are gone when the guest is started anew, and the host tells it
 * again. Belongs to one thread.
 */
#ifndef VG_GUEST_PROXY_NOTE_H
#define VG_GUEST_PROXY_NOTE_H

#include <stdbool.h>

/* Notes the place, like "proxy:tcp:192.168.122.1:7000", and the token that is shown there; an empty
 * place: there is none any more. root is as for vg_guest_devices_read(). Returns 0, or an errno,
 * and says whether anything was another. */
int vg_guest_proxy_note(const char *root, const char *at, const char *token, bool *ret_changed);

/* Reads the place, which the caller frees; NULL if none is noted. */
char *vg_guest_proxy_noted(const char *root);

#endif
