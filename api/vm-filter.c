/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "api/doc.h"

const struct vg_vm_filter vg_vm_filter_none = {.vm_class = -1};

/* Returns whether a text matches a pattern: '*' stands for any characters, '?' for one. The time is
 * proportional to pattern * text for every pattern. */
static bool
filter_matches(const char *pattern, const char *text)
{
    /* the text behind the last '*', and the text that it matches */
    const char *star = NULL, *from = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            from = text;
        } else if (*pattern == '?' ||
                   (*pattern && g_utf8_get_char(pattern) == g_utf8_get_char(text))) {
            pattern = g_utf8_next_char(pattern);
            text = g_utf8_next_char(text);
        } else if (star) {
            pattern = star;
            text = from = g_utf8_next_char(from);
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

bool
vg_vm_filter_takes(const struct vg_vm_filter *filter, const struct vg_snap_vm *vm,
                   const struct vg_inv_vm *domain)
{
    const struct vg_inv_nova *nova = domain && domain->nova_managed ? &domain->nova : NULL;

    if (filter->vm_class >= 0 && (int)vm->vm_class != filter->vm_class)
        return false;
    if (filter->project && (!nova || (g_strcmp0(nova->project_name, filter->project) != 0 &&
                                      g_strcmp0(nova->project_id, filter->project) != 0)))
        return false;
    return !filter->name || filter_matches(filter->name, vm->name) ||
           (nova && nova->name && filter_matches(filter->name, nova->name));
}
