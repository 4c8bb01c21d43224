/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/unpack.h"

#include <string.h>

#include <bzlib.h>
#include <glib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

/* zlib and libbz2 count the bytes of one call with 32 bits. */
#define STEP_MAX (64 * 1024)

/* zlib's windowBits: the largest window, plus "expect a gzip header". */
#define GZIP_WINDOW_BITS (15 + 16)

/* zstd's skippable frames start with 0x50 to 0x5f. pzstd writes one before each member. */
#define ZSTD_SKIPPABLE(byte) (((byte)&0xf0) == 0x50)

struct unpack_format {
    const char *name;
    const char *magic;
    size_t magic_len;
    bool (*start)(vg_unpack *unpack);
    enum vg_unpack_result (*step)(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why);
    void (*stop)(vg_unpack *unpack);
};

struct vg_unpack {
    const struct unpack_format *format;
    bool is_started; /* is in a member, and one of these is valid */
    union {
        z_stream gzip;
        bz_stream bzip2;
        lzma_stream xz;
        ZSTD_DStream *zstd;
    } of;
};

static void
unpack_move(struct vg_unpack_io *io, size_t in_left, size_t out_left)
{
    io->in += io->in_len - in_left;
    io->in_len = in_left;
    io->out += io->out_len - out_left;
    io->out_len = out_left;
}

/* ---- gzip ---- */

static bool
gzip_start(vg_unpack *unpack)
{
    return inflateInit2(&unpack->of.gzip, GZIP_WINDOW_BITS) == Z_OK;
}

static enum vg_unpack_result
gzip_step(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why)
{
    z_stream *z = &unpack->of.gzip;

    z->next_in = (Bytef *)(uintptr_t)io->in;
    z->avail_in = (uInt)io->in_len;
    z->next_out = (Bytef *)io->out;
    z->avail_out = (uInt)io->out_len;
    const int ret = inflate(z, Z_NO_FLUSH);
    unpack_move(io, z->avail_in, z->avail_out);
    if (ret == Z_STREAM_END)
        return VG_UNPACK_END;
    if (ret == Z_OK || ret == Z_BUF_ERROR)
        return VG_UNPACK_MORE;
    *ret_why = z->msg ? z->msg : zError(ret);
    return VG_UNPACK_DAMAGED;
}

static void
gzip_stop(vg_unpack *unpack)
{
    inflateEnd(&unpack->of.gzip);
}

/* ---- bzip2 ---- */

static bool
bzip2_start(vg_unpack *unpack)
{
    return BZ2_bzDecompressInit(&unpack->of.bzip2, 0, 0) == BZ_OK;
}

static enum vg_unpack_result
bzip2_step(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why)
{
    bz_stream *bz = &unpack->of.bzip2;

    bz->next_in = (char *)(uintptr_t)io->in;
    bz->avail_in = (unsigned)io->in_len;
    bz->next_out = io->out;
    bz->avail_out = (unsigned)io->out_len;
    const int ret = BZ2_bzDecompress(bz);
    unpack_move(io, bz->avail_in, bz->avail_out);
    if (ret == BZ_STREAM_END)
        return VG_UNPACK_END;
    if (ret == BZ_OK)
        return VG_UNPACK_MORE;
    *ret_why = ret == BZ_MEM_ERROR ? "not enough memory" : "bad data";
    return VG_UNPACK_DAMAGED;
}

static void
bzip2_stop(vg_unpack *unpack)
{
    BZ2_bzDecompressEnd(&unpack->of.bzip2);
}

/* ---- xz ---- */

static bool
xz_start(vg_unpack *unpack)
{
    return lzma_stream_decoder(&unpack->of.xz, VG_UNPACK_MEMORY_MAX, 0) == LZMA_OK;
}

static enum vg_unpack_result
xz_step(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why)
{
    lzma_stream *xz = &unpack->of.xz;

    xz->next_in = io->in;
    xz->avail_in = io->in_len;
    xz->next_out = (uint8_t *)io->out;
    xz->avail_out = io->out_len;
    const lzma_ret ret = lzma_code(xz, LZMA_RUN);
    unpack_move(io, xz->avail_in, xz->avail_out);
    if (ret == LZMA_STREAM_END)
        return VG_UNPACK_END;
    if (ret == LZMA_OK || ret == LZMA_BUF_ERROR)
        return VG_UNPACK_MORE;
    if (ret == LZMA_MEMLIMIT_ERROR || ret == LZMA_MEM_ERROR)
        *ret_why = "unpacking it needs too much memory";
    else
        *ret_why = ret == LZMA_OPTIONS_ERROR ? "unknown compression options" : "bad data";
    return VG_UNPACK_DAMAGED;
}

static void
xz_stop(vg_unpack *unpack)
{
    lzma_end(&unpack->of.xz);
}

/* ---- zstd ---- */

static bool
zstd_start(vg_unpack *unpack)
{
    unpack->of.zstd = ZSTD_createDStream();
    return unpack->of.zstd != NULL;
}

static enum vg_unpack_result
zstd_step(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why)
{
    ZSTD_inBuffer in = {io->in, io->in_len, 0};
    ZSTD_outBuffer out = {io->out, io->out_len, 0};
    const size_t ret = ZSTD_decompressStream(unpack->of.zstd, &out, &in);

    unpack_move(io, io->in_len - in.pos, io->out_len - out.pos);
    if (ZSTD_isError(ret)) {
        *ret_why = ZSTD_getErrorName(ret);
        return VG_UNPACK_DAMAGED;
    }
    return ret == 0 ? VG_UNPACK_END : VG_UNPACK_MORE;
}

static void
zstd_stop(vg_unpack *unpack)
{
    ZSTD_freeDStream(unpack->of.zstd);
}

/* ---- all of them ---- */

static const struct unpack_format formats[] = {
    {"gzip", "\x1f\x8b", 2, gzip_start, gzip_step, gzip_stop},
    {"bzip2", "BZh", 3, bzip2_start, bzip2_step, bzip2_stop},
    {"xz", "\xfd\x37zXZ\0", 6, xz_start, xz_step, xz_stop},
    {"zstd", "\x28\xb5\x2f\xfd", 4, zstd_start, zstd_step, zstd_stop},
};

static bool
unpack_is(const struct unpack_format *format, const uint8_t *head, size_t len)
{
    static const uint8_t skippable[] = {0x2a, 0x4d, 0x18};

    if (format->start == zstd_start && len >= 4 && ZSTD_SKIPPABLE(head[0]))
        return memcmp(head + 1, skippable, sizeof(skippable)) == 0;
    return len >= format->magic_len && memcmp(head, format->magic, format->magic_len) == 0;
}

vg_unpack *
vg_unpack_new(const uint8_t *head, size_t len)
{
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        if (!unpack_is(&formats[i], head, len))
            continue;
        vg_unpack *unpack = g_new0(vg_unpack, 1);
        unpack->format = &formats[i];
        return unpack;
    }
    return NULL;
}

static void
unpack_stop(vg_unpack *unpack)
{
    if (unpack->is_started)
        unpack->format->stop(unpack);
    unpack->is_started = false;
}

void
vg_unpack_free(vg_unpack *unpack)
{
    if (!unpack)
        return;
    unpack_stop(unpack);
    g_free(unpack);
}

const char *
vg_unpack_name(const vg_unpack *unpack)
{
    return unpack->format->name;
}

bool
vg_unpack_continues(const vg_unpack *unpack, uint8_t byte)
{
    return byte == (uint8_t)unpack->format->magic[0] ||
           (unpack->format->start == zstd_start && ZSTD_SKIPPABLE(byte));
}

enum vg_unpack_result
vg_unpack_step(vg_unpack *unpack, struct vg_unpack_io *io, const char **ret_why)
{
    if (!unpack->is_started) {
        memset(&unpack->of, 0, sizeof(unpack->of));
        if (!unpack->format->start(unpack)) {
            *ret_why = "not enough memory";
            return VG_UNPACK_DAMAGED;
        }
        unpack->is_started = true;
    }
    struct vg_unpack_io step = {io->in, MIN(io->in_len, STEP_MAX), io->out,
                                MIN(io->out_len, INT32_MAX)};
    const enum vg_unpack_result result = unpack->format->step(unpack, &step, ret_why);
    io->in_len -= (size_t)(step.in - io->in);
    io->in = step.in;
    io->out_len -= (size_t)(step.out - io->out);
    io->out = step.out;
    /* After damage, *ret_why may be a string owned by the library. */
    if (result == VG_UNPACK_END)
        unpack_stop(unpack);
    return result;
}
