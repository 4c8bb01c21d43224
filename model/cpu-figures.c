/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/cpu-figures.h"

#include <stddef.h>

/* Every member is a 64-bit count or time, so sums and differences run over them as an array. */
_Static_assert(sizeof(struct vg_cpu_figures) % sizeof(uint64_t) == 0,
               "struct vg_cpu_figures must hold 64-bit members only");

#define FIGURES_WORDS (sizeof(struct vg_cpu_figures) / sizeof(uint64_t))

union words {
    struct vg_cpu_figures figures;
    uint64_t word[FIGURES_WORDS];
};

void
vg_cpu_figures_add(struct vg_cpu_figures *sum, const struct vg_cpu_figures *more)
{
    union words a = {*sum}, b = {*more};

    for (size_t i = 0; i < FIGURES_WORDS; i++)
        a.word[i] += b.word[i];
    *sum = a.figures;
}

void
vg_cpu_figures_sub(struct vg_cpu_figures *from, const struct vg_cpu_figures *less)
{
    union words a = {*from}, b = {*less};

    for (size_t i = 0; i < FIGURES_WORDS; i++)
        a.word[i] -= b.word[i];
    *from = a.figures;
}

double
vg_cpu_figures_intensity(const struct vg_cpu_figures *f)
{
    if (f->observed_ns <= 0)
        return 0.0;
    return (double)(f->run_ns + f->preempt_ns + f->wake_wait_ns) / (double)f->observed_ns;
}
