/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the processes that have libcuda mapped, from /proc. Any process of the agent.
 */
#ifndef VG_GUEST_CUDA_MAPS_H
#define VG_GUEST_CUDA_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A mapping of libcuda's code in a process. */
struct vg_cuda_map {
    uint64_t begin, end;
    uint64_t device, inode;
};

/* Puts up to max mappings into ret_maps. Returns how many it found. */
size_t vg_cuda_maps_read(const char *root, pid_t pid, struct vg_cuda_map *ret_maps, size_t max);

/* Finds the numbers under which the kernel shows a file in /proc/PID/maps, which on some file
 * systems are not those of stat(). Returns 0, or an errno. */
int vg_cuda_maps_identify(const char *path, uint64_t *ret_device, uint64_t *ret_inode);

/* Returns whether the last part of this path is libcuda.so, whatever its version. */
bool vg_cuda_maps_is_libcuda(const char *path);

#endif
