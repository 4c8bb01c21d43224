/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over processes of any number in a table of a fixed size. Where there is no room, the process
 * with the least possible sum leaves, and the one that comes inherits that sum as its error
 * ("space- saving": Metwally, Agrawal, El Abbadi, Efficient Computation of Frequent and Top-k
 * Elements in Data Streams, 2005). In whatever order processes come, then:
 *
 *   - the true sum of a process in the table is at least ns, and at most ns + error_ns;
 *   - error_ns is at most the sum of all processes divided by the number of rows;
 *   - each process that had more than that is in the table.
 *
 * One thread at a time.
 */
#ifndef VG_MODEL_PROCESS_SUM_H
#define VG_MODEL_PROCESS_SUM_H

#include <glib.h>

#include "model/window.h"

/* Adds a process to the rows (struct vg_lost_process) of a sum, where processes of one name and
 * control group are one row. */
void vg_process_sum_add(GArray *rows, const struct vg_lost_process *more);

#endif
