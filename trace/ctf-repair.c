/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-repair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"

/* CTF 1.8: every packet begins with this, in the byte order of the trace, then usually the UUID. */
#define MAGIC_SIZE 4
static const uint8_t magic_le[MAGIC_SIZE] = {0xc1, 0x1f, 0xfc, 0xc1};
static const uint8_t magic_be[MAGIC_SIZE] = {0xc1, 0xfc, 0x1f, 0xc1};

/* Header and context of a packet fit in this; the sizes stand somewhere in them. */
#define HEAD_SIZE 256

/* No tracer makes packets longer than this; larger "sizes" are something else. */
#define PACKET_SIZE_MAX (INT64_C(1) << 30)

#define PACKETS_TO_LEARN_FROM 64
#define SEARCH_CHUNK          (1 << 20)
#define METADATA_MAX          (64 << 20)

struct head {
    uint8_t bytes[HEAD_SIZE];
    size_t length; /* less than HEAD_SIZE near the end of the file */
    bool big_endian;
};

struct stream_file {
    int fd;
    int64_t size;
};

static void
stream_file_close(struct stream_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
}

#define AUTO_STREAM_FILE __attribute__((cleanup(stream_file_close))) struct stream_file

static int
stream_file_open(struct stream_file *file, const char *path, GError **err)
{
    struct stat st;

    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &st) != 0)
        return vg_error_errno(err, errno, "cannot read '%s'", path);
    file->size = st.st_size;
    return 0;
}

/* ---- packet heads ---- */

static bool
is_uuid(const struct ctf_layout *layout, const uint8_t *bytes)
{
    for (unsigned int i = 0; i < layout->n_uuids; i++) {
        if (memcmp(layout->uuids[i], bytes, CTF_UUID_SIZE) == 0)
            return true;
    }
    return layout->n_uuids == 0;
}

static bool
is_packet_start(const struct ctf_layout *layout, const uint8_t *bytes, size_t length)
{
    if (length < MAGIC_SIZE + (layout->n_uuids > 0 ? CTF_UUID_SIZE : 0))
        return false;
    return (memcmp(bytes, magic_le, MAGIC_SIZE) == 0 || memcmp(bytes, magic_be, MAGIC_SIZE) == 0) &&
           is_uuid(layout, bytes + MAGIC_SIZE);
}

static bool
read_head(const struct ctf_layout *layout, const struct stream_file *file, int64_t offset,
          struct head *ret)
{
    ssize_t n = pread(file->fd, ret->bytes, HEAD_SIZE, offset);

    ret->length = n > 0 ? (size_t)n : 0;
    ret->big_endian = ret->length >= MAGIC_SIZE && memcmp(ret->bytes, magic_be, MAGIC_SIZE) == 0;
    return is_packet_start(layout, ret->bytes, ret->length);
}

static uint64_t
read_u64(const struct head *head, int at)
{
    uint64_t value;

    memcpy(&value, head->bytes + at, sizeof(value));
    return head->big_endian ? GUINT64_FROM_BE(value) : GUINT64_FROM_LE(value);
}

/* A size in bits at `at`, as bytes; 0 if there is none or it cannot be a packet's. */
static int64_t
size_from(const struct head *head, int at)
{
    if (at < 0 || (size_t)at + sizeof(uint64_t) > head->length)
        return 0;
    uint64_t bits = read_u64(head, at);
    if (bits % 8 != 0 || bits / 8 > (uint64_t)PACKET_SIZE_MAX || bits / 8 <= (uint64_t)at)
        return 0;
    return (int64_t)(bits / 8);
}

/* Without a chain of packets to learn from: both tracers write content and packet size side by
 * side, the first not larger than the second. */
static int
guess_size_at(const struct head *head)
{
    for (int at = MAGIC_SIZE + 8; at + 8 <= HEAD_SIZE; at += 4) {
        int64_t content = size_from(head, at - 8);
        if (content > 0 && size_from(head, at) >= content)
            return at;
    }
    return CTF_UNKNOWN_AT;
}

static int64_t
packet_size(const struct ctf_layout *layout, const struct head *head)
{
    return size_from(head,
                     layout->size_at == CTF_UNKNOWN_AT ? guess_size_at(head) : layout->size_at);
}

/* Offset of the first packet start at or after from, or the file's size. */
static int64_t
find_start(const struct ctf_layout *layout, const struct stream_file *file, int64_t from)
{
    g_autofree uint8_t *chunk = g_malloc(SEARCH_CHUNK);
    const int64_t overlap = MAGIC_SIZE + CTF_UUID_SIZE - 1;

    while (from < file->size) {
        ssize_t n = pread(file->fd, chunk, SEARCH_CHUNK, from);
        if (n <= 0)
            break;
        const uint8_t *at = chunk, *end = chunk + n;
        while ((at = memchr(at, magic_le[0], (size_t)(end - at)))) {
            if (is_packet_start(layout, at, (size_t)(end - at)))
                return from + (at - chunk);
            at++;
        }
        if (n <= overlap)
            break;
        from += n - overlap;
    }
    return file->size;
}

/* ---- learning ---- */

static int
hex_digit(char c)
{
    return g_ascii_isxdigit(c) ? g_ascii_xdigit_value(c) : -1;
}

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
static bool
parse_uuid(const char *text, uint8_t *ret)
{
    size_t n = 0;

    for (; n < CTF_UUID_SIZE; n++) {
        if (*text == '-')
            text++;
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return false;
        ret[n] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    return *text == '"';
}

/* The metadata may be packetised, but its text is readable in the bytes all the same, save where a
 * packet header interrupts it. */
static void
learn_uuids(struct ctf_layout *layout, const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "metadata", NULL);
    g_autofree char *text = NULL;
    gsize length = 0;
    struct stat st;

    if (stat(path, &st) != 0 || st.st_size > METADATA_MAX ||
        !g_file_get_contents(path, &text, &length, NULL))
        return;
    for (size_t i = 0; i < length && layout->n_uuids < CTF_UUIDS_MAX; i++) {
        static const char key[] = "uuid";
        if (text[i] != 'u' || strncmp(text + i, key, sizeof(key) - 1) != 0)
            continue;
        const char *value = text + i + sizeof(key) - 1;
        value += strspn(value, " \t=");
        if (*value == '"' && parse_uuid(value + 1, layout->uuids[layout->n_uuids]))
            layout->n_uuids++;
    }
}

/* How many packets of the file follow each other if their size stands at `at`. */
static unsigned int
chain_length(const struct ctf_layout *layout, const struct stream_file *file, int at)
{
    unsigned int n = 0;
    int64_t offset = find_start(layout, file, 0);
    struct head head;

    while (n < PACKETS_TO_LEARN_FROM && read_head(layout, file, offset, &head)) {
        int64_t size = size_from(&head, at);
        if (size == 0 || offset + size > file->size)
            break;
        offset += size;
        if (offset < file->size && !read_head(layout, file, offset, &head))
            break;
        n++;
    }
    return n;
}

/* Where the content is as long as the packet, both of its sizes fit; the packet's comes second. */
static void
learn_size_at(struct ctf_layout *layout, const GPtrArray *paths)
{
    unsigned int best = 0;

    for (int at = MAGIC_SIZE; at + 8 <= HEAD_SIZE; at += 4) {
        unsigned int score = 0;
        for (unsigned int i = 0; i < paths->len; i++) {
            AUTO_STREAM_FILE file = {.fd = -1};
            if (stream_file_open(&file, g_ptr_array_index(paths, i), NULL) == 0)
                score += chain_length(layout, &file, at);
        }
        if (score > 0 && score >= best) {
            best = score;
            layout->size_at = at;
        }
    }
}

void
ctf_layout_learn(struct ctf_layout *layout, const char *dir, const GPtrArray *paths)
{
    *layout = (struct ctf_layout){.size_at = CTF_UNKNOWN_AT};
    learn_uuids(layout, dir);
    learn_size_at(layout, paths);
}

/* ---- runs of packets ---- */

/* The file ends inside the packet at `offset`. */
static bool
cut_packet(const struct ctf_layout *layout, const struct stream_file *file, int64_t offset,
           const struct head *head, struct ctf_segment *ret)
{
    int at = layout->size_at == CTF_UNKNOWN_AT ? guess_size_at(head) : layout->size_at;
    int64_t size = size_from(head, at);

    if (size == 0 || offset + size <= file->size)
        return false;
    int64_t content = size_from(head, at - 8);
    *ret = (struct ctf_segment){
        .offset = offset,
        .length = file->size - offset,
        .padded = size,
        .complete = content > 0 && offset + content <= file->size,
    };
    return true;
}

/* The whole packets from `offset` on that follow each other without a gap. */
static bool
whole_packets(const struct ctf_layout *layout, const struct stream_file *file, int64_t offset,
              struct ctf_segment *ret)
{
    int64_t end = offset;
    struct head head;

    while (end < file->size && end - offset < CTF_SEGMENT_MAX &&
           read_head(layout, file, end, &head)) {
        int64_t size = packet_size(layout, &head);
        if (size == 0 || end + size > file->size)
            break;
        /* A size that swallows the start of the next packet is not to be trusted. */
        if (find_start(layout, file, end + MAGIC_SIZE) < end + size)
            break;
        end += size;
    }
    *ret = (struct ctf_segment){
        .offset = offset, .length = end - offset, .padded = end - offset, .complete = true};
    return end > offset;
}

int
ctf_segment_next(const struct ctf_layout *layout, const char *path, int64_t from,
                 struct ctf_segment *ret, GError **err)
{
    AUTO_STREAM_FILE file = {.fd = -1};
    struct head head;

    if (stream_file_open(&file, path, err) < 0)
        return -1;
    for (;;) {
        int64_t start = find_start(layout, &file, from);
        if (start >= file.size || !read_head(layout, &file, start, &head))
            return 0;
        if (whole_packets(layout, &file, start, ret))
            return 1;
        int64_t next = find_start(layout, &file, start + MAGIC_SIZE);
        if (next >= file.size)
            return cut_packet(layout, &file, start, &head, ret) ? 1 : 0;
        from = next;
    }
}

int64_t
ctf_packet_length(const struct ctf_layout *layout, int fd, int64_t offset)
{
    const struct stream_file file = {.fd = fd};
    struct head head;

    return fd >= 0 && read_head(layout, &file, offset, &head) ? packet_size(layout, &head) : 0;
}

bool
ctf_packet_times(const struct ctf_layout *layout, int fd, int64_t offset, uint64_t *ret_begin,
                 uint64_t *ret_end)
{
    const struct stream_file file = {.fd = fd};
    const int begin_at = layout->size_at - 24, end_at = layout->size_at - 16;
    struct head head;

    if (fd < 0 || begin_at < MAGIC_SIZE || !read_head(layout, &file, offset, &head) ||
        (size_t)layout->size_at > head.length)
        return false;
    *ret_begin = read_u64(&head, begin_at);
    *ret_end = read_u64(&head, end_at);
    return true;
}

int64_t
ctf_file_size(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* ---- private directories ---- */

char *
ctf_private_dir_new(const char *dir, GError **err)
{
    g_autofree char *name = g_build_filename(g_get_tmp_dir(), "vgpud-XXXXXX", NULL);
    g_autofree char *metadata = g_build_filename(dir, "metadata", NULL);

    if (!g_mkdtemp(name)) {
        vg_error_errno(err, errno, "cannot make a directory '%s'", name);
        return NULL;
    }
    if (ctf_private_dir_link(name, metadata, err) < 0) {
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
    g_autofree uint8_t *chunk = g_malloc(SEARCH_CHUNK);

    while (length > 0) {
        ssize_t n = pread(from, chunk, (size_t)MIN(length, SEARCH_CHUNK), offset);
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

/* Zeros would decode as thousands of events; 0xff is no event's id in any header of LTTng or perf.
 * All of it has to be 0xff: a string that was cut goes on to the first other byte. */
static int
pad(int to, const struct ctf_segment *segment, const char *path, GError **err)
{
    g_autofree uint8_t *chunk = g_malloc(SEARCH_CHUNK);

    memset(chunk, 0xff, SEARCH_CHUNK);
    for (int64_t left = segment->padded - segment->length; left > 0; left -= SEARCH_CHUNK) {
        ssize_t n = (ssize_t)MIN(left, SEARCH_CHUNK);
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
    AUTO_STREAM_FILE file = {.fd = -1};
    g_autofree char *base = g_path_get_basename(path);
    g_autofree char *copy = g_build_filename(private_dir, base, NULL);

    if (stream_file_open(&file, path, err) < 0)
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
}
