/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 and HMAC: the examples of FIPS 180-4, and GLib's results for any length.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "opencl/base/sha256.h"
#include "opencl/base/signed.h"
#include "tests/unit/chance.h"

static char *
hex(const unsigned char digest[VG_SHA256_SIZE])
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < VG_SHA256_SIZE; i++)
        g_string_append_printf(text, "%02x", digest[i]);
    return g_string_free(text, FALSE);
}

static void
assert_digest(const char *text, const char *expected)
{
    unsigned char digest[VG_SHA256_SIZE];
    struct vg_sha256 hash;

    vg_sha256_begin(&hash);
    vg_sha256_add(&hash, text, strlen(text));
    vg_sha256_end(&hash, digest);
    g_autofree char *got = hex(digest);
    assert_string_equal(got, expected);
}

static void
test_examples(void **state)
{
    (void)state;
    assert_digest("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* In pieces of any size, with a length on each side of each limit of a block. */
static void
test_lengths(void **state)
{
    unsigned char bytes[300], digest[VG_SHA256_SIZE];
    struct vg_sha256 hash;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + chance_seed());
    for (size_t size = 0; size <= sizeof bytes; size++) {
        const size_t piece = 1 + size * 13 % 97;
        vg_sha256_begin(&hash);
        for (size_t at = 0; at < size; at += piece)
            vg_sha256_add(&hash, bytes + at, MIN(piece, size - at));
        vg_sha256_end(&hash, digest);
        g_autofree char *got = hex(digest);
        g_autofree char *expected = g_compute_checksum_for_data(G_CHECKSUM_SHA256, bytes, size);
        assert_string_equal(got, expected);
    }
}

static void
test_signatures(void **state)
{
    unsigned char key[VG_SHA256_SIZE], text[200], mac[VG_SHA256_SIZE];

    (void)state;
    memset(text, 0xdd, sizeof text);
    for (size_t size = 0; size < sizeof text; size += 9) {
        memset(key, (int)size + 1, sizeof key);
        vg_sha256_sign(key, text, size, mac);
        g_autofree char *got = hex(mac);
        g_autofree char *expected =
            g_compute_hmac_for_data(G_CHECKSUM_SHA256, key, sizeof key, text, size);
        assert_string_equal(got, expected);
    }
}

/* Two texts in a row are not two others. */
static void
test_texts(void **state)
{
    static const char *const texts[][2] = {{"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", ""}};
    unsigned char digests[G_N_ELEMENTS(texts)][VG_SHA256_SIZE];
    struct vg_sha256 hash;

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        vg_sha256_begin(&hash);
        for (size_t k = 0; k < 2; k++)
            vg_sha256_add_text(&hash, texts[i][k], strlen(texts[i][k]));
        vg_sha256_end(&hash, digests[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(digests[i], digests[k], VG_SHA256_SIZE);
    }
}

static void
test_bare_size(void **state)
{
    unsigned char binary[200] = {0};
    const size_t bare = sizeof binary - sizeof(struct vg_signed);

    (void)state;
    assert_int_equal(vg_signed_bare_size(binary, sizeof binary), sizeof binary);
    memcpy(binary + bare, VG_SIGNED_MAGIC, VG_SIGNED_MAGIC_SIZE);
    assert_int_equal(vg_signed_bare_size(binary, sizeof binary), bare);
    assert_int_equal(vg_signed_bare_size(binary, sizeof binary - 1), sizeof binary - 1);
    /* Nothing but a signature is a binary of no bytes, which is none. */
    assert_int_equal(vg_signed_bare_size(binary + bare, sizeof(struct vg_signed)), 0);
    assert_int_equal(vg_signed_bare_size(binary, 3), 3);
    assert_int_equal(vg_signed_bare_size(NULL, 500), 500);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),   cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_signatures), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bare_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
