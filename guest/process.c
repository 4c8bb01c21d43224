/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/util.h"

/* A flag of kernel tasks, in /proc/PID/stat. */
#define FLAG_EXITING 0x4

/* Returns whether a signal that cannot be blocked is pending for the whole process. */
static bool
process_was_killed(const char *root, pid_t pid)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/status", root, (int)pid);
    char text[4096];

    vg_guest_read_file(path, text, sizeof text);
    const char *found = strstr(text, "ShdPnd:");
    return found && strtoull(found + strlen("ShdPnd:"), NULL, 16) >> (SIGKILL - 1) & 1;
}

int
vg_guest_process_read(const char *root, pid_t pid, struct vg_guest_process *ret)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc/%d/stat", root, (int)pid);
    unsigned int flags;
    char text[1024], state;
    int parent;

    vg_guest_read_file(path, text, sizeof text);
    /* The second field may contain blanks and parentheses. The parent is field 4, the flags are
     * field 9, the start is field 22. */
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end + 1,
                       " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
                       "%" SCNu64,
                       &state, &parent, &flags, &ret->start) != 4)
        return -1;
    ret->parent = parent;
    ret->ended = state == 'Z' || state == 'X';
    ret->ending = ret->ended || flags & FLAG_EXITING || process_was_killed(root, pid);
    return 0;
}

long
vg_guest_process_number(const char *dir, const char *name)
{
    vg_guest_auto char *path = vg_guest_format("%s/status", dir);
    vg_guest_auto char *line = vg_guest_format("\n%s", name);
    char text[8192];

    vg_guest_read_file(path, text, sizeof text);
    const char *found = strstr(text, line);
    return found ? strtol(found + strlen(line), NULL, 10) : -1;
}

void
vg_guest_process_name(const char *dir, char *ret, size_t size)
{
    vg_guest_auto char *path = vg_guest_format("%s/comm", dir);
    char text[32];

    vg_guest_read_file(path, text, sizeof text);
    vg_guest_auto char *clean = vg_guest_clean(text, sizeof text);
    for (char *at = clean; (at = strpbrk(at, "\n'\"\\"));)
        *at = '?';
    vg_guest_put(ret, size, "%s", clean);
}

char
vg_guest_process_state(const char *dir)
{
    vg_guest_auto char *path = vg_guest_format("%s/stat", dir);
    char text[1024];

    vg_guest_read_file(path, text, sizeof text);
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] ? end[2] : 'X';
}

bool
vg_guest_process_ended(const char *dir)
{
    char state = vg_guest_process_state(dir);

    return state == 'Z' || state == 'X';
}

void
vg_guest_process_each(const char *root, void (*found)(void *user, pid_t pid), void *user)
{
    vg_guest_auto char *path = vg_guest_format("%s/proc", root);
    DIR *dir = opendir(path);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && !*end)
            found(user, (pid_t)pid);
    }
    if (dir)
        closedir(dir);
}
