/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses a line from the host into a request. docs/vgpud-guest.7 is the contract. Pure.
 */
#ifndef VG_GUEST_REQUEST_H
#define VG_GUEST_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/* The one version of the protocol that this agent speaks. */
#define VG_GUEST_VERSION 1
/* The minor version: from 1 on, messages have `programs` instead of `cuda`. */
#define VG_GUEST_MINOR        4
#define VG_GUEST_DEPTH_MAX    8
#define VG_GUEST_DEVICES_MAX  16
#define VG_GUEST_VERSIONS_MAX 16
/* The largest integer that every reader of JSON can hold. */
#define VG_GUEST_ID_MAX          ((int64_t)1 << 53)
#define VG_GUEST_DEADLINE_MS_MIN 100
#define VG_GUEST_DEADLINE_MS_MAX 3600000
/* The sizes in bytes, with the NUL, of "0000:00/02.1/00.0", which has a step for each bridge, and
 * of an address. */
#define VG_GUEST_PATH_MAX    128
#define VG_GUEST_ADDRESS_MAX 16
#define VG_GUEST_MESSAGE_MAX 256
/* The size in bytes, with the NUL, of "proxy:" and the path of a socket, or another address. */
#define VG_GUEST_PLACE_MAX 128
/* The place of programs that use no proxy, or whose own OpenCL is a proxy's. */
#define VG_GUEST_PLACE_DIRECT "direct"
/* The same for a token presented to a proxy, which has at least VG_GUEST_TOKEN_MIN bytes. */
#define VG_GUEST_TOKEN_MIN 16
#define VG_GUEST_TOKEN_MAX 65

/* The codes of errors, whose words are in docs/vgpud-guest.7. */
enum vg_guest_code {
    VG_GUEST_BAD_REQUEST,
    VG_GUEST_TOO_LONG,
    VG_GUEST_UNKNOWN_TYPE,
    VG_GUEST_BAD_VERSION,
    VG_GUEST_HELLO_FIRST,
    VG_GUEST_BUSY,
    VG_GUEST_ID_REUSED,
    VG_GUEST_BAD_STATE,
    VG_GUEST_NOT_FOUND,
    VG_GUEST_AMBIGUOUS,
    VG_GUEST_HOOK_FAILED,
    VG_GUEST_UNIT_FAILED,
    VG_GUEST_HELD,
    VG_GUEST_UNRELEASABLE,
    VG_GUEST_NO_MEMORY,
    VG_GUEST_CUDA_FAILED,
    VG_GUEST_OPENCL_FAILED,
    VG_GUEST_OTHER_GPU,
    VG_GUEST_UNBIND_FAILED,
    VG_GUEST_BIND_FAILED,
    VG_GUEST_TIMEOUT,
    VG_GUEST_CANCELLED,
    VG_GUEST_INTERNAL,
    VG_GUEST_CODE_MAX
};
const char *vg_guest_code_word(enum vg_guest_code code);

enum vg_guest_type {
    VG_GUEST_HELLO,
    VG_GUEST_PREPARE,
    VG_GUEST_RESUME,
    VG_GUEST_STATUS,
    VG_GUEST_CANCEL,
    VG_GUEST_SWITCH,
    VG_GUEST_PROXY,
    VG_GUEST_TYPE_MAX
};
const char *vg_guest_type_word(enum vg_guest_type type);

/* A description of a PCI function; members that were not given are empty or -1. */
struct vg_guest_match {
    char path[VG_GUEST_PATH_MAX];
    char address[VG_GUEST_ADDRESS_MAX];
    int vendor, device;
};

struct vg_guest_request {
    int64_t id;
    enum vg_guest_type type;
    /* For a hello, the best version that both sides speak, or 0. */
    int version;
    /* The time for the request, counted from its arrival. */
    int64_t deadline_ms;
    size_t n_devices;
    struct vg_guest_match devices[VG_GUEST_DEVICES_MAX];
    /* For a preparation: where OpenCL programs run in the meantime; empty for nowhere. For a
     * switch: where they resume. For `proxy`: where they find a GPU if the guest has none, and the
     * token for it. */
    char opencl_at[VG_GUEST_PLACE_MAX];
    char token[VG_GUEST_TOKEN_MAX];
};

struct vg_guest_fault {
    /* The id of the line, or 0 if none could be read. */
    int64_t id;
    enum vg_guest_code code;
    char message[VG_GUEST_MESSAGE_MAX];
};

/* Parses a line. Returns 0, or -1 and the fault. */
int vg_guest_request_parse(const char *text, size_t size, struct vg_guest_request *ret,
                           struct vg_guest_fault *ret_fault);

#endif
