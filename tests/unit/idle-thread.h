/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that does nothing, for what wants one to beat. Group fixtures of cmocka make and end it.
 */
#ifndef VG_TESTS_UNIT_IDLE_THREAD_H
#define VG_TESTS_UNIT_IDLE_THREAD_H

#include "base/thread.h"

extern vg_thread *idle_thread;

int idle_thread_start(void **state);
int idle_thread_stop(void **state);

#endif
