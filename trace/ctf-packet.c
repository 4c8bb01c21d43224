/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-packet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "model/event.h"

/* CTF 1.8: every packet starts with this magic number in the trace's byte order, usually followed
 * by the UUID. */
static const uint8_t magic_le[CTF_MAGIC_SIZE] = {0xc1, 0x1f, 0xfc, 0xc1};
static const uint8_t magic_be[CTF_MAGIC_SIZE] = {0xc1, 0xfc, 0x1f, 0xc1};

/* The header of a packet of packetised metadata: magic, UUID, checksum, sizes in bits, four bytes
 * of schemes and two of version (CTF 1.8.3, 7.1). */
#define METADATA_MAGIC      0x75d11d57U
#define METADATA_CONTENT_AT 24
#define METADATA_SIZE_AT    28
#define METADATA_HEAD_SIZE  37

#define RECORD_SEPARATOR 0x1e

/* No tracer writes packets longer than this. Larger values are not sizes. */
#define PACKET_SIZE_MAX (INT64_C(1) << 30)

/* babeltrace2 aborts if clock value plus offset exceed 2^63. */
#define CLOCK_LIMIT ((uint64_t)VG_TIME_MAX)

/* In a comment at the start of the metadata that babeltrace2 writes. */
#define SINK_MARK "Babeltrace `sink.ctf.fs`"

#define PACKETS_TO_LEARN_FROM 64
#define SEARCH_CHUNK          (1 << 20)
#define METADATA_MAX          (64 << 20)

int
ctf_file_open(struct ctf_file *ret, const char *path, GError **err)
{
    struct stat st;

    ret->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (ret->fd < 0 || fstat(ret->fd, &st) != 0)
        return vg_error_errno(err, errno, "cannot read '%s'", path);
    ret->size = st.st_size;
    return 0;
}

void
ctf_file_close(struct ctf_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* ---- heads ---- */

bool
ctf_has_magic(const uint8_t *bytes)
{
    return memcmp(bytes, magic_le, CTF_MAGIC_SIZE) == 0 ||
           memcmp(bytes, magic_be, CTF_MAGIC_SIZE) == 0;
}

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
    if (length < CTF_MAGIC_SIZE + (layout->n_uuids > 0 ? CTF_UUID_SIZE : 0))
        return false;
    return ctf_has_magic(bytes) && is_uuid(layout, bytes + CTF_MAGIC_SIZE);
}

static uint64_t
read_u64(const struct ctf_head *head, int at)
{
    uint64_t value;

    memcpy(&value, head->bytes + at, sizeof(value));
    return head->big_endian ? GUINT64_FROM_BE(value) : GUINT64_FROM_LE(value);
}

/* Returns the size in bits at `at`, in bytes, or 0 if there is none or it cannot be a packet's. */
static int64_t
size_from(const struct ctf_head *head, int at)
{
    if (at < 0 || (size_t)at + sizeof(uint64_t) > head->length)
        return 0;
    uint64_t bits = read_u64(head, at);
    if (bits % 8 != 0 || bits / 8 > (uint64_t)PACKET_SIZE_MAX || bits / 8 <= (uint64_t)at)
        return 0;
    return (int64_t)(bits / 8);
}

static bool
read_bytes(const struct ctf_layout *layout, const struct ctf_file *file, int64_t offset,
           struct ctf_head *ret)
{
    ssize_t n = pread(file->fd, ret->bytes, CTF_HEAD_SIZE, offset);

    ret->length = n > 0 ? (size_t)n : 0;
    ret->big_endian =
        ret->length >= CTF_MAGIC_SIZE && memcmp(ret->bytes, magic_be, CTF_MAGIC_SIZE) == 0;
    return is_packet_start(layout, ret->bytes, ret->length);
}

static bool
times_fit(uint64_t begin, uint64_t end)
{
    return begin < CLOCK_LIMIT && end < CLOCK_LIMIT && (end == 0 || begin <= end);
}

static bool
is_sane(const struct ctf_layout *layout, const struct ctf_head *head)
{
    if (layout->has_sizes && head->packet_size == 0)
        return false;
    if (layout->content_at != CTF_UNKNOWN_AT &&
        (head->content_size == 0 || head->content_size > head->packet_size))
        return false;
    return !head->has_times || times_fit(head->begin, head->end);
}

bool
ctf_head_read(const struct ctf_layout *layout, const struct ctf_file *file, int64_t offset,
              struct ctf_head *ret)
{
    if (!read_bytes(layout, file, offset, ret))
        return false;
    int times_at = layout->times_at;
    ret->packet_size = size_from(ret, layout->size_at);
    ret->content_size = size_from(ret, layout->content_at);
    ret->has_times = times_at != CTF_UNKNOWN_AT && (size_t)times_at + 16 <= ret->length;
    ret->begin = ret->has_times ? read_u64(ret, times_at) : 0;
    ret->end = ret->has_times ? read_u64(ret, times_at + 8) : 0;
    ret->seq = layout->seq_at != CTF_UNKNOWN_AT && (size_t)layout->seq_at + 8 <= ret->length
                   ? read_u64(ret, layout->seq_at)
                   : 0;
    ret->sane = is_sane(layout, ret);
    return true;
}

int64_t
ctf_find_start(const struct ctf_layout *layout, const struct ctf_file *file, int64_t from,
               int64_t limit)
{
    const int64_t overlap = CTF_MAGIC_SIZE + CTF_UUID_SIZE - 1;
    const size_t size = (size_t)CLAMP(limit - from + overlap, overlap + 1, SEARCH_CHUNK);
    g_autofree uint8_t *chunk = g_malloc(size);

    while (from < limit) {
        ssize_t n = pread(file->fd, chunk, size, from);
        if (n <= 0)
            break;
        const uint8_t *at = chunk, *end = chunk + n;
        while ((at = memchr(at, magic_le[0], (size_t)(end - at)))) {
            if (is_packet_start(layout, at, (size_t)(end - at)))
                return MIN(from + (at - chunk), limit);
            at++;
        }
        if (n <= overlap)
            break;
        from += n - overlap;
    }
    return limit;
}

/* ---- learning ---- */

/* Parses "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx". */
static bool
parse_uuid(const char *text, uint8_t *ret)
{
    for (size_t n = 0; n < CTF_UUID_SIZE; n++) {
        if (*text == '-')
            text++;
        if (!g_ascii_isxdigit(text[0]) || !g_ascii_isxdigit(text[1]))
            return false;
        ret[n] = (uint8_t)(g_ascii_xdigit_value(text[0]) << 4 | g_ascii_xdigit_value(text[1]));
        text += 2;
    }
    return *text == '"';
}

static bool
contains(const char *text, size_t length, const char *word)
{
    return memmem(text, length, word, strlen(word)) != NULL;
}

static void
learn_uuids(struct ctf_layout *layout, const char *text, size_t length)
{
    static const char key[] = "uuid";

    for (size_t i = 0; i < length && layout->n_uuids < CTF_UUIDS_MAX; i++) {
        if (text[i] != 'u' || strncmp(text + i, key, sizeof(key) - 1) != 0)
            continue;
        const char *value = text + i + sizeof(key) - 1;
        value += strspn(value, " \t=");
        if (*value == '"' && parse_uuid(value + 1, layout->uuids[layout->n_uuids]))
            layout->n_uuids++;
    }
}

/* The layout of LTTng and perf. The header has magic, UUID, stream id and, since 2.8, a stream
 * instance id. The context has begin, end, content size and packet size, 8 bytes each. */
static void
assume_usual_layout(struct ctf_layout *layout, bool has_instance_id)
{
    const int header = CTF_MAGIC_SIZE + CTF_UUID_SIZE + 4 + (has_instance_id ? 8 : 0);

    layout->times_at = header;
    layout->content_at = header + 16;
    layout->size_at = header + 24;
}

/* The layout of babeltrace2's sink.ctf.fs, whatever the source: magic, UUID, stream id and stream
 * instance id, 8 bytes each; then packet size, content size, and the times if there are any. */
static void
assume_sink_layout(struct ctf_layout *layout, bool has_times)
{
    const int header = CTF_MAGIC_SIZE + CTF_UUID_SIZE + 8 + 8;

    layout->size_at = header;
    layout->content_at = header + 8;
    layout->times_at = has_times ? header + 16 : CTF_UNKNOWN_AT;
}

/* Detects the layout from the metadata. Even packetised metadata contains readable text, except
 * where a packet header interrupts it. Returns whether the tracer's layout is known. */
static bool
learn_from_metadata(struct ctf_layout *layout, const char *dir)
{
    g_autofree char *path = g_build_filename(dir, "metadata", NULL);
    g_autofree char *text = NULL;
    gsize length = 0;
    struct stat st;

    if (stat(path, &st) != 0 || st.st_size > METADATA_MAX ||
        !g_file_get_contents(path, &text, &length, NULL))
        return false;
    layout->lacks_mark = ctf_metadata_lacks_mark(text, length);
    layout->has_sizes = contains(text, length, "packet_size");
    learn_uuids(layout, text, length);
    if (layout->has_sizes && contains(text, length, SINK_MARK)) {
        assume_sink_layout(layout, contains(text, length, "timestamp_begin;") &&
                                       contains(text, length, "timestamp_end;"));
        return true;
    }
    if (layout->has_sizes)
        assume_usual_layout(layout, contains(text, length, "stream_instance_id"));
    bool is_lttng = contains(text, length, "\"lttng-");
    /* After the sizes, since 2.8. */
    if (layout->has_sizes && is_lttng && contains(text, length, "packet_seq_num"))
        layout->seq_at = layout->times_at + 32;
    return is_lttng || contains(text, length, "\"perf\"");
}

/* How the packets of a file follow each other if their size is at `at`. */
struct chain {
    unsigned int packets;
    unsigned int contents; /* number of them preceded by a matching content size */
    unsigned int times;    /* number of these preceded by matching times */
};

static void
follow(const struct ctf_layout *layout, const struct ctf_file *file, int at, struct chain *chain)
{
    int64_t offset = ctf_find_start(layout, file, 0, file->size);
    struct ctf_head head;

    for (unsigned int n = 0; n < PACKETS_TO_LEARN_FROM; n++) {
        if (!read_bytes(layout, file, offset, &head))
            return;
        int64_t size = size_from(&head, at);
        int64_t content = size_from(&head, at - 8);
        if (size == 0 || offset + size > file->size)
            return;
        uint64_t begin = at >= 24 ? read_u64(&head, at - 24) : CLOCK_LIMIT;
        uint64_t end = at >= 24 ? read_u64(&head, at - 16) : CLOCK_LIMIT;
        offset += size;
        if (offset < file->size && !read_bytes(layout, file, offset, &head))
            return;
        chain->packets++;
        if (content == 0 || content > size)
            continue;
        chain->contents++;
        chain->times += at - 24 >= CTF_MAGIC_SIZE && times_fit(begin, end);
    }
}

/* Chooses between the two sizes. If the content is as long as the packet, both lead to the next
 * packet. The packet size is the second one. */
static void
learn_size_at(struct ctf_layout *layout, const GPtrArray *paths)
{
    unsigned int best = 0;

    for (int at = CTF_MAGIC_SIZE; at + 8 <= CTF_HEAD_SIZE; at += 4) {
        struct chain chain = {0};
        for (unsigned int i = 0; i < paths->len; i++) {
            CTF_AUTO_FILE file = {.fd = -1};
            if (ctf_file_open(&file, g_ptr_array_index(paths, i), NULL) == 0)
                follow(layout, &file, at, &chain);
        }
        if (chain.packets > 0 && chain.packets >= best) {
            best = chain.packets;
            bool has_content = chain.contents * 2 >= chain.packets;
            bool has_times = chain.times > 0 && chain.times * 2 >= chain.packets;
            layout->size_at = at;
            layout->content_at = has_content ? at - 8 : CTF_UNKNOWN_AT;
            layout->times_at = has_times ? at - 24 : CTF_UNKNOWN_AT;
        }
    }
}

void
ctf_layout_learn(struct ctf_layout *layout, const char *dir, const GPtrArray *paths)
{
    *layout = (struct ctf_layout){
        .size_at = CTF_UNKNOWN_AT,
        .content_at = CTF_UNKNOWN_AT,
        .times_at = CTF_UNKNOWN_AT,
        .seq_at = CTF_UNKNOWN_AT,
    };
    if (!learn_from_metadata(layout, dir) && layout->has_sizes)
        learn_size_at(layout, paths);
}

/* ---- judging ---- */

bool
ctf_file_is_sound(const struct ctf_layout *layout, const char *path)
{
    CTF_AUTO_FILE file = {.fd = -1};
    struct ctf_head head;
    int64_t offset = 0;

    if (!layout->has_sizes)
        return true;
    if (ctf_file_open(&file, path, NULL) < 0)
        return false;
    while (offset < file.size) {
        if (!ctf_head_read(layout, &file, offset, &head) || !head.sane)
            return false;
        offset += head.packet_size;
    }
    return offset == file.size;
}

static uint32_t
metadata_u32(const uint8_t *bytes, bool swapped)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return swapped ? GUINT32_SWAP_LE_BE(value) : value;
}

bool
ctf_metadata_lacks_mark(const char *text, size_t length)
{
    static const char mark[] = "/* CTF ";

    for (size_t i = 0; i < sizeof(mark); i++) {
        if (i == length || !(g_ascii_isprint(text[i]) || g_ascii_isspace(text[i])))
            return false;
    }
    return memcmp(text, mark, sizeof(mark) - 1) != 0;
}

/* CTF 2 describes itself in JSON. Each piece starts with a record separator. */
static int
ctf_packet_check_version(const uint8_t *text, GError **err)
{
    if (text[0] != RECORD_SEPARATOR)
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "this trace is CTF 2, but only CTF 1.8 is supported; convert it with "
                    "babeltrace2 2.1: `babeltrace2 TRACE -c sink.ctf.fs -p "
                    "'path=\"NEW\",ctf-version=\"1\"'`");
}

int
ctf_metadata_check(const char *path, int64_t *ret_offset, GError **err)
{
    CTF_AUTO_FILE file = {.fd = -1};
    uint8_t head[METADATA_HEAD_SIZE];

    *ret_offset = 0;
    if (ctf_file_open(&file, path, err) < 0)
        return -1;
    /* babeltrace2 2.1 ends the program in this case. */
    if (file.size == 0)
        return vg_error(err, VG_E_INVALID, "the metadata is empty");
    if (pread(file.fd, head, sizeof(head), 0) < CTF_MAGIC_SIZE)
        return 0;
    bool swapped = metadata_u32(head, true) == METADATA_MAGIC;
    if (!swapped && metadata_u32(head, false) != METADATA_MAGIC)
        return ctf_packet_check_version(head, err);
    uint8_t first;
    if (pread(file.fd, &first, 1, METADATA_HEAD_SIZE) == 1 &&
        ctf_packet_check_version(&first, err) < 0)
        return -1;
    for (int64_t offset = 0; offset < file.size;) {
        *ret_offset = offset;
        if (pread(file.fd, head, sizeof(head), offset) != sizeof(head))
            return vg_error(err, VG_E_INVALID,
                            "the metadata is truncated in the packet header at %" G_GINT64_FORMAT,
                            offset);
        int64_t content = metadata_u32(head + METADATA_CONTENT_AT, swapped) / 8;
        int64_t size = metadata_u32(head + METADATA_SIZE_AT, swapped) / 8;
        if (metadata_u32(head, swapped) != METADATA_MAGIC || content < METADATA_HEAD_SIZE ||
            content > size)
            return vg_error(err, VG_E_INVALID,
                            "the metadata packet at %" G_GINT64_FORMAT " is damaged", offset);
        if (size > file.size - offset)
            return vg_error(err, VG_E_INVALID,
                            "the metadata is truncated in the packet at %" G_GINT64_FORMAT, offset);
        offset += size;
    }
    return 0;
}
