/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-repair.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"

#define COPY_CHUNK (1 << 20)

int64_t
ctf_file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* ---- runs of packets ---- */

/* Returns whether the file ends inside the packet at `offset`. */
static bool
cut_packet(const struct ctf_file *file, int64_t offset, const struct ctf_head *head,
           struct ctf_segment *ret)
{
    if (!head->sane || head->packet_size == 0 || offset + head->packet_size <= file->size)
        return false;
    *ret = (struct ctf_segment){
        .offset = offset,
        .length = file->size - offset,
        .padded = head->packet_size,
        .complete = head->content_size > 0 && offset + head->content_size <= file->size,
    };
    return true;
}

/* Returns whether two packets belong to one stream, by the id that follows their UUID. babeltrace2
 * refuses all packets of a file that contains another stream's. */
static bool
is_same_stream(const struct ctf_layout *layout, const struct ctf_head *a, const struct ctf_head *b)
{
    const size_t at = CTF_MAGIC_SIZE + CTF_UUID_SIZE, size = sizeof(uint32_t);

    return layout->n_uuids == 0 || a->length < at + size || b->length < at + size ||
           memcmp(a->bytes + at, b->bytes + at, size) == 0;
}

/* Finds the complete packets from `offset` on that follow each other without a gap. */
static bool
whole_packets(const struct ctf_layout *layout, const struct ctf_file *file, int64_t offset,
              struct ctf_segment *ret)
{
    int64_t end = offset;
    struct ctf_head head, first = {0};

    while (end < file->size && end - offset < CTF_SEGMENT_MAX &&
           ctf_head_read(layout, file, end, &head)) {
        if (!head.sane || head.packet_size == 0 || end + head.packet_size > file->size)
            break;
        if (end == offset)
            first = head;
        else if (!is_same_stream(layout, &first, &head))
            break;
        /* A size that includes the start of the next packet is wrong. */
        int64_t next = end + head.packet_size;
        if (ctf_find_start(layout, file, end + CTF_MAGIC_SIZE, next) < next)
            break;
        end = next;
    }
    *ret = (struct ctf_segment){
        .offset = offset, .length = end - offset, .padded = end - offset, .complete = true};
    return end > offset;
}

int
ctf_segment_next(const struct ctf_layout *layout, const char *path, int64_t from,
                 struct ctf_segment *ret, GError **err)
{
    CTF_AUTO_FILE file = {.fd = -1};
    struct ctf_head head;

    if (ctf_file_open(&file, path, err) < 0)
        return -1;
    for (;;) {
        int64_t start = ctf_find_start(layout, &file, from, file.size);
        if (start >= file.size || !ctf_head_read(layout, &file, start, &head))
            return 0;
        if (whole_packets(layout, &file, start, ret))
            return 1;
        int64_t next = ctf_find_start(layout, &file, start + CTF_MAGIC_SIZE, file.size);
        if (next >= file.size)
            return cut_packet(&file, start, &head, ret) ? 1 : 0;
        from = next;
    }
}

/* ---- private directories ---- */

/* The length stays the same, so that packetised metadata keeps its packets. */
static void
disguise_tracer(char *text, size_t length)
{
    static const char name[] = "lttng-modules", other[] = "lttng_modules";

    for (size_t i = 0; i + sizeof(name) <= length; i++) {
        if (text[i] == 'l' && memcmp(text + i, name, sizeof(name) - 1) == 0)
            memcpy(text + i, other, sizeof(other) - 1);
    }
}

static int
copy_metadata(const char *private_dir, const char *metadata, bool mend, GError **err)
{
    g_autofree char *copy = g_build_filename(private_dir, "metadata", NULL);
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    gsize length;

    if (!g_file_get_contents(metadata, &text, &length, &error))
        return vg_error(err, VG_E_IO, "%s", error->message);
    if (!mend)
        disguise_tracer(text, length);
    if (ctf_metadata_lacks_mark(text, length)) {
        char *marked = g_malloc(length + sizeof(CTF_METADATA_MARK));
        memcpy(marked, CTF_METADATA_MARK, sizeof(CTF_METADATA_MARK) - 1);
        memcpy(marked + sizeof(CTF_METADATA_MARK) - 1, text, length);
        g_free(text);
        text = marked;
        length += sizeof(CTF_METADATA_MARK) - 1;
    }
    if (!g_file_set_contents(copy, text, (gssize)length, &error))
        return vg_error(err, VG_E_IO, "%s", error->message);
    return 0;
}

/* A signal that would end the process waits until the directory is removed. Directories may be
 * nested. */
static _Thread_local unsigned int private_dirs;
static _Thread_local sigset_t mask_before;

static void
hold_signals(void)
{
    static const int ending[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    sigset_t set;

    if (private_dirs++ > 0)
        return;
    sigemptyset(&set);
    for (size_t i = 0; i < G_N_ELEMENTS(ending); i++)
        sigaddset(&set, ending[i]);
    pthread_sigmask(SIG_BLOCK, &set, &mask_before);
}

static void
release_signals(void)
{
    if (--private_dirs == 0)
        pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
}

char *
ctf_private_dir_new(const char *dir, bool mend, GError **err)
{
    g_autofree char *name = g_build_filename(g_get_tmp_dir(), "vgpud-XXXXXX", NULL);
    g_autofree char *metadata = g_build_filename(dir, "metadata", NULL);

    hold_signals();
    if (!g_mkdtemp(name)) {
        vg_error_errno(err, errno, "cannot create the directory '%s'", name);
        release_signals();
        return NULL;
    }
    if (copy_metadata(name, metadata, mend, err) < 0) {
        ctf_private_dir_remove(name);
        return NULL;
    }
    return g_steal_pointer(&name);
}

int
ctf_private_dir_link(const char *private_dir, const char *path, GError **err)
{
    g_autofree char *base = g_path_get_basename(path);
    g_autofree char *target = g_canonicalize_filename(path, NULL);
    g_autofree char *link = g_build_filename(private_dir, base, NULL);

    if (symlink(target, link) != 0)
        return vg_error_errno(err, errno, "cannot link '%s' to '%s'", link, target);
    return 0;
}

static int
copy_bytes(int from, int64_t offset, int to, int64_t length, const char *path, GError **err)
{
    g_autofree uint8_t *chunk = g_malloc(COPY_CHUNK);

    while (length > 0) {
        ssize_t n = pread(from, chunk, (size_t)MIN(length, COPY_CHUNK), offset);
        if (n <= 0)
            return vg_error_errno(err, n < 0 ? errno : EIO, "cannot read '%s'", path);
        if (write(to, chunk, (size_t)n) != n)
            return vg_error_errno(err, errno, "cannot copy part of '%s' to %s", path,
                                  g_get_tmp_dir());
        offset += n;
        length -= n;
    }
    return 0;
}

/* Pads with 0xff, because zeros would decode as thousands of events. 0xff is not an event id in any
 * header of LTTng or perf. All bytes must be 0xff, because a truncated string continues to the
 * first other byte. */
static int
pad(int to, const struct ctf_segment *segment, const char *path, GError **err)
{
    g_autofree uint8_t *chunk = g_malloc(COPY_CHUNK);

    memset(chunk, 0xff, COPY_CHUNK);
    for (int64_t left = segment->padded - segment->length; left > 0; left -= COPY_CHUNK) {
        ssize_t n = (ssize_t)MIN(left, COPY_CHUNK);
        if (write(to, chunk, (size_t)n) != n)
            return vg_error_errno(err, errno, "cannot copy part of '%s' to %s", path,
                                  g_get_tmp_dir());
    }
    return 0;
}

int
ctf_private_dir_copy(const char *private_dir, const char *path, const struct ctf_segment *segment,
                     GError **err)
{
    CTF_AUTO_FILE file = {.fd = -1};
    g_autofree char *base = g_path_get_basename(path);
    g_autofree char *copy = g_build_filename(private_dir, base, NULL);

    if (ctf_file_open(&file, path, err) < 0)
        return -1;
    int to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return vg_error_errno(err, errno, "cannot create '%s'", copy);
    int status = copy_bytes(file.fd, segment->offset, to, segment->length, path, err);
    if (status == 0)
        status = pad(to, segment, path, err);
    if (close(to) != 0 && status == 0)
        status = vg_error_errno(err, errno, "cannot write '%s'", copy);
    return status;
}

void
ctf_private_dir_remove(const char *private_dir)
{
    const char *name;
    GDir *dir = g_dir_open(private_dir, 0, NULL);

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(private_dir, name, NULL);
        g_unlink(path);
    }
    if (dir)
        g_dir_close(dir);
    g_rmdir(private_dir);
    release_signals();
}

void
ctf_private_dir_name_original(GError *error, const char *private_dir, const char *dir)
{
    GString *message = g_string_new(error->message);

    g_string_replace(message, private_dir, dir, 0);
    g_free(error->message);
    error->message = g_string_free(message, FALSE);
}
