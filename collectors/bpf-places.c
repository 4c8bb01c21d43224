/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/bpf-places.h"

#include "model/window.h"

/* Returns the counts of a CPU's place at the last reading, or 0 if the CPU got the place
 * afterwards. */
static struct vg_bpf_place
last_of(const struct vg_bpf_places *places, unsigned i, uint32_t cpu)
{
    static const struct vg_bpf_place nothing;

    return i < places->n && places->last[i].cpu == cpu ? places->last[i] : nothing;
}

void
vg_bpf_places_take(struct vg_bpf_places *places, const struct vg_bpf_reading *reading,
                   int64_t run_ns, int64_t wait_ns, GArray *to)
{
    for (unsigned i = 0; i < reading->n_places; i++) {
        const struct vg_bpf_place *now = &reading->places[i];
        struct vg_bpf_place last = last_of(places, i, now->cpu);
        int64_t ran_ns = CLAMP((int64_t)(now->run_ns - last.run_ns), 0, run_ns);
        int64_t waited_ns = CLAMP((int64_t)(now->wait_ns - last.wait_ns), 0, wait_ns);
        run_ns -= ran_ns;
        wait_ns -= waited_ns;
        if (ran_ns > 0 || waited_ns > 0)
            vg_window_add_place(to, (int32_t)now->cpu, ran_ns, waited_ns);
        places->last[i] = *now;
    }
    places->n = reading->n_places;
}
