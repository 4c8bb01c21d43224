/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests draw by chance can be drawn again: the seed comes from VG_TEST_SEED, which tools/check
 * sets to a fixed one or that of --seed, and is printed in one form, "# VG_TEST_SEED=N". A test of
 * several rounds plays round i with the seed of the first one plus i, and names the seed of a round
 * that fails, so that this round is the first one next time.
 */
#ifndef VG_TESTS_CHANCE_H
#define VG_TESTS_CHANCE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#define CHANCE_SEED_BY_HAND 1

static inline void
chance_print(uint64_t seed)
{
    print_message("# VG_TEST_SEED=%" PRIu64 "\n", seed);
}

/* The seed of the first round, printed. */
static inline uint64_t
chance_seed(void)
{
    const char *given = g_getenv("VG_TEST_SEED");
    uint64_t seed = given ? g_ascii_strtoull(given, NULL, 10) : CHANCE_SEED_BY_HAND;

    chance_print(seed);
    return seed;
}

/* Random numbers of that seed; g_rand_free() them. */
static inline GRand *
chance_rand(void)
{
    return g_rand_new_with_seed((guint32)chance_seed());
}

/* Is everything to be tried, however long it takes? */
static inline bool
chance_is_full(void)
{
    const char *full = g_getenv("VG_TEST_FULL");

    return full && *full && strcmp(full, "0") != 0;
}

static inline unsigned
chance_rounds(unsigned usual, unsigned full)
{
    return chance_is_full() ? full : usual;
}

#endif
