/* SPDX-License-Identifier: Apache-2.0
 *
 * Activity of the clients of one vgpu-proxy socket in a window. Plain data.
 */
#ifndef VG_MODEL_PROXY_USE_H
#define VG_MODEL_PROXY_USE_H

#include <stdbool.h>
#include <stdint.h>

#define VG_PROXY_USE_TEXT 128 /* bytes with the NUL; longer texts are left out */

struct vg_proxy_use {
    char proxy[VG_PROXY_USE_TEXT]; /* its control socket */
    /* why the proxy was not read in this window (the rest is empty then); empty on success */
    char problem[VG_PROXY_USE_TEXT];
    char socket[VG_PROXY_USE_TEXT];
    char address[VG_PROXY_USE_TEXT]; /* as in struct vg_proxy_socket */
    char vm[VG_PROXY_USE_TEXT];
    char gpu[VG_PROXY_USE_TEXT];
    int64_t gpus;
    int64_t gpu_memory_bytes;
    int64_t weight;
    int64_t configured_weight;
    int64_t memory_bytes;
    int64_t used_bytes;
    int64_t reserved_bytes;
    int64_t clients;
    bool is_known; /* false for the first reading: nothing is known about the time before it */
    /* fraction (0..1) of the time since the last reading during which its commands ran */
    double run;
    /* fraction (0..1) during which it wanted the GPU, and none of its clients had it */
    double lacked;
};

#endif
