/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/cpu-list.h"

#include <string.h>

#include "base/error.h"

static struct vg_cpu_list cpu_list_host;
static bool cpu_list_is_set;

/* Reads a number and skips it. Returns -1 unless the text starts with a number below the limit. */
static int64_t
cpu_list_read_number(const char **text)
{
    char *end = NULL;

    if (!g_ascii_isdigit(**text))
        return -1;
    const guint64 number = g_ascii_strtoull(*text, &end, 10);
    *text = end;
    return number < VG_CPU_LIMIT ? (int64_t)number : -1;
}

int
vg_cpu_list_parse(const char *text, struct vg_cpu_list *ret, GError **err)
{
    struct vg_cpu_list list = {0};
    const char *at = text;

    do {
        const int64_t first = cpu_list_read_number(&at);
        int64_t last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = cpu_list_read_number(&at);
        }
        if (first < 0 || last < first || (*at && *at != ',' && strcmp(at, "\n") != 0))
            return vg_error(err, VG_E_INVALID, "'%s' is not a list of CPUs below %d such as 0-3,8",
                            text, VG_CPU_LIMIT);
        for (int64_t cpu = first; cpu <= last; cpu++)
            list.words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    } while (*at++ == ',');
    *ret = list;
    return 0;
}

bool
vg_cpu_list_has(const struct vg_cpu_list *list, int32_t cpu)
{
    return cpu >= 0 && cpu < VG_CPU_LIMIT && list->words[cpu / 64] >> (cpu % 64) & 1;
}

int64_t
vg_cpu_list_count_both(const struct vg_cpu_list *a, const struct vg_cpu_list *b)
{
    int64_t n = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(a->words); i++)
        n += __builtin_popcountll(a->words[i] & b->words[i]);
    return n;
}

void
vg_cpu_list_set_host(const char *text)
{
    cpu_list_is_set = text[0] && vg_cpu_list_parse(text, &cpu_list_host, NULL) == 0;
}

const struct vg_cpu_list *
vg_cpu_list_host(void)
{
    return cpu_list_is_set ? &cpu_list_host : NULL;
}
