/* SPDX-License-Identifier: Apache-2.0
 *
 * UNDER_SANITIZER: is this built with ASan or TSan? They keep freed memory, so that what a process
 * holds says nothing, and take several times as long.
 */
#ifndef VG_TESTS_UNIT_SANITIZER_H
#define VG_TESTS_UNIT_SANITIZER_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
# define UNDER_SANITIZER true
#elif defined(__has_feature)
# define UNDER_SANITIZER (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
# define UNDER_SANITIZER false
#endif

#endif
