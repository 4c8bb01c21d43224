/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define READ_CHUNK 65536

void
vg_file_reserve_standard(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};

    /* open() returns the lowest number that is free. */
    for (int fd = 0; fd < (int)G_N_ELEMENTS(modes); fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", modes[fd]);
    }
}

int
vg_file_read(const char *path, size_t max, char **ret_text, size_t *ret_size, GError **err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return vg_error_errno(err, errno, "cannot open '%s'", path);
    GString *text = g_string_new(NULL);
    ssize_t n;
    do {
        size_t length = text->len;
        g_string_set_size(text, length + READ_CHUNK);
        n = read(fd, text->str + length, READ_CHUNK);
        g_string_set_size(text, length + (n > 0 ? (size_t)n : 0));
    } while ((n > 0 && text->len <= max) || (n < 0 && errno == EINTR));
    int saved = errno;
    if (!is_stdin)
        close(fd);
    int status = 0;
    if (n < 0)
        status = vg_error_errno(err, saved, "cannot read '%s'", path);
    else if (text->len > max)
        status = vg_error(err, VG_E_INVALID, "'%s' is larger than %zu bytes", path, max);
    if (status < 0) {
        g_string_free(text, TRUE);
        return -1;
    }
    *ret_size = text->len;
    *ret_text = g_string_free(text, FALSE);
    return 0;
}

/* Writes to devices, pipes and similar files directly, because a rename would replace them. */
static int
file_write_in_place(const char *path, const char *text, GError **err)
{
    FILE *file = fopen(path, "we");
    bool written = file && fputs(text, file) != EOF;
    int saved = errno;

    if (file && fclose(file) != 0 && written) {
        written = false;
        saved = errno;
    }
    return written ? 0 : vg_error_errno(err, saved, "cannot write '%s'", path);
}

int
vg_file_check_place(const char *path, GError **err)
{
    struct stat st;
    bool exists = stat(path, &st) == 0;
    int trouble = exists || errno == ENOENT ? 0 : errno;
    g_autofree char *dir = g_path_get_dirname(path);

    if (!path[0])
        trouble = ENOENT;
    else if (exists && S_ISDIR(st.st_mode))
        trouble = EISDIR;
    else if (trouble == 0 && access(exists && !S_ISREG(st.st_mode) ? path : dir, W_OK) != 0)
        trouble = errno;
    if (trouble == 0)
        return 0;
    return vg_error(err, VG_E_IO, "cannot write '%s': %s", path, g_strerror(trouble));
}

int
vg_file_write(const char *path, const char *text, GError **err)
{
    g_autoptr(GError) error = NULL;
    struct stat st;
    bool exists = stat(path, &st) == 0;

    if (exists && !S_ISREG(st.st_mode))
        return file_write_in_place(path, text, err);
    /* Replace the target of a link. */
    char *real_path = exists ? realpath(path, NULL) : NULL;
    bool written = g_file_set_contents_full(real_path ? real_path : path, text, -1,
                                            G_FILE_SET_CONTENTS_CONSISTENT,
                                            exists ? (int)(st.st_mode & 0777) : 0666, &error);
    free(real_path);
    return written ? 0 : vg_error(err, VG_E_IO, "cannot write '%s': %s", path, error->message);
}
