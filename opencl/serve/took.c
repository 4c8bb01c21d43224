/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/meter.h"

#define TOOK_SUBS (1u << VG_SERVE_TOOK_SUBS)

unsigned
vg_serve_took_bucket(int64_t ns)
{
    const int64_t least = INT64_C(1) << VG_SERVE_TOOK_LOW;
    const uint64_t value = (uint64_t)(ns < least ? least : ns);
    const unsigned high = 63 - (unsigned)__builtin_clzll(value);
    const unsigned bucket = ((high - VG_SERVE_TOOK_LOW) << VG_SERVE_TOOK_SUBS) +
                            ((unsigned)(value >> (high - VG_SERVE_TOOK_SUBS)) & (TOOK_SUBS - 1));

    return bucket < VG_SERVE_TOOK ? bucket : VG_SERVE_TOOK - 1;
}

int64_t
vg_serve_took_middle(unsigned bucket)
{
    const unsigned octave = bucket >> VG_SERVE_TOOK_SUBS;
    const int64_t step = INT64_C(1) << (VG_SERVE_TOOK_LOW - VG_SERVE_TOOK_SUBS + octave);

    return (int64_t)(TOOK_SUBS + (bucket & (TOOK_SUBS - 1))) * step + step / 2;
}
