/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/text-read.h"
#include "trace/unpack.h"

#define INPUT_BLOCK (64 * 1024)
#define TEXT_BLOCK  (256 * 1024)

/* For a part, because many may be open. */
#define PART_INPUT_BLOCK (8 * 1024)
#define PART_TEXT_BLOCK  (32 * 1024)

G_STATIC_ASSERT(TEXT_BLOCK > 2 * VG_TEXT_LINE_MAX && PART_TEXT_BLOCK > 2 * VG_TEXT_LINE_MAX);

struct vg_text_source {
    char *path;         /* NULL: in memory */
    int fd;             /* -1: in memory */
    int64_t input_size; /* 0: unknown */
    int64_t consumed;   /* bytes of the input */
    const uint8_t *input;
    size_t input_len, input_pos;
    uint8_t *block;                 /* what input points to, for a file */
    size_t input_block, text_block; /* sizes of block and text */
    vg_unpack *unpack;              /* NULL: the text is plain */
    char *text;
    size_t begin, end; /* range that is not delivered yet */
    int64_t offset;    /* of text[begin], in the unpacked text */
    int64_t part_end;  /* end of the part, in the unpacked text; INT64_MAX: the end of the text */
    bool at_end;
    bool skipping; /* in a line that is too long */
    char *damage;
};

static void
damaged(vg_text_source *source, const char *what, const char *detail)
{
    source->damage = g_strdup_printf("%s (%s); the rest is not analysed", what, detail);
    source->at_end = true;
}

/* Reads the next block of a file. Returns false at the end of the input or after damage. */
static bool
more_input(vg_text_source *source)
{
    if (source->input_pos < source->input_len)
        return true;
    if (source->fd < 0)
        return false;

    ssize_t n;
    do
        n = read(source->fd, source->block, source->input_block);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        damaged(source, "reading failed", g_strerror(errno));
    if (n <= 0)
        return false;
    source->input_pos = 0;
    source->input_len = (size_t)n;
    source->consumed += n;
    return true;
}

static size_t
copy_plain(vg_text_source *source, char *buf, size_t size)
{
    if (!more_input(source)) {
        source->at_end = true;
        return 0;
    }
    size_t n = MIN(size, source->input_len - source->input_pos);
    memcpy(buf, source->input + source->input_pos, n);
    source->input_pos += n;
    return n;
}

/* After the end of a member, there is another one, or the end. xz files are padded with zeros, and
 * so are tape blocks. Anything else is ignored, as gzip(1) does. */
static void
next_member(vg_text_source *source)
{
    while (more_input(source) && source->input[source->input_pos] == 0)
        source->input_pos++;
    if (!more_input(source) ||
        !vg_unpack_continues(source->unpack, source->input[source->input_pos]))
        source->at_end = true;
}

static void
damaged_packing(vg_text_source *source, const char *what, const char *detail)
{
    g_autofree char *text =
        g_strdup_printf("the %s file is %s", vg_unpack_name(source->unpack), what);
    damaged(source, text, detail);
}

static size_t
unpack_some(vg_text_source *source, char *buf, size_t size)
{
    const bool have_input = more_input(source);
    struct vg_unpack_io io = {source->input + source->input_pos,
                              source->input_len - source->input_pos, buf, size};
    const char *why = NULL;

    if (source->damage)
        return 0;
    enum vg_unpack_result result = vg_unpack_step(source->unpack, &io, &why);
    source->input_pos = source->input_len - io.in_len;
    if (result == VG_UNPACK_DAMAGED)
        damaged_packing(source, "corrupt", why);
    else if (result == VG_UNPACK_END)
        next_member(source);
    else if (!have_input && io.out_len == size)
        damaged_packing(source, "cut short", "unexpected end of file");
    return size - io.out_len;
}

/* Appends to the text that is not delivered yet. Returns false if there is no more. */
static bool
more_text(vg_text_source *source)
{
    size_t got = 0;

    if (source->begin > 0) {
        memmove(source->text, source->text + source->begin, source->end - source->begin);
        source->end -= source->begin;
        source->begin = 0;
    }
    while (!source->at_end && got == 0) {
        char *buf = source->text + source->end;
        size_t size = source->text_block - source->end;
        got = source->unpack ? unpack_some(source, buf, size) : copy_plain(source, buf, size);
    }
    source->end += got;
    return got > 0;
}

static void
consume(vg_text_source *source, size_t n)
{
    source->begin += n;
    source->offset += (int64_t)n;
}

/* Returns the newline of the first line that is not delivered yet. Returns NULL if the input has
 * ended, or the line is too long to search further. */
static const char *
find_newline(vg_text_source *source)
{
    size_t searched = 0;

    for (;;) {
        const char *from = source->text + source->begin;
        size_t len = source->end - source->begin;
        const char *newline = memchr(from + searched, '\n', len - searched);
        if (newline || len > VG_TEXT_LINE_MAX)
            return newline;
        searched = len;
        if (!more_text(source))
            return NULL;
    }
}

/* Drops the rest of a line that is too long. */
static void
skip_line(vg_text_source *source)
{
    do {
        const char *from = source->text + source->begin;
        size_t len = source->end - source->begin;
        const char *newline = memchr(from, '\n', len);
        if (newline) {
            consume(source, (size_t)(newline - from) + 1);
            return;
        }
        consume(source, len);
    } while (more_text(source));
}

bool
vg_text_source_next(vg_text_source *source, struct vg_text_raw_line *ret)
{
    if (source->skipping) {
        skip_line(source);
        source->skipping = false;
    }
    if (source->offset >= source->part_end)
        return false;

    const char *newline = find_newline(source);
    const char *text = source->text + source->begin;
    size_t len = newline ? (size_t)(newline - text) : source->end - source->begin;
    if (!newline && (len == 0 || (source->damage && len <= VG_TEXT_LINE_MAX)))
        return false;

    *ret = (struct vg_text_raw_line){.offset = source->offset, .too_long = len > VG_TEXT_LINE_MAX};
    if (ret->too_long) {
        source->skipping = true;
        return true;
    }
    consume(source, len + (newline ? 1 : 0));
    if (len > 0 && text[len - 1] == '\r')
        len--;
    ret->text = (struct vg_text_span){text, len};
    return true;
}

/* Reads the first input block and determines whether it is packed. */
static int
text_source_start(vg_text_source *source, GError **err)
{
    source->text = g_malloc(source->text_block);
    source->part_end = INT64_MAX;
    if (!more_input(source)) {
        if (source->damage)
            return vg_error(err, VG_E_IO, "%s: %s", source->path, source->damage);
        return 0;
    }
    source->unpack = vg_unpack_new(source->input, source->input_len);
    return 0;
}

static vg_text_source *
text_source_open_blocks(const char *path, size_t input_block, size_t text_block, GError **err)
{
    g_autoptr(vg_text_source) source = g_new0(vg_text_source, 1);
    struct stat st;

    source->input_block = input_block;
    source->text_block = text_block;
    source->path = g_strdup(path);
    source->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &st) != 0) {
        vg_error_errno(err, errno, "cannot open '%s'", path);
        return NULL;
    }
    if (S_ISREG(st.st_mode))
        source->input_size = st.st_size;
    source->block = g_malloc(input_block);
    source->input = source->block;
    if (text_source_start(source, err) != 0)
        return NULL;
    return g_steal_pointer(&source);
}

vg_text_source *
vg_text_source_open(const char *path, GError **err)
{
    return text_source_open_blocks(path, INPUT_BLOCK, TEXT_BLOCK, err);
}

static vg_text_source *
text_source_memory_blocks(const char *text, size_t size, size_t text_block)
{
    g_autoptr(vg_text_source) source = g_new0(vg_text_source, 1);

    source->text_block = text_block;
    source->fd = -1;
    source->input = (const uint8_t *)text;
    source->input_len = size;
    source->input_size = (int64_t)size;
    (void)!text_source_start(source, NULL); /* reading from memory cannot fail */
    return g_steal_pointer(&source);
}

vg_text_source *
vg_text_source_memory(const char *text, size_t size)
{
    return text_source_memory_blocks(text, size, TEXT_BLOCK);
}

/* Advances to this byte of the unpacked text. */
static void
text_source_seek(vg_text_source *source, int64_t offset)
{
    if (source->fd >= 0 && !source->unpack && lseek(source->fd, offset, SEEK_SET) >= 0) {
        source->input_pos = source->input_len;
        source->consumed = source->offset = offset;
        return;
    }
    while (source->offset < offset) {
        if (source->begin == source->end && !more_text(source))
            return;
        consume(source,
                (size_t)MIN((int64_t)(source->end - source->begin), offset - source->offset));
    }
}

vg_text_source *
vg_text_source_part(const vg_text_source *source, int64_t begin, int64_t end, GError **err)
{
    vg_text_source *part = NULL;

    if (source->path)
        part = text_source_open_blocks(source->path, PART_INPUT_BLOCK, PART_TEXT_BLOCK, err);
    else
        part = text_source_memory_blocks((const char *)source->input, source->input_len,
                                         PART_TEXT_BLOCK);
    if (!part)
        return NULL;
    text_source_seek(part, begin);
    part->part_end = end;
    return part;
}

vg_text_source *
vg_text_source_again(const vg_text_source *source)
{
    if (!source->path)
        return vg_text_source_memory((const char *)source->input, source->input_len);
    return source->input_size > 0 ? vg_text_source_open(source->path, NULL) : NULL;
}

void
vg_text_source_free(vg_text_source *source)
{
    if (!source)
        return;
    vg_unpack_free(source->unpack);
    if (source->fd >= 0)
        close(source->fd);
    g_free(source->path);
    g_free(source->block);
    g_free(source->text);
    g_free(source->damage);
    g_free(source);
}

int64_t
vg_text_source_offset(const vg_text_source *source)
{
    return source->offset;
}

const char *
vg_text_source_damage(const vg_text_source *source)
{
    return source->damage;
}

double
vg_text_source_progress(const vg_text_source *source)
{
    int64_t left_over = (int64_t)(source->input_len - source->input_pos);
    int64_t consumed = source->fd < 0 ? (int64_t)source->input_pos : source->consumed - left_over;

    if (source->input_size <= 0)
        return 0;
    /* The file may grow while it is read. */
    return MIN(1.0, (double)consumed / (double)source->input_size);
}

size_t
vg_text_source_head(vg_text_source *source, char *buf, size_t size)
{
    if (source->begin == source->end)
        more_text(source);
    size_t n = MIN(size, source->end - source->begin);
    memcpy(buf, source->text + source->begin, n);
    return n;
}

const char *
vg_text_source_packing(const vg_text_source *source)
{
    return source->unpack ? vg_unpack_name(source->unpack) : NULL;
}
