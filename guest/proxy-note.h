/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes for OpenCL programs if the host lets this VM use a GPU through a vgpu-proxy: two files in
 * the directory of the socket of guest/opencl-hub.h. The library reads them if there is no OpenCL
 * vendor (opencl/icd/vendor.h). They do not survive a restart of the guest; the host then sends
 * them again. Belongs to one thread.
 */
#ifndef VG_GUEST_PROXY_NOTE_H
#define VG_GUEST_PROXY_NOTE_H

#include <stdbool.h>

/* Stores the place, such as "proxy:tcp:192.168.122.1:7000", and the token for it. An empty place
 * removes the notes. root is as in vg_guest_devices_read(). Returns 0, or an errno, and sets
 * *ret_changed. */
int vg_guest_proxy_note(const char *root, const char *at, const char *token, bool *ret_changed);

/* Reads the place, which the caller frees; NULL if none is stored. */
char *vg_guest_proxy_noted(const char *root);

#endif
