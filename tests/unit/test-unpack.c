/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace text that is compressed: whole, joined, cut short and overwritten.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/unit/chance.h"
#include "tests/unit/text-reading.h"
#include "trace/text-source.h"

/* n kvm_entry lines, one a millisecond from 1 s on, all of the same length. */
#define ENTRY_LINE_LEN 47
static char *
many_entries(unsigned int n)
{
    GString *text = g_string_new(NULL);

    for (unsigned int i = 0; i < n; i++)
        g_string_append_printf(text, "CPU 0/KVM-142 [000] %03u.%03u000: kvm_entry: v 0\n",
                               1 + i / 1000, i % 1000);
    assert_int_equal(text->len, n * ENTRY_LINE_LEN);
    return g_string_free(text, FALSE);
}

static size_t
pack_gzip(const char *text, size_t size, char *ret, size_t room)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)ret;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t packed = room - z.avail_out;
    deflateEnd(&z);
    return packed;
}

/* In the smallest blocks, as nothing of a block can be unpacked before its end. */
static size_t
pack_bzip2(const char *text, size_t size, char *ret, size_t room)
{
    unsigned packed = (unsigned)room;

    assert_int_equal(
        BZ2_bzBuffToBuffCompress(ret, &packed, (char *)(uintptr_t)text, (unsigned)size, 1, 0, 0),
        BZ_OK);
    return packed;
}

static size_t
pack_xz(const char *text, size_t size, char *ret, size_t room)
{
    size_t packed = 0;

    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text, size,
                                             (uint8_t *)ret, &packed, room),
                     LZMA_OK);
    return packed;
}

static size_t
pack_zstd(const char *text, size_t size, char *ret, size_t room)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();

    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t packed = ZSTD_compress2(context, ret, room, text, size);
    assert_false(ZSTD_isError(packed));
    ZSTD_freeCCtx(context);
    return packed;
}

static const struct {
    const char *name;
    size_t (*pack)(const char *text, size_t size, char *ret, size_t room);
    unsigned n_entries; /* some blocks of them */
} packings[] = {
    {"gzip", pack_gzip, 2000},
    {"bzip2", pack_bzip2, 10000},
    {"xz", pack_xz, 2000},
    {"zstd", pack_zstd, 20000},
};

static char *
pack(size_t which, const char *text, size_t *ret_size)
{
    const size_t room = 2 * strlen(text) + 1024;
    char *packed = g_malloc(room);

    *ret_size = packings[which].pack(text, strlen(text), packed, room);
    return packed;
}

static void
write_file(const char *path, const struct vg_text_span *parts, size_t n)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(fwrite(parts[i].s, 1, parts[i].len, file), parts[i].len);
    assert_int_equal(fclose(file), 0);
}

/* Files put one behind the other, with the zeros that pad xz and tapes, and what no member is. */
static void
test_packed(void **state)
{
    (void)state;
    g_autofree char *text = many_entries(9000);
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp("test-text-XXXXXX", &path, NULL);

    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < G_N_ELEMENTS(packings); i++) {
        size_t size;
        g_autofree char *packed = pack(i, text, &size);
        const struct vg_text_span parts[] = {
            {packed, size}, {"\0\0\0", 4}, {packed, size}, {"\0\0\0", 4}, {"end", 3}};
        struct reading r;
        write_file(path, parts, G_N_ELEMENTS(parts));
        reading_all(&r, vg_text_open(path, NULL, NULL));
        assert_int_equal(r.events->len, 18000);
        assert_int_equal(r.recording->backwards, 9000 - 1);
        assert_true(vg_recording_progress(r.recording) > 0.99);
        reading_done(&r);
    }
    unlink(path);
}

/* pzstd begins with a frame to skip, which says how long the next one is. */
static void
test_skippable_frames(void **state)
{
    static const char frame[] = "\x50\x2a\x4d\x18\4\0\0\0\1\2\3\4";
    (void)state;
    g_autofree char *text = many_entries(100);
    size_t size;
    g_autofree char *packed = pack(3, text, &size);
    g_autoptr(GString) all = g_string_new_len(frame, 12);
    struct reading r;

    g_string_append_len(all, packed, (gssize)size);
    g_string_append_len(all, frame, 12);
    reading_bytes(&r, all->str, all->len);
    assert_int_equal(r.events->len, 100);
    assert_int_equal(r.recording->problems.list->len, 0);
    reading_done(&r);
}

static void
check_cut(const char *packed, size_t cut)
{
    struct reading r;

    reading_bytes(&r, packed, cut);
    const struct vg_trace_problem *p = reading_problem(&r, 0);
    assert_int_equal(r.recording->problems.list->len, 1);
    assert_non_null(strstr(p->what, "cut short"));
    assert_int_equal(p->offset, (int64_t)r.events->len * ENTRY_LINE_LEN);
    for (unsigned int i = 0; i < r.events->len; i++)
        assert_int_equal(reading_at(&r, i)->ts_ns, 1000000000 + (int64_t)i * 1000000);
    reading_done(&r);
}

/* Cut or overwritten anywhere: a prefix of the events, and a problem at the end of that text. */
static void
test_packed_damage(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(packings); i++) {
        const unsigned n = packings[i].n_entries;
        g_autofree char *text = many_entries(n);
        size_t size;
        g_autofree char *packed = pack(i, text, &size);
        const size_t step = MAX(size / (chance_is_full() ? 1000 : 30), 1);
        struct reading r;
        for (size_t cut = size - 1 - chance_seed() % step; cut > size / 2; cut -= step)
            check_cut(packed, cut);
        /* Overwritten in the middle: noticed late, but what lies before is unharmed. */
        memset(packed + size * 3 / 4, 0xff, MIN(64, size / 8));
        reading_bytes(&r, packed, size);
        assert_in_range(r.events->len, n / 4, n);
        for (unsigned int at = 0; at < n / 4; at++)
            assert_int_equal(reading_at(&r, at)->ts_ns, 1000000000 + (int64_t)at * 1000000);
        unsigned int last = r.recording->problems.list->len - 1;
        g_autofree char *what = g_strdup_printf("the %s file is corrupt", packings[i].name);
        assert_non_null(strstr(reading_problem(&r, last)->what, what));
        reading_done(&r);
    }
}

/* All of the text was there, only the checksum is wrong. */
static void
test_packed_checksum(void **state)
{
    (void)state;
    g_autofree char *text = many_entries(2000);
    size_t size;
    g_autofree char *packed = pack(0, text, &size);
    struct reading r;

    packed[size - 6] ^= 1;
    reading_bytes(&r, packed, size);
    assert_int_equal(r.events->len, 2000);
    assert_non_null(strstr(reading_problem(&r, 0)->what, "corrupt"));
    assert_int_equal(reading_problem(&r, 0)->offset, 2000 * ENTRY_LINE_LEN);
    reading_done(&r);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_skippable_frames),
        cmocka_unit_test(test_packed_damage),
        cmocka_unit_test(test_packed_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
