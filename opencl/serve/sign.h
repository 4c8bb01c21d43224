/* SPDX-License-Identifier: Apache-2.0
 *
 * The signatures of binaries that a client's process hands out, by which it, or another one of the
 * same VM, accepts them later. This process has no key: the proxy makes each signature (turn.h). It
 * covers the VM, the device with its vendor and driver, the options of the build, and the binary.
 */
#ifndef VG_OPENCL_SERVE_SIGN_H
#define VG_OPENCL_SERVE_SIGN_H

#include "opencl/serve/serve.h"

/* Returns how many bytes are put behind a binary that is not empty. */
size_t vg_serve_sign_room(const struct vg_serve *serve);

/* Puts them behind the SIZE bytes at BINARY, which PROGRAM has for DEVICE. */
void vg_serve_sign(struct vg_serve *serve, cl_program program, cl_device_id device,
                   unsigned char *binary, size_t size);

/* Returns whether the proxy, or one with the same key, has signed BINARY for DEVICE and this VM. */
bool vg_serve_is_signed(struct vg_serve *serve, cl_device_id device, const unsigned char *binary,
                        size_t size);

/* Adds to the sizes of binaries, of which PARAM may ask, what is put behind them. */
void vg_serve_sign_info(const struct vg_serve *serve, cl_program_info param,
                        const struct vg_serve_value *value);

#endif
