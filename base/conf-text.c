/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/conf-text.h"

#include <math.h>

/* Formats a double as a short decimal text that reads back the same, whatever the locale. */
char *
conf_number_text(double number)
{
    char buf[G_ASCII_DTOSTR_BUF_SIZE];
    for (int digits = 6; digits < 17; digits++) {
        char format[8];
        g_snprintf(format, sizeof(format), "%%.%dg", digits);
        g_ascii_formatd(buf, sizeof(buf), format, number);
        if (!(g_ascii_strtod(buf, NULL) < number) && !(g_ascii_strtod(buf, NULL) > number))
            return g_strdup(buf);
    }
    return g_strdup(g_ascii_dtostr(buf, sizeof(buf), number));
}

/* Formats a limit, with whole numbers in full: 134217728 rather than 1.34217728e+08. */
char *
conf_limit_text(double limit)
{
    if (fabs(limit) < 9e15 && !(limit < trunc(limit)) && !(limit > trunc(limit)))
        return g_strdup_printf("%" G_GINT64_FORMAT, (int64_t)limit);
    return conf_number_text(limit);
}

char *
conf_count_text(int64_t count)
{
    if (count >= 0)
        return g_strdup_printf("%" G_GINT64_FORMAT, count);
    g_autofree char *percent = conf_number_text((double)-count / 100);
    return g_strconcat(percent, "%", NULL);
}
