/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that calls functions of libcuda for fake-cuda-worker.c. Tests give its file the names
 * of libraries that do so: the watch reads the name of the file that a call returns to.
 */
#include "config.h"

#include <stdint.h>

typedef int called_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t);

int fake_call(called_fn *function, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);
int
fake_call(called_fn *function, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
{
    /* What is done with the result has the call return to here. */
    volatile int result = function(a, b, c, d);

    return result;
}
