/* SPDX-License-Identifier: Apache-2.0
 *
 * Names the main thread of a program like a vCPU's of QEMU, so that the program is measured as one:
 *     LD_PRELOAD=.../as-vcpu.so PROGRAM ARGUMENT...
 * What it forks inherits the name.
 */
#include "config.h"

#include <sys/prctl.h>

__attribute__((constructor)) static void
name_thread(void)
{
    prctl(PR_SET_NAME, "CPU 0/TCG", 0, 0, 0);
}
