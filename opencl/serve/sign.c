/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/sign.h"

#include <string.h>

#include "opencl/base/signed.h"
#include "opencl/icd/entries.h"
#include "opencl/serve/private.h"
#include "opencl/serve/turn.h"

#define SIGN_TEXT_MAX 4096 /* maximum size of a device name, and of options, in bytes */

static void
sign_add_device(struct vg_sha256 *hash, cl_device_id device, cl_device_info param)
{
    char text[SIGN_TEXT_MAX];
    size_t size = 0;

    if (vg_cl_dispatch.clGetDeviceInfo(device, param, sizeof text, text, &size) != CL_SUCCESS ||
        size > sizeof text)
        size = 0;
    vg_sha256_add_text(hash, text, size);
}

static void
sign_digest_device(cl_device_id device, unsigned char digest[VG_SHA256_SIZE])
{
    struct vg_sha256 hash;

    vg_sha256_begin(&hash);
    sign_add_device(&hash, device, CL_DEVICE_VENDOR);
    sign_add_device(&hash, device, CL_DEVICE_NAME);
    sign_add_device(&hash, device, CL_DEVICE_VERSION);
    sign_add_device(&hash, device, CL_DRIVER_VERSION);
    vg_sha256_end(&hash, digest);
}

static void
sign_digest_options(cl_program program, cl_device_id device, unsigned char digest[VG_SHA256_SIZE])
{
    char text[SIGN_TEXT_MAX];
    struct vg_sha256 hash;
    size_t size = 0;

    if (vg_cl_dispatch.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text,
                                             text, &size) != CL_SUCCESS ||
        size > sizeof text)
        size = 0;
    vg_sha256_begin(&hash);
    vg_sha256_add_text(&hash, text, size);
    vg_sha256_end(&hash, digest);
}

/* Writes what the proxy signs: everything except the signature. */
static void
sign_digest(const unsigned char *binary, size_t size, const struct vg_signed *end,
            unsigned char digest[VG_SHA256_SIZE])
{
    struct vg_sha256 hash;

    vg_sha256_begin(&hash);
    vg_sha256_add_text(&hash, binary, size);
    vg_sha256_add(&hash, end, offsetof(struct vg_signed, mac));
    vg_sha256_end(&hash, digest);
}

size_t
vg_serve_sign_room(const struct vg_serve *serve)
{
    return serve->turn ? sizeof(struct vg_signed) : 0;
}

void
vg_serve_sign(struct vg_serve *serve, cl_program program, cl_device_id device,
              unsigned char *binary, size_t size)
{
    struct vg_signed end = {.mac = {0}};
    unsigned char digest[VG_SHA256_SIZE];

    memcpy(end.magic, VG_SIGNED_MAGIC, sizeof end.magic);
    sign_digest_device(device, end.device);
    sign_digest_options(program, device, end.options);
    sign_digest(binary, size, &end, digest);
    /* Without the proxy, the binary is returned as one that will not be accepted. */
    if (!vg_serve_turn_sign(serve->turn, digest, end.mac))
        memset(end.mac, 0, sizeof end.mac);
    memcpy(binary + size, &end, sizeof end);
}

bool
vg_serve_is_signed(struct vg_serve *serve, cl_device_id device, const unsigned char *binary,
                   size_t size)
{
    const size_t bare = vg_signed_bare_size(binary, size);
    unsigned char digest[VG_SHA256_SIZE], mac[VG_SHA256_SIZE], other = 0;
    struct vg_signed end;

    if (!serve->turn || bare == size || !device)
        return false;
    memcpy(&end, binary + bare, sizeof end);
    sign_digest_device(device, digest);
    if (memcmp(digest, end.device, sizeof digest) != 0)
        return false;
    sign_digest(binary, bare, &end, digest);
    if (!vg_serve_turn_sign(serve->turn, digest, mac))
        return false;
    for (size_t i = 0; i < sizeof mac; i++)
        other |= mac[i] ^ end.mac[i];
    return other == 0;
}

void
vg_serve_sign_info(const struct vg_serve *serve, cl_program_info param,
                   const struct vg_serve_value *value)
{
    size_t has = value->has < value->size ? value->has : value->size;

    if (param != CL_PROGRAM_BINARY_SIZES || !value->bytes)
        return;
    for (size_t at = 0, size; at + sizeof size <= has; at += sizeof size) {
        memcpy(&size, (unsigned char *)value->bytes + at, sizeof size);
        size += size ? vg_serve_sign_room(serve) : 0;
        memcpy((unsigned char *)value->bytes + at, &size, sizeof size);
    }
}
