/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/proxy-note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/opencl-hub.h"
#include "guest/request.h"
#include "guest/util.h"

#define NOTE_PLACE VG_OPENCL_DIR "/proxy"
#define NOTE_TOKEN VG_OPENCL_DIR "/proxy.token"

/* Returns whether the file already contains this line. */
static bool
note_is(const char *root, const char *path, const char *line)
{
    vg_guest_auto char *full = vg_guest_format("%s%s", root, path);
    char text[VG_GUEST_PLACE_MAX + 1];

    return vg_guest_read_file(full, text, sizeof text) == 0 && strcmp(text, line) == 0;
}

/* Replaces a file atomically with one that contains this line, so that no program reads half of it.
 * Every program in the guest may read it: a token identifies the VM, and all of them are in this
 * VM. */
static int
note_write(const char *root, const char *path, const char *line)
{
    vg_guest_auto char *full = vg_guest_format("%s%s", root, path);
    vg_guest_auto char *fresh = vg_guest_format("%s.new", full);
    vg_guest_auto char *text = vg_guest_format("%s\n", line);
    size_t size = strlen(text);

    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    errno = ENOSPC;
    bool ok =
        write(fd, text, size) == (ssize_t)size && fchmod(fd, 0644) == 0 && rename(fresh, full) == 0;
    int error = ok ? 0 : errno;
    if (error)
        unlink(fresh);
    close(fd);
    return error;
}

static int
note_remove(const char *root, const char *path, bool *changed)
{
    vg_guest_auto char *full = vg_guest_format("%s%s", root, path);

    if (unlink(full) == 0)
        *changed = true;
    else if (errno != ENOENT)
        return errno;
    return 0;
}

int
vg_guest_proxy_note(const char *root, const char *at, const char *token, bool *ret_changed)
{
    vg_guest_auto char *dir = vg_guest_format("%s" VG_OPENCL_DIR, root);
    int error = 0;

    *ret_changed = false;
    if (!*at) {
        error = note_remove(root, NOTE_PLACE, ret_changed);
        return error ? error : note_remove(root, NOTE_TOKEN, ret_changed);
    }
    if (note_is(root, NOTE_PLACE, at) && note_is(root, NOTE_TOKEN, token))
        return 0;
    *ret_changed = true;
    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return errno;
    /* A program that reads the new address finds its token. */
    error = note_write(root, NOTE_TOKEN, token);
    return error ? error : note_write(root, NOTE_PLACE, at);
}

char *
vg_guest_proxy_noted(const char *root)
{
    vg_guest_auto char *full = vg_guest_format("%s" NOTE_PLACE, root);
    char text[VG_GUEST_PLACE_MAX + 1];

    if (vg_guest_read_file(full, text, sizeof text) != 0 || !*text)
        return NULL;
    return vg_guest_clean(text, sizeof text);
}
