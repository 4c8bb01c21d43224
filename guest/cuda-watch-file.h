/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of the watch, for cuda-watch.c, which writes it, and cuda-watched.c, which reads it.
 */
#ifndef VG_GUEST_CUDA_WATCH_FILE_H
#define VG_GUEST_CUDA_WATCH_FILE_H

#include "guest/cuda-watch.h"

#define VG_CUDA_WATCH_PATH "/run/vgpu-guestd-cuda-watch"
/* The mark of this layout; another layout has another magic. The first layout had no histories. */
#define VG_CUDA_WATCH_MAGIC   "vgpu-watch 2"
#define VG_CUDA_WATCH_MAGIC_1 "vgpu-watch 1"

#endif
