/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/fdinfo-text.h"

#include <string.h>

#include <glib.h>

/* The keys that may report a region, from worst to best. */
enum region_rank { RANK_NONE, RANK_TOTAL, RANK_MEMORY, RANK_RESIDENT };

struct region {
    char name[32];
    enum region_rank rank;
    uint64_t bytes;
};

struct reading {
    struct vg_fdinfo *info;
    bool total_seen[VG_FDINFO_ENGINES_MAX];
    bool cycles_seen[VG_FDINFO_ENGINES_MAX];
    struct region regions[VG_FDINFO_REGIONS_MAX];
    unsigned n_regions;
};

/* The parts of a line: the key without the colon, and the value without the blanks around it. */
struct pair {
    const char *key;
    size_t key_length;
    const char *value;
    size_t value_length;
};

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Splits a line. Returns false if it is not a pair. */
static bool
split(const char *line, size_t length, struct pair *ret)
{
    const char *colon = memchr(line, ':', length);
    const char *end = line + length;

    if (!colon || colon == line)
        return false;
    const char *value = colon + 1;
    while (value < end && is_blank(*value))
        value++;
    while (end > value && is_blank(end[-1]))
        end--;
    *ret = (struct pair){.key = line,
                         .key_length = (size_t)(colon - line),
                         .value = value,
                         .value_length = (size_t)(end - value)};
    return ret->value_length > 0;
}

static bool
key_is(const struct pair *pair, const char *key)
{
    return pair->key_length == strlen(key) && memcmp(pair->key, key, pair->key_length) == 0;
}

/* Extracts the name after PREFIX in a key. Returns false if the key does not have this prefix, or
 * the name does not fit. */
static bool
fdinfo_text_take_name(const struct pair *pair, const char *prefix, char *ret, size_t size)
{
    size_t skip = strlen(prefix);

    if (pair->key_length <= skip || pair->key_length - skip >= size ||
        memcmp(pair->key, prefix, skip) != 0)
        return false;
    memset(ret, 0, size);
    memcpy(ret, pair->key + skip, pair->key_length - skip);
    return g_str_is_ascii(ret);
}

/* Parses "123", "123 ns" or "123 KiB" and multiplies the number by the unit. */
static bool
take_number(const struct pair *pair, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"", 1}, {"ns", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    uint64_t value = 0;
    size_t at = 0;

    for (; at < pair->value_length && g_ascii_isdigit(pair->value[at]); at++) {
        if (!g_uint64_checked_mul(&value, value, 10) ||
            !g_uint64_checked_add(&value, value, (uint64_t)(pair->value[at] - '0')))
            return false;
    }
    if (at == 0)
        return false;
    while (at < pair->value_length && is_blank(pair->value[at]))
        at++;
    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        size_t length = strlen(units[i].unit);
        if (pair->value_length - at == length &&
            memcmp(pair->value + at, units[i].unit, length) == 0)
            return g_uint64_checked_mul(ret, value, units[i].factor);
    }
    return false;
}

static void
take_word(const struct pair *pair, char *ret, size_t size)
{
    size_t length = MIN(pair->value_length, size - 1);

    memcpy(ret, pair->value, length);
    ret[length] = '\0';
    for (char *c = ret; *c; c++) {
        if (!g_ascii_isgraph(*c))
            *c = '?';
        *c = g_ascii_tolower(*c);
    }
}

/* Finds or adds an engine. Returns NULL if there are too many. */
static struct vg_fdinfo_engine *
fdinfo_text_need_engine(struct vg_fdinfo *info, const char *name)
{
    for (unsigned i = 0; i < info->n_engines; i++) {
        if (strcmp(info->engines[i].name, name) == 0)
            return &info->engines[i];
    }
    if (info->n_engines == VG_FDINFO_ENGINES_MAX)
        return NULL;
    struct vg_fdinfo_engine *engine = &info->engines[info->n_engines++];
    *engine = (struct vg_fdinfo_engine){.capacity = 1};
    g_strlcpy(engine->name, name, sizeof(engine->name));
    return engine;
}

static struct region *
need_region(struct reading *reading, const char *name)
{
    for (unsigned i = 0; i < reading->n_regions; i++) {
        if (strcmp(reading->regions[i].name, name) == 0)
            return &reading->regions[i];
    }
    if (reading->n_regions == VG_FDINFO_REGIONS_MAX)
        return NULL;
    struct region *region = &reading->regions[reading->n_regions++];
    *region = (struct region){.rank = RANK_NONE};
    g_strlcpy(region->name, name, sizeof(region->name));
    return region;
}

/* Reads a line about an engine. Returns false if the line is about something else. */
static bool
read_engine(struct reading *reading, const struct pair *pair)
{
    static const char *const prefixes[] = {"drm-engine-capacity-", "drm-engine-",
                                           "drm-total-cycles-", "drm-cycles-"};
    char name[sizeof(((struct vg_fdinfo_engine *)NULL)->name)];
    unsigned which = 0;
    uint64_t value;

    while (which < G_N_ELEMENTS(prefixes) &&
           !fdinfo_text_take_name(pair, prefixes[which], name, sizeof(name)))
        which++;
    if (which == G_N_ELEMENTS(prefixes))
        return false;
    struct vg_fdinfo_engine *engine = NULL;
    if (take_number(pair, &value))
        engine = fdinfo_text_need_engine(reading->info, name);
    if (!engine)
        return true;
    size_t index = (size_t)(engine - reading->info->engines);
    switch (which) {
    case 0:
        engine->capacity = MAX(value, 1);
        break;
    case 1:
        engine->has_busy = true;
        engine->busy_ns = value;
        break;
    case 2:
        reading->total_seen[index] = true;
        engine->total_cycles = value;
        break;
    default:
        reading->cycles_seen[index] = true;
        engine->cycles = value;
    }
    return true;
}

static void
read_region(struct reading *reading, const struct pair *pair)
{
    static const char *const prefixes[] = {[RANK_TOTAL] = "drm-total-",
                                           [RANK_MEMORY] = "drm-memory-",
                                           [RANK_RESIDENT] = "drm-resident-"};
    char name[sizeof(((struct region *)NULL)->name)];
    uint64_t bytes;

    for (unsigned rank = RANK_TOTAL; rank <= RANK_RESIDENT; rank++) {
        if (!fdinfo_text_take_name(pair, prefixes[rank], name, sizeof(name)) ||
            !take_number(pair, &bytes))
            continue;
        struct region *region = need_region(reading, name);
        if (region && rank > region->rank) {
            region->rank = rank;
            region->bytes = bytes;
        }
    }
}

static void
read_line(struct reading *reading, const char *line, size_t length)
{
    struct vg_fdinfo *info = reading->info;
    struct pair pair;

    if (!split(line, length, &pair))
        return;
    if (key_is(&pair, "drm-driver"))
        take_word(&pair, info->driver, sizeof(info->driver));
    else if (key_is(&pair, "drm-pdev"))
        take_word(&pair, info->device, sizeof(info->device));
    else if (key_is(&pair, "drm-client-id"))
        info->has_client = take_number(&pair, &info->client);
    else if (!read_engine(reading, &pair))
        read_region(reading, &pair);
}

/* i915 has local0, stolen-local0 and system0; xe vram0, stolen, gtt and system; amdgpu vram, gtt
 * and cpu. */
static bool
is_local(const struct region *region)
{
    return strncmp(region->name, "vram", 4) == 0 || strncmp(region->name, "local", 5) == 0 ||
           strncmp(region->name, "stolen-local", 12) == 0;
}

static int64_t
sum_memory(const struct reading *reading)
{
    uint64_t all = 0, local = 0;
    bool has_local = false;

    for (unsigned i = 0; i < reading->n_regions; i++) {
        const struct region *region = &reading->regions[i];
        uint64_t bytes = MIN(region->bytes, INT64_MAX / VG_FDINFO_REGIONS_MAX);
        all += bytes;
        local += is_local(region) ? bytes : 0;
        has_local = has_local || is_local(region);
    }
    return (int64_t)(has_local ? local : all);
}

/* Removes the engines that have no counter. */
static void
keep_counters(struct reading *reading)
{
    struct vg_fdinfo *info = reading->info;
    unsigned n = 0;

    for (unsigned i = 0; i < info->n_engines; i++) {
        struct vg_fdinfo_engine engine = info->engines[i];
        engine.has_cycles = reading->cycles_seen[i] && reading->total_seen[i];
        if (engine.has_busy || engine.has_cycles)
            info->engines[n++] = engine;
    }
    info->n_engines = n;
}

bool
vg_fdinfo_parse(const char *text, struct vg_fdinfo *ret)
{
    struct reading reading = {.info = ret};

    *ret = (struct vg_fdinfo){0};
    while (*text) {
        size_t length = strcspn(text, "\n");
        read_line(&reading, text, length);
        text += length;
        text += *text == '\n';
    }
    if (ret->driver[0] == '\0')
        return false;
    if (ret->device[0] == '\0')
        g_strlcpy(ret->device, ret->driver, sizeof(ret->device));
    ret->tells_memory = reading.n_regions > 0;
    ret->memory_bytes = sum_memory(&reading);
    keep_counters(&reading);
    return true;
}

bool
vg_fdinfo_is_old(const char *text)
{
    bool has_device = false, has_memory = false;

    while (*text) {
        const size_t length = strcspn(text, "\n");
        struct pair pair;
        if (split(text, length, &pair)) {
            if (key_is(&pair, "drm-driver"))
                return false;
            has_device |= key_is(&pair, "pdev");
            has_memory |= key_is(&pair, "vram mem");
        }
        text += length;
        text += *text == '\n';
    }
    return has_device && has_memory;
}
