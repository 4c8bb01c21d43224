/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/journald.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <systemd/sd-journal.h>

#include "base/log-text.h"
#include "base/log.h"

/* The maximum number of fields in a message, including three fixed ones. */
#define FIELDS_MAX 24

/* Returns the length of "key" if a word starts with "key=", or 0. A key consists of lower-case
 * letters, digits and '_'. */
static size_t
key_length(const char *word)
{
    size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return word[length] == '=' ? length : 0;
}

static void
add_fields(const char *message, GPtrArray *fields)
{
    const char *word = message;

    while (*word && fields->len < FIELDS_MAX) {
        size_t length = key_length(word);
        const char *end =
            length > 0 ? vg_log_text_end(word + length + 1) : word + strcspn(word, " ");
        if (length > 0) {
            g_autofree char *value = vg_log_text_copy(word + length + 1, end);
            g_autofree char *key = g_ascii_strup(word, (gssize)length);
            g_ptr_array_add(fields, g_strdup_printf("VGPUD_%s=%s", key, value));
        }
        word = end + strspn(end, " ");
    }
}

static void
send_journal(void *data, enum vg_log_level level, const char *tag, const char *message)
{
    g_autoptr(GPtrArray) fields = g_ptr_array_new_with_free_func(g_free);
    struct iovec parts[FIELDS_MAX];

    (void)data;
    g_ptr_array_add(fields, g_strdup_printf("MESSAGE=%s: %s", tag, message));
    g_ptr_array_add(fields, g_strdup_printf("PRIORITY=%d", (int)level));
    g_ptr_array_add(fields, g_strdup_printf("VGPUD_PART=%s", tag));
    add_fields(message, fields);
    for (guint i = 0; i < fields->len; i++)
        parts[i] = (struct iovec){fields->pdata[i], strlen(fields->pdata[i])};
    if (sd_journal_sendv(parts, (int)fields->len) < 0)
        fprintf(stderr, "<%d>%s: %s\n", (int)level, tag, message);
}

/* Returns whether standard error is connected to the journal. JOURNAL_STREAM contains the device
 * and inode of systemd's stream. */
static bool
stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void
vg_journald_attach(void)
{
    if (stderr_is_journal())
        vg_log_set_sink(send_journal, NULL);
}
