/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulator's random numbers: the same on every machine, except for the last bit of log() and
 * similar functions.
 */
#include "config.h"

#include <math.h>

#include "policy/gpusched-private.h"

/* splitmix64 (Steele, Lea, Flood 2014), which the authors of xoshiro recommend to set its state. */
static uint64_t
split_mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void
vg_sim_random_seed(struct vg_sim_random *random, uint64_t seed)
{
    for (size_t i = 0; i < G_N_ELEMENTS(random->s); i++)
        random->s[i] = split_mix(&seed);
}

static uint64_t
rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static uint64_t
sim_random_next(struct vg_sim_random *random)
{
    uint64_t *s = random->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* Returns a number above 0 and up to 1, as log() requires. */
static double
draw_unit(struct vg_sim_random *random)
{
    return (double)((sim_random_next(random) >> 11) + 1) * 0x1.0p-53;
}

/* Box-Muller. The second number of the pair is not used, so each value needs two numbers. */
static double
draw_normal(struct vg_sim_random *random)
{
    double radius = sqrt(-2 * log(draw_unit(random)));

    return radius * cos(2 * G_PI * draw_unit(random));
}

static double
draw_value(struct vg_sim_random *random, const struct vg_gpusched_dist *dist)
{
    switch (dist->kind) {
    case VG_GPUSCHED_UNIFORM:
        return dist->a + (dist->b - dist->a) * draw_unit(random);
    case VG_GPUSCHED_EXPONENTIAL:
        return -dist->a * log(draw_unit(random));
    case VG_GPUSCHED_LOGNORMAL:
        return dist->a * exp(dist->b * draw_normal(random) - dist->b * dist->b / 2);
    case VG_GPUSCHED_FIXED:
    case VG_GPUSCHED_DIST_MAX:
        break;
    }
    return dist->a;
}

int64_t
vg_sim_draw(struct vg_sim_random *random, const struct vg_gpusched_dist *dist, int64_t min)
{
    double value = draw_value(random, dist);

    return llrint(CLAMP(value, (double)min, (double)VG_GPUSCHED_TIME_MAX));
}
