/* SPDX-License-Identifier: Apache-2.0
 *
 * Where functions of a shared library begin in its file, for uprobes. The file may be hostile (it
 * is a container's) and may change meanwhile. Any process of the agent.
 */
#ifndef VG_GUEST_ELF_H
#define VG_GUEST_ELF_H

#include <stddef.h>
#include <stdint.h>

/* Looks n functions up among the dynamic symbols of a 64-bit library of this byte order.
 * ret_offsets: n of them, 0 for a function that it does not define. Returns 0, or -1 if fd is no
 * such library. */
int vg_guest_elf_find(int fd, const char *const *names, size_t n, uint64_t *ret_offsets);

#endif
