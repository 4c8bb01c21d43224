/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/huge-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/util.h"

#define SETTING_PATH "/sys/kernel/mm/transparent_hugepage/enabled"
#define KEPT_PATH    "/run/vgpu-guestd-huge-pages"

/* The size of a keyword. The longest one is `madvise`. */
#define WORD_SIZE 32

/* Finds the keyword in brackets. A text without brackets is the keyword itself. Returns 0, or an
 * errno. */
static int
huge_pages_read(const char *path, char ret_word[WORD_SIZE])
{
    char text[128];
    int error = vg_guest_read_file(path, text, sizeof text);
    const char *begin = strchr(text, '['), *end = begin ? strchr(begin, ']') : NULL;

    vg_guest_put(ret_word, WORD_SIZE, "%.*s", end ? (int)(end - begin - 1) : WORD_SIZE,
                 end ? begin + 1 : text);
    return error == 0 && !*ret_word ? EINVAL : error;
}

/* Writes the file atomically. An existing file belongs to a run that has not ended. Returns 0, or
 * an errno. */
static int
huge_pages_keep(const char *path, const char *word)
{
    vg_guest_auto char *next = vg_guest_format("%s.%d", path, (int)getpid());
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t size = strlen(word);

    if (fd < 0)
        return errno;
    ssize_t put = write(fd, word, size);
    int error = put < 0 ? errno : (size_t)put < size ? EIO : 0;
    close(fd);
    if (error == 0 && link(next, path) != 0)
        error = errno;
    unlink(next);
    return error;
}

void
vg_guest_huge_pages_begin(const struct vg_guest_config *config)
{
    vg_guest_auto char *setting = vg_guest_format("%s" SETTING_PATH, config->root);
    vg_guest_auto char *kept = vg_guest_format("%s" KEPT_PATH, config->root);
    char is[WORD_SIZE], was[WORD_SIZE];

    if (!config->cuda_huge_pages)
        return;
    int error = huge_pages_read(setting, is);
    /* The kernel may have been built without huge pages. */
    if (error == ENOENT || (error == 0 && strcmp(is, "always") == 0))
        return;
    if (error == 0)
        error = huge_pages_keep(kept, is);
    bool made = error == 0;
    if (error == EEXIST) {
        error = vg_guest_read_file(kept, was, sizeof was);
        /* Another program has changed the setting since that run started. */
        if (error == 0 && strcmp(was, is) != 0)
            return;
    }
    if (error == 0)
        error = vg_guest_write_file(setting, "always");
    if (error != 0) {
        vg_guest_log(LOG_WARNING,
                     "huge pages are unavailable, so copying takes longer path='%s' error='%s'",
                     setting, strerror(error));
        if (made)
            unlink(kept);
    }
}

void
vg_guest_huge_pages_end(const struct vg_guest_config *config)
{
    vg_guest_auto char *setting = vg_guest_format("%s" SETTING_PATH, config->root);
    vg_guest_auto char *kept = vg_guest_format("%s" KEPT_PATH, config->root);
    char was[WORD_SIZE], is[WORD_SIZE];
    int error = vg_guest_read_file(kept, was, sizeof was);

    if (error == ENOENT)
        return;
    if (error == 0)
        error = huge_pages_read(setting, is);
    if (error == 0 && strcmp(is, "always") == 0)
        error = vg_guest_write_file(setting, was);
    if (error == 0)
        unlink(kept);
    else
        vg_guest_log(LOG_WARNING,
                     "cannot restore the huge pages setting path='%s' was='%s' error='%s'", setting,
                     was, strerror(error));
}
