/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over any number of processes in a table of fixed size. If the table is full, a new process
 * replaces the process with the smallest possible sum, and inherits that sum as its error
 * ("space-saving": Metwally, Agrawal, El Abbadi, Efficient Computation of Frequent and Top-k
 * Elements in Data Streams, 2005). The following holds for any order of processes.
 *
 *   - The true sum of a process in the table is at least ns, and at most ns + error_ns.
 *   - Its error_ns is at most the sum of all processes divided by the number of rows.
 *   - Each process with a sum above this limit is in the table.
 *
 * One thread at a time.
 */
#ifndef VG_MODEL_PROCESS_SUM_H
#define VG_MODEL_PROCESS_SUM_H

#include <glib.h>

#include "model/window.h"

/* Adds a process to the rows (struct vg_lost_process) of a sum. Processes with the same name and
 * control group share a row. */
void vg_process_sum_add(GArray *rows, const struct vg_lost_process *more);

#endif
