/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/conf.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "guest/util.h"

/* The size of a unit's name; systemd allows fewer bytes. */
#define UNIT_SIZE 256

/* The keys whose values are one of two keywords. The second one makes the member true. */
static const struct {
    const char *section, *name, *no, *yes;
    size_t offset;
} switches[] = {
    {"cuda", "unwatched", "refuse", "allow",
     offsetof(struct vg_guest_config, cuda_unwatched_allowed)},
    {"cuda", "forked", "refuse", "release", offsetof(struct vg_guest_config, cuda_release_forked)},
    {"cuda", "huge_pages", "no", "yes", offsetof(struct vg_guest_config, cuda_huge_pages)},
    {"cuda", "hold_faults", "no", "yes", offsetof(struct vg_guest_config, cuda_hold_faults)},
    {"cuda", "driver_faults", "refuse", "allow",
     offsetof(struct vg_guest_config, cuda_faults_allowed)},
};

/* The default units. Clients of a daemon come before the daemon. */
static const char *const default_units[] = {
    "nvidia-dcgm-exporter.service", "dcgm-exporter.service", "nvidia-dcgm.service", "dcgm.service",
    "nvidia-persistenced.service",
};

struct config_reader {
    struct vg_guest_config *config;
    FILE *file;
    /* The number of the present line. */
    int line;
    /* The file has named units, so the default ones do not count. */
    bool units_named;
    /* The first mistake and its line, or 0 if there is none. */
    int fault_line;
    char fault[512];
};

static int config_fault(struct config_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Stores the first mistake. Returns 0, which means an invalid line to inih. */
static int
config_fault(struct config_reader *reader, const char *format, ...)
{
    va_list args;

    if (reader->fault_line > 0)
        return 0;
    va_start(args, format);
    vsnprintf(reader->fault, sizeof reader->fault, format, args);
    va_end(args);
    reader->fault_line = reader->line;
    return 0;
}

static void
config_forget_units(struct vg_guest_config *config)
{
    while (config->n_units > 0)
        free(config->units[--config->n_units]);
}

/* Returns whether systemd accepts this unit name. */
static bool
config_is_unit(const char *name)
{
    const char *suffix = strrchr(name, '.');

    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr(":_.\\@-", *at))
            return false;
    }
    return isalnum((unsigned char)name[0]) && suffix && suffix[1] && strlen(name) < UNIT_SIZE;
}

/* Reads a list of units. The first list in the file replaces the default one, and others are added
 * to it. An empty list removes all units so far. */
static int
config_units(struct config_reader *reader, const char *value)
{
    struct vg_guest_config *config = reader->config;
    vg_guest_auto char *names = vg_guest_copy(value);
    char *rest = names;

    if (!reader->units_named || !*value)
        config_forget_units(config);
    reader->units_named = true;
    for (char *name; (name = strsep(&rest, " \t"));) {
        if (!*name)
            continue;
        if (!config_is_unit(name))
            return config_fault(reader,
                                "[units] stop: '%s' is not a systemd unit; write names like "
                                "nvidia-persistenced.service, separated by spaces",
                                name);
        if (config->n_units == VG_GUEST_UNITS_MAX)
            return config_fault(reader, "[units] stop: more than %d units are listed",
                                VG_GUEST_UNITS_MAX);
        config->units[config->n_units++] = vg_guest_copy(name);
    }
    return 1;
}

static bool
config_is_section(const char *section)
{
    return strcmp(section, "cuda") == 0 || strcmp(section, "units") == 0;
}

/* Reads one key and its value. Called by inih. */
static int
config_value(void *user, const char *section, const char *name, const char *value)
{
    struct config_reader *reader = user;

    if (!*section)
        return config_fault(reader, "'%s' is not in a section; put it below [cuda] or [units]",
                            name);
    if (!config_is_section(section))
        return 0;
    if (strcmp(section, "units") == 0 && strcmp(name, "stop") == 0)
        return config_units(reader, value);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool *member = (bool *)(void *)((char *)reader->config + switches[i].offset);
        if (strcmp(section, switches[i].section) != 0 || strcmp(name, switches[i].name) != 0)
            continue;
        *member = strcmp(value, switches[i].yes) == 0;
        if (!*member && strcmp(value, switches[i].no) != 0)
            return config_fault(reader, "[%s] %s: '%s' is neither '%s' nor '%s'", section, name,
                                value, switches[i].no, switches[i].yes);
        return 1;
    }
    return config_fault(reader, "[%s] has no key '%s'; its keys are: %s", section, name,
                        strcmp(section, "units") == 0 ? "stop"
                                                      : "unwatched, forked, huge_pages, "
                                                        "hold_faults, driver_faults");
}

/* Returns the next line to inih like fgets(), without leading blanks, which would make it a
 * continuation of the previous line. */
static char *
config_line(char *line, int size, void *user)
{
    struct config_reader *reader = user;

    if (!fgets(line, size, reader->file))
        return NULL;
    reader->line++;
    if (!strchr(line, '\n') && !feof(reader->file)) {
        config_fault(reader, "the line is longer than %d bytes", size - 2);
        return NULL;
    }
    size_t blanks = strspn(line, " \t");
    memmove(line, line + blanks, strlen(line + blanks) + 1);
    if (*line == '[') {
        vg_guest_auto char *section = vg_guest_copy(line + 1);
        char *end = strchr(section, ']');
        if (end) {
            *end = '\0';
            if (!config_is_section(section))
                config_fault(reader, "unknown section [%s]; the sections are [cuda] and [units]",
                             section);
        }
    }
    return line;
}

static int
config_parse(struct config_reader *reader, const char *path)
{
    int line = ini_parse_stream(config_line, reader, config_value, reader);

    if (line > 0 && (reader->fault_line == 0 || line < reader->fault_line)) {
        reader->fault_line = line;
        vg_guest_put(reader->fault, sizeof reader->fault,
                     "the line is neither [SECTION] nor KEY=VALUE");
    }
    if (reader->fault_line > 0) {
        vg_guest_log(LOG_ERR, "%s:%d: %s", path, reader->fault_line, reader->fault);
        return -1;
    }
    if (ferror(reader->file)) {
        vg_guest_log(LOG_ERR, "%s: cannot be read: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

int
vg_guest_config_read(struct vg_guest_config *config, const char *file)
{
    vg_guest_auto char *path =
        file ? vg_guest_copy(file) : vg_guest_format("%s" VG_GUEST_CONFIG_FILE, config->root);
    struct config_reader reader = {.config = config};

    config->cuda_unwatched_allowed = false;
    config->cuda_release_forked = true;
    config->cuda_huge_pages = true;
    config->cuda_hold_faults = true;
    config->cuda_faults_allowed = false;
    config->n_units = 0;
    for (size_t i = 0; i < sizeof default_units / sizeof *default_units; i++)
        config->units[config->n_units++] = vg_guest_copy(default_units[i]);
    reader.file = fopen(path, "re");
    if (!reader.file && !file && errno == ENOENT)
        return 0;
    if (!reader.file) {
        vg_guest_log(LOG_ERR, "%s: cannot be opened: %s", path, strerror(errno));
        return -1;
    }
    int result = config_parse(&reader, path);
    fclose(reader.file);
    return result;
}

void
vg_guest_config_clear(struct vg_guest_config *config)
{
    config_forget_units(config);
}
