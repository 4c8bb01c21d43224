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

/* Stores up to max mappings in ret_maps. Returns the number that it found. */
size_t vg_cuda_maps_read(const char *root, pid_t pid, struct vg_cuda_map *ret_maps, size_t max);

/* Stores the name of the file whose code is at this address, without its directory, or an empty
 * text. */
void vg_cuda_maps_name(const char *root, pid_t pid, uint64_t address, char *ret, size_t size);

/* Libraries that determine which advice is useful. */
enum vg_cuda_library {
    VG_CUDA_LIBRARY_NCCL = 1 << 0,
    VG_CUDA_LIBRARY_TORCH = 1 << 1,
    VG_CUDA_LIBRARY_XLA = 1 << 2,
};
/* Returns which of them a process has mapped, as bits. */
unsigned int vg_cuda_maps_libraries(const char *root, pid_t pid);
/* Returns which of them a file of this name is, or 0. */
unsigned int vg_cuda_maps_library(const char *name);

/* Finds the device and inode numbers of a file as shown in /proc/PID/maps, which on some file
 * systems differ from those of stat(). Returns 0, or an errno. */
int vg_cuda_maps_identify(const char *path, uint64_t *ret_device, uint64_t *ret_inode);

/* Returns whether the last part of this path is libcuda.so, whatever its version. */
bool vg_cuda_maps_is_libcuda(const char *path);

#endif
