/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/fake-map.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <glib.h>

struct entry {
    struct vg_bpf_cell_key key;
    struct vg_bpf_cell value;
};

#define ENTRIES_MAX 16384

static struct entry entries[ENTRIES_MAX];
static unsigned count, limit;

static unsigned
index_of(const struct vg_bpf_cell_key *key)
{
    unsigned i = 0;

    while (i < count && memcmp(&entries[i].key, key, sizeof(*key)) != 0)
        i++;
    return i;
}

void
fake_map_reset(unsigned max_entries)
{
    count = 0;
    limit = MIN(max_entries, ENTRIES_MAX);
}

struct vg_bpf_cell *
fake_map_find(const struct vg_bpf_cell_key *key)
{
    unsigned i = index_of(key);

    return i < count ? &entries[i].value : NULL;
}

int
fake_map_add(const struct vg_bpf_cell_key *key, const struct vg_bpf_cell *value)
{
    if (count == limit)
        return -E2BIG;
    entries[count++] = (struct entry){.key = *key, .value = *value};
    return 0;
}

unsigned
fake_map_count(void)
{
    return count;
}

/* ---- libbpf's ---- */

int
bpf_map_get_next_key(int fd, const void *key, void *next_key)
{
    unsigned i = key ? index_of(key) : count;

    /* After a key that is not there comes the first one. */
    i = i < count ? i + 1 : 0;
    if (fd != FAKE_MAP_FD || i >= count)
        return -ENOENT;
    memcpy(next_key, &entries[i].key, sizeof(entries[i].key));
    return 0;
}

int
bpf_map_lookup_elem(int fd, const void *key, void *value)
{
    unsigned i = index_of(key);

    if (fd != FAKE_MAP_FD || i >= count)
        return -ENOENT;
    memcpy(value, &entries[i].value, sizeof(entries[i].value));
    return 0;
}

int
bpf_map_delete_elem(int fd, const void *key)
{
    unsigned i = index_of(key);

    if (fd != FAKE_MAP_FD || i >= count)
        return -ENOENT;
    entries[i] = entries[--count];
    return 0;
}
