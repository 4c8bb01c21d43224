/* SPDX-License-Identifier: Apache-2.0
 *
 * Mean and variance of times of the recent past, and what they say of a time that was not measured.
 */
#ifndef VG_MODEL_GPU_SPREAD_H
#define VG_MODEL_GPU_SPREAD_H

#include <stdint.h>

/* All zero: nothing was measured. */
struct gpu_spread {
    uint32_t n;
    double sum_ns, sum_of_squares;
};

void gpu_spread_add(struct gpu_spread *spread, int64_t ns);

/* 0 if nothing was measured. */
int64_t gpu_spread_mean(const struct gpu_spread *spread);

/* Of a time that is made up of two, which were not measured apart, the first one: 0 to whole_ns. Of
 * each so many must have been measured before, else it is what the caller says.
 *
 * It is the linear estimate with the least mean square error, where the two are independent:
 * E[x] + var(x) / (var(x) + var(y)) * (whole - E[x] - E[y]). */
#define GPU_SPREAD_MIN 4
int64_t gpu_spread_first_part(int64_t whole_ns, const struct gpu_spread *first,
                              const struct gpu_spread *second, int64_t else_ns);

#endif
