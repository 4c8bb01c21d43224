/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "picture/step-sums.h"

struct vg_step_sums {
    int64_t begin_ns;
    int64_t step_ns;
    GPtrArray *series; /* double[VG_STEPS_MAX], owned */
};

vg_step_sums *
vg_step_sums_new(int64_t begin_ns)
{
    vg_step_sums *sums = g_new(vg_step_sums, 1);

    sums->begin_ns = begin_ns;
    sums->step_ns = 1;
    sums->series = g_ptr_array_new_with_free_func(g_free);
    return sums;
}

void
vg_step_sums_free(vg_step_sums *sums)
{
    if (!sums)
        return;
    g_ptr_array_unref(sums->series);
    g_free(sums);
}

unsigned int
vg_step_sums_add_series(vg_step_sums *sums)
{
    g_ptr_array_add(sums->series, g_new0(double, VG_STEPS_MAX));
    return sums->series->len - 1;
}

int64_t
vg_step_sums_reach(vg_step_sums *sums, int64_t t_ns)
{
    while ((t_ns - sums->begin_ns) / VG_STEPS_MAX >= sums->step_ns) {
        for (guint i = 0; i < sums->series->len; i++) {
            double *steps = g_ptr_array_index(sums->series, i);
            for (size_t k = 0; k < VG_STEPS_MAX / 2; k++)
                steps[k] = steps[2 * k] + steps[2 * k + 1];
            for (size_t k = VG_STEPS_MAX / 2; k < VG_STEPS_MAX; k++)
                steps[k] = 0;
        }
        sums->step_ns *= 2;
    }
    return sums->step_ns;
}

void
vg_step_sums_spread(vg_step_sums *sums, unsigned int series, int64_t begin_ns, int64_t end_ns,
                    double amount)
{
    double *steps = g_ptr_array_index(sums->series, series);
    int64_t from = MAX(begin_ns, sums->begin_ns) - sums->begin_ns;
    int64_t to = end_ns - sums->begin_ns;

    if (end_ns <= begin_ns)
        return;
    vg_step_sums_reach(sums, end_ns);
    double rate = amount / (double)(end_ns - begin_ns);
    while (from < to) {
        int64_t step = from / sums->step_ns;
        int64_t until = MIN(to, (step + 1) * sums->step_ns);
        steps[step] += rate * (double)(until - from);
        from = until;
    }
}

size_t
vg_step_sums_steps(vg_step_sums *sums, int64_t end_ns, int64_t *ret_step_ns)
{
    int64_t length_ns = MAX(end_ns - sums->begin_ns, 1);
    int64_t n = MAX(length_ns / vg_step_sums_reach(sums, end_ns) / 2, 1);

    int64_t step_ns = (length_ns + n - 1) / n;
    *ret_step_ns = step_ns;
    return (size_t)((length_ns + step_ns - 1) / step_ns);
}

void
vg_step_sums_read(const vg_step_sums *sums, unsigned int series, int64_t end_ns, size_t n,
                  int64_t step_ns, double *ret)
{
    const double *steps = g_ptr_array_index(sums->series, series);
    int64_t length_ns = MAX(end_ns - sums->begin_ns, 1);

    for (size_t i = 0; i < n; i++)
        ret[i] = 0;
    for (int64_t k = 0; k < VG_STEPS_MAX && k * sums->step_ns < length_ns; k++) {
        int64_t begin = k * sums->step_ns, end = MIN(begin + sums->step_ns, length_ns);
        for (int64_t from = begin, until; from < end; from = until) {
            int64_t i = from / step_ns;
            until = MIN(end, (i + 1) * step_ns);
            ret[i] += steps[k] * (double)(until - from) / (double)(end - begin);
        }
    }
}
