/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/stream.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char stream_magic[8] = "VGPUOCL";

struct stream_head {
    char magic[8];
    uint32_t version, zero;
};

struct stream_record {
    uint32_t type, zero;
    uint64_t id, size;
};

/* ---- writing ---- */

bool
vg_cl_writer_open(struct vg_cl_writer *writer, size_t room)
{
    struct stream_head head = {.version = VG_CL_STREAM_VERSION};
    void *base = mmap(NULL, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    *writer = (struct vg_cl_writer){.size = room};
    if (base == MAP_FAILED)
        return false;
    /* Each page is first touched while the program is stopped. */
    madvise(base, room, MADV_HUGEPAGE);
    madvise(base, room, MADV_DONTFORK);
    madvise(base, room, MADV_DONTDUMP);
    writer->base = base;
    memcpy(head.magic, stream_magic, sizeof head.magic);
    memcpy(writer->base, &head, sizeof head);
    writer->used = sizeof head;
    return true;
}

static void *
stream_take(struct vg_cl_writer *writer, uint64_t size)
{
    if (writer->failed || size > writer->size - writer->used) {
        writer->failed = true;
        return NULL;
    }
    void *place = writer->base + writer->used;
    writer->used += size;
    return place;
}

static void
stream_put(struct vg_cl_writer *writer, const void *bytes, uint64_t size)
{
    void *place = stream_take(writer, size);

    if (place && size)
        memcpy(place, bytes, size);
}

void
vg_cl_writer_begin(struct vg_cl_writer *writer, uint32_t type, uint64_t id)
{
    struct stream_record record = {.type = type, .id = id};

    writer->record = writer->used;
    stream_put(writer, &record, sizeof record);
}

void
vg_cl_writer_end(struct vg_cl_writer *writer)
{
    struct stream_record record;

    if (writer->failed)
        return;
    memcpy(&record, writer->base + writer->record, sizeof record);
    record.size = writer->used - writer->record - sizeof record;
    memcpy(writer->base + writer->record, &record, sizeof record);
}

void
vg_cl_put_u64(struct vg_cl_writer *writer, uint64_t value)
{
    stream_put(writer, &value, sizeof value);
}

void
vg_cl_put_bytes(struct vg_cl_writer *writer, const void *bytes, uint64_t size)
{
    vg_cl_put_u64(writer, size);
    stream_put(writer, bytes, size);
}

void
vg_cl_put_text(struct vg_cl_writer *writer, const char *text)
{
    vg_cl_put_bytes(writer, text, text ? strlen(text) + 1 : 0);
}

void *
vg_cl_put_room(struct vg_cl_writer *writer, uint64_t size)
{
    size_t over = writer->used % VG_CL_STREAM_ALIGN;

    stream_take(writer, over ? VG_CL_STREAM_ALIGN - over : 0);
    return stream_take(writer, size);
}

bool
vg_cl_writer_finish(struct vg_cl_writer *writer)
{
    vg_cl_writer_begin(writer, 0, 0);
    vg_cl_writer_end(writer);
    return !writer->failed;
}

void
vg_cl_writer_close(struct vg_cl_writer *writer)
{
    munmap(writer->base, writer->size);
    writer->base = NULL;
}

/* ---- reading ---- */

static const void *
stream_get(struct vg_cl_reader *reader, uint64_t size)
{
    if (reader->failed || size > (uint64_t)(reader->end - reader->at)) {
        reader->failed = true;
        return NULL;
    }
    const void *place = reader->at;
    reader->at += size;
    return place;
}

bool
vg_cl_reader_open(struct vg_cl_reader *reader, const void *base, size_t size)
{
    struct stream_head head;

    *reader =
        (struct vg_cl_reader){.base = base, .at = base, .end = (const unsigned char *)base + size};
    const void *place = stream_get(reader, sizeof head);
    if (!place)
        return false;
    memcpy(&head, place, sizeof head);
    reader->failed = memcmp(head.magic, stream_magic, sizeof head.magic) != 0 ||
                     head.version != VG_CL_STREAM_VERSION;
    return !reader->failed;
}

bool
vg_cl_reader_next(struct vg_cl_reader *reader, struct vg_cl_record *record)
{
    struct stream_record head;
    const void *place = stream_get(reader, sizeof head);

    if (!place)
        return false;
    memcpy(&head, place, sizeof head);
    const unsigned char *content = stream_get(reader, head.size);
    if (!content || head.type == 0)
        return false;
    record->type = head.type;
    record->id = head.id;
    record->content =
        (struct vg_cl_reader){.base = reader->base, .at = content, .end = content + head.size};
    return true;
}

uint64_t
vg_cl_get_u64(struct vg_cl_reader *reader)
{
    uint64_t value = 0;
    const void *place = stream_get(reader, sizeof value);

    if (place)
        memcpy(&value, place, sizeof value);
    return value;
}

const void *
vg_cl_get_bytes(struct vg_cl_reader *reader, uint64_t *size)
{
    *size = vg_cl_get_u64(reader);
    const void *place = stream_get(reader, *size);
    if (!place)
        *size = 0;
    return place;
}

const char *
vg_cl_get_text(struct vg_cl_reader *reader)
{
    uint64_t size;
    const char *text = vg_cl_get_bytes(reader, &size);

    if (size == 0)
        return NULL;
    if (text[size - 1] != '\0') {
        reader->failed = true;
        return NULL;
    }
    return text;
}

const void *
vg_cl_get_room(struct vg_cl_reader *reader, uint64_t size)
{
    size_t over = (size_t)(reader->at - reader->base) % VG_CL_STREAM_ALIGN;

    if (!stream_get(reader, over ? VG_CL_STREAM_ALIGN - over : 0))
        return NULL;
    return stream_get(reader, size);
}
