/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/opencl-seen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest/process.h"
#include "guest/util.h"

static bool
seen_lives(const char *root, pid_t pid, uint64_t start)
{
    struct vg_guest_process process;

    return vg_guest_process_read(root, pid, &process) == 0 && !process.ended &&
           process.start == start;
}

void
vg_opencl_seen_read(struct vg_opencl_seen *ret, const char *root)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_OPENCL_SEEN_PATH, root);
    FILE *file = fopen(path, "re");
    uint64_t start;
    int pid;

    ret->root = root;
    ret->n = 0;
    while (file && ret->n < VG_OPENCL_SEEN_MAX && fscanf(file, "%d %" SCNu64, &pid, &start) == 2) {
        if (!seen_lives(root, pid, start))
            continue;
        ret->list[ret->n].pid = pid;
        ret->list[ret->n++].start = start;
    }
    if (file)
        fclose(file);
}

bool
vg_opencl_seen_has(const struct vg_opencl_seen *seen, pid_t pid, uint64_t start)
{
    for (size_t i = 0; i < seen->n; i++) {
        if (seen->list[i].pid == pid && seen->list[i].start == start)
            return true;
    }
    return false;
}

static void
seen_write(const struct vg_opencl_seen *seen)
{
    vg_guest_auto char *path = vg_guest_format("%s" VG_OPENCL_SEEN_PATH, seen->root);
    vg_guest_auto char *next = vg_guest_format("%s.new", path);
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0;

    for (size_t i = 0; i < seen->n; i++)
        ok = ok && dprintf(fd, "%d %" PRIu64 "\n", (int)seen->list[i].pid, seen->list[i].start) > 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    if (!ok || rename(next, path) != 0)
        vg_guest_log(LOG_WARNING, "cannot write file path='%s' error='%s'", path, strerror(errno));
}

void
vg_opencl_seen_add(struct vg_opencl_seen *seen, pid_t pid, uint64_t start)
{
    size_t n = 0;

    for (size_t i = 0; i < seen->n; i++) {
        if (seen_lives(seen->root, seen->list[i].pid, seen->list[i].start))
            seen->list[n++] = seen->list[i];
    }
    if (n == VG_OPENCL_SEEN_MAX) {
        n--;
        memmove(&seen->list[0], &seen->list[1], n * sizeof seen->list[0]);
    }
    seen->list[n].pid = pid;
    seen->list[n].start = start;
    seen->n = n + 1;
    seen_write(seen);
}
