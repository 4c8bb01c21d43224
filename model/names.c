/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing in a table with twice as many cells as names. The name that was found last is
 * tried first, because successive records of one kind mostly name the same engine.
 */
#include "config.h"

#include "model/names.h"

#include <string.h>

#define CELLS (2 * VG_NAMES_MAX)

struct vg_names {
    char (*texts)[VG_NAME_SIZE]; /* texts by number */
    uint32_t capacity;           /* capacity of texts */
    uint32_t used;
    uint32_t holders;
    uint16_t last;
    uint16_t cells[CELLS]; /* number; 0: empty */
};

static uint32_t
hash_of(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static uint16_t
names_add(vg_names *names, const char *name)
{
    if (names->used == names->capacity) {
        names->capacity *= 2;
        names->texts = g_realloc_n(names->texts, names->capacity, VG_NAME_SIZE);
    }
    g_strlcpy(names->texts[names->used], name, VG_NAME_SIZE);
    return (uint16_t)names->used++;
}

vg_names *
vg_names_new(void)
{
    vg_names *names = g_new0(vg_names, 1);

    names->capacity = 16;
    names->holders = 1;
    names->texts = g_malloc_n(names->capacity, VG_NAME_SIZE);
    names_add(names, "");
    names_add(names, "other");
    return names;
}

vg_names *
vg_names_ref(vg_names *names)
{
    names->holders++;
    return names;
}

void
vg_names_unref(vg_names *names)
{
    if (!names || --names->holders > 0)
        return;
    g_free(names->texts);
    g_free(names);
}

/* Finds or adds a name. max is the maximum number of names including this one. */
static uint16_t
find_or_add(vg_names *names, const char *name, uint32_t max, uint16_t otherwise)
{
    char cut[VG_NAME_SIZE];

    if (!name[0])
        return VG_NAME_NONE;
    if (strcmp(names->texts[names->last], name) == 0)
        return names->last;
    if (g_strlcpy(cut, name, sizeof(cut)) >= sizeof(cut))
        name = cut;
    uint32_t at = hash_of(name) % CELLS;
    for (; names->cells[at]; at = (at + 1) % CELLS) {
        if (strcmp(names->texts[names->cells[at]], name) == 0)
            return names->last = names->cells[at];
    }
    if (names->used >= max)
        return otherwise;
    names->cells[at] = names_add(names, name);
    return names->last = names->cells[at];
}

uint16_t
vg_names_id(vg_names *names, const char *name)
{
    return find_or_add(names, name, VG_NAMES_MAX, VG_NAME_OTHER);
}

uint16_t
vg_names_spare_id(vg_names *names, const char *name)
{
    return find_or_add(names, name, VG_NAMES_MAX / 2, VG_NAME_NONE);
}

const char *
vg_names_text(const vg_names *names, uint16_t id)
{
    return names->texts[id < names->used ? id : VG_NAME_OTHER];
}
