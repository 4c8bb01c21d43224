/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of the binaries that a client's process hands out. With them, a process of the same
 * VM accepts the binaries later. This process has no key: the proxy makes each signature (turn.h).
 * It covers the VM, the device with its vendor and driver, the build options, and the binary.
 */
#ifndef VG_OPENCL_SERVE_SIGN_H
#define VG_OPENCL_SERVE_SIGN_H

#include "opencl/serve/serve.h"

/* Returns the size of the signature that follows each binary that is not empty. */
size_t vg_serve_sign_room(const struct vg_serve *serve);

/* Appends the signature to the SIZE bytes at BINARY, which PROGRAM has for DEVICE. */
void vg_serve_sign(struct vg_serve *serve, cl_program program, cl_device_id device,
                   unsigned char *binary, size_t size);

/* Returns whether BINARY has a signature for DEVICE and this VM, made by the proxy or another with
 * the same key. */
bool vg_serve_is_signed(struct vg_serve *serve, cl_device_id device, const unsigned char *binary,
                        size_t size);

/* Adds the size of the signatures to the sizes of binaries, if PARAM queries these. */
void vg_serve_sign_info(const struct vg_serve *serve, cl_program_info param,
                        const struct vg_serve_value *value);

#endif
