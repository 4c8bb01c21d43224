/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/nearest.h"

#include <string.h>

#include <glib.h>

#define LENGTH_MAX   31
#define DISTANCE_MAX 2

/* Returns the edit distance of two words. Swapping two neighbours counts as one edit (optimal
 * string alignment). */
static size_t
nearest_distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    size_t rows[LENGTH_MAX + 1][LENGTH_MAX + 1];

    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            const size_t wrong = a[i - 1] != b[j - 1];
            rows[i][j] = MIN(MIN(rows[i - 1][j], rows[i][j - 1]) + 1, rows[i - 1][j - 1] + wrong);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                rows[i][j] = MIN(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    }
    return rows[n][m];
}

const char *
vg_nearest(const char *text, const char *const *words, size_t n)
{
    const size_t length = strlen(text);
    const char *best = NULL;
    size_t least = DISTANCE_MAX + 1;

    for (size_t i = 0; i < n && length <= LENGTH_MAX; i++) {
        if (strlen(words[i]) > LENGTH_MAX)
            continue;
        const size_t distance = nearest_distance(text, words[i]);
        if (distance < least && 2 * distance <= strlen(words[i])) {
            best = words[i];
            least = distance;
        }
    }
    return best;
}
