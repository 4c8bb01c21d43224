/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL that computes nothing, and distrusts who calls it: whatever it is given has to
 * be a handle of its own that is there, memory that can be read, or memory that can be written to,
 * for as long as the standard says. A command is done when it is waited for, or when it is told so,
 * and touches the program's memory no sooner.
 */
#ifndef VG_TESTS_FUZZ_OPENCL_VENDOR_H
#define VG_TESTS_FUZZ_OPENCL_VENDOR_H

#include "opencl/track/object.h"

#define FAKE_MEM_MAX (1 << 20) /* bytes of a memory object */

/* Returns its functions. */
const cl_icd_dispatch *fake_table(void);

/* Every byte is read. */
void fake_read(const void *bytes, size_t size);

/* Does all commands that wait for nothing. */
void fake_settle(void);

/* Ends all events of the program's. */
void fake_settle_all(void);

/* Has the N-th call from now on fail for a lack of resources, if it may; 0: none. */
void fake_fail_at(unsigned n);

/* Returns how many objects there are that were not released, and tells of them. */
unsigned fake_objects_n(void);

/* Whether who calls may have code of his own, and so pass what is no handle to a kernel of it. */
extern bool fake_is_trusting;

/* What waits until IS_DONE says so; false: it cannot wait here. */
extern bool (*fake_wait)(bool (*is_done)(const void *), const void *data);

#endif
