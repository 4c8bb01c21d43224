/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where functions of a shared library start in its file, for uprobes. The file may be
 * hostile (a container's) and may change during the call. Any process of the agent.
 */
#ifndef VG_GUEST_ELF_H
#define VG_GUEST_ELF_H

#include <stddef.h>
#include <stdint.h>

/* Looks up n functions among the dynamic symbols of a 64-bit library of this machine's byte order.
 * ret_offsets has n elements, which are 0 for functions that the library does not define. Returns
 * 0, or -1 if fd is not such a library. */
int vg_guest_elf_find(int fd, const char *const *names, size_t n, uint64_t *ret_offsets);

#endif
