/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory the program has allocated and not freed, also under ASan and TSan, which have an
 * allocator of their own.
 */
#ifndef VG_TESTS_USED_BYTES_H
#define VG_TESTS_USED_BYTES_H

#include <stddef.h>

#include <malloc.h>

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static inline size_t
used_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
                                                   : mallinfo2().uordblks;
}

#endif
