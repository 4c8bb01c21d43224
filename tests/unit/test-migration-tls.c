/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>

#include "host/qemu-tls.h"

#define TLS_URI "qemu+tls://b/system"

enum { U = VG_TLS_CERTS_UNKNOWN, R, M, X };

static void
test_choice(void **state)
{
    static const struct {
        enum vg_tls_mode mode;
        const char *uri;
        int own, other;
        enum vg_move_tls tls;
        bool refused, warns;
        const char *why; /* a part of it */
    } cases[] = {
        {VG_TLS_AUTO, TLS_URI, R, R, VG_MOVE_TLS_YES, false, false, "on both hosts"},
        {VG_TLS_AUTO, "qemu://b/system", R, R, VG_MOVE_TLS_YES, false, false, "on both hosts"},
        {VG_TLS_AUTO, TLS_URI, M, R, VG_MOVE_TLS_NO, false, true, "missing on 'a'"},
        {VG_TLS_AUTO, TLS_URI, R, M, VG_MOVE_TLS_NO, false, true, "missing on 'b'"},
        {VG_TLS_AUTO, TLS_URI, X, R, VG_MOVE_TLS_NO, false, true, "cannot read"},
        {VG_TLS_AUTO, TLS_URI, R, X, VG_MOVE_TLS_NO, false, true, "on 'b'"},
        {VG_TLS_AUTO, TLS_URI, R, U, VG_MOVE_TLS_NO, false, true, "does not report"},
        {VG_TLS_AUTO, "qemu+tcp://b/system", R, R, VG_MOVE_TLS_NO, false, false, "not reached"},
        {VG_TLS_AUTO, "qemu+ssh://b/system", M, M, VG_MOVE_TLS_NO, false, false, "not reached"},
        {VG_TLS_AUTO, "qemu:///system", R, R, VG_MOVE_TLS_NO, false, false, "not reached"},
        {VG_TLS_AUTO, "test:///default", R, R, VG_MOVE_TLS_NO, false, false, "not reached"},
        {VG_TLS_ALWAYS, TLS_URI, R, R, VG_MOVE_TLS_YES, false, false, "requires it"},
        {VG_TLS_ALWAYS, "qemu+ssh://b/system", R, R, VG_MOVE_TLS_YES, false, false, "requires it"},
        {VG_TLS_ALWAYS, TLS_URI, X, U, VG_MOVE_TLS_YES, false, false, "requires it"},
        {VG_TLS_ALWAYS, TLS_URI, M, R, VG_MOVE_TLS_NO, true, false, "missing on 'a'"},
        {VG_TLS_ALWAYS, TLS_URI, X, M, VG_MOVE_TLS_NO, true, false, "missing on 'b'"},
        {VG_TLS_NEVER, TLS_URI, R, R, VG_MOVE_TLS_NO, false, false, "tls=no"},
        {VG_TLS_NEVER, TLS_URI, M, U, VG_MOVE_TLS_NO, false, false, "tls=no"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct vg_tls_choice choice = vg_tls_choose(&(struct vg_tls_facts){
            .mode = cases[i].mode,
            .uri = cases[i].uri,
            .from = "a",
            .to = "b",
            .own = (enum vg_tls_certs)cases[i].own,
            .other = (enum vg_tls_certs)cases[i].other,
        });
        assert_int_equal(choice.tls, cases[i].tls);
        assert_int_equal(choice.refused, cases[i].refused);
        assert_int_equal(choice.warns, cases[i].warns);
        if (!strstr(choice.why, cases[i].why))
            fail_msg("case %zu: %s", i, choice.why);
        g_free(choice.why);
    }
}

static void
test_names(void **state)
{
    (void)state;
    assert_int_equal(vg_tls_certs_of("ready"), VG_TLS_CERTS_READY);
    assert_int_equal(vg_tls_certs_of("unreadable"), VG_TLS_CERTS_UNREADABLE);
    assert_int_equal(vg_tls_certs_of("of a later version"), VG_TLS_CERTS_UNKNOWN);
    assert_int_equal(vg_tls_certs_of(NULL), VG_TLS_CERTS_UNKNOWN);
}

/* ---- the certificates of a host ---- */

static void
tls_put(const char *root, const char *path, const char *text)
{
    g_autofree char *file = g_build_filename(root, path, NULL);
    g_autofree char *directory = g_path_get_dirname(file);

    assert_int_equal(g_mkdir_with_parents(directory, 0755), 0);
    assert_true(g_file_set_contents(file, text, -1, NULL));
}

static void
tls_remove(const char *root, const char *path)
{
    g_autofree char *file = g_build_filename(root, path, NULL);

    assert_int_equal(g_remove(file), 0);
}

static void
tls_put_server(const char *root, const char *directory)
{
    static const char *const names[] = {"ca-cert.pem", "server-cert.pem", "server-key.pem"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(directory, names[i], NULL);
        tls_put(root, path, "");
    }
}

static void
tls_put_client(const char *root, const char *directory)
{
    g_autofree char *cert = g_build_filename(directory, "client-cert.pem", NULL);
    g_autofree char *key = g_build_filename(directory, "client-key.pem", NULL);

    tls_put(root, cert, "");
    tls_put(root, key, "");
}

static int
set_up(void **state)
{
    *state = g_dir_make_tmp("vgpud-XXXXXX", NULL);
    return *state ? 0 : -1;
}

static int
tear_down(void **state)
{
    g_autofree char *root = *state;
    char *argv[] = {(char *)"rm", (char *)"-rf", root, NULL};

    return g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, NULL, NULL)
               ? 0
               : -1;
}

static void
test_default_directory(void **state)
{
    const char *root = *state;

    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    tls_put_server(root, "etc/pki/qemu");
    /* The target would refuse a source without a certificate. */
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    tls_put_client(root, "etc/pki/qemu");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_READY);
    tls_remove(root, "etc/pki/qemu/server-key.pem");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    tls_put_server(root, "etc/pki/qemu");
    /* libvirt prefers this directory, even an empty one. */
    tls_put(root, "etc/pki/libvirt-migrate/x", "");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    tls_put_server(root, "etc/pki/libvirt-migrate");
    tls_put_client(root, "etc/pki/libvirt-migrate");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_READY);
}

static void
test_configured_directory(void **state)
{
    const char *root = *state;

    tls_put_server(root, "a");
    tls_put_server(root, "b");
    tls_put_client(root, "b");
    tls_put(root, "etc/libvirt/qemu.conf", "#default_tls_x509_cert_dir = \"/b\"\n");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    tls_put(root, "etc/libvirt/qemu.conf",
            "user = \"root\"\n  default_tls_x509_cert_dir=\"/b\" # x\n");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_READY);
    tls_put(root, "etc/libvirt/qemu.conf",
            "migrate_tls_x509_cert_dir = '/a'\ndefault_tls_x509_cert_dir = \"/b\"\n");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
    /* Without a check of the source's certificate, it needs none. */
    tls_put(root, "etc/libvirt/qemu.conf",
            "migrate_tls_x509_cert_dir = '/a'\ndefault_tls_x509_verify = 0 # not checked\n");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_READY);
    tls_put(root, "etc/libvirt/qemu.conf",
            "migrate_tls_x509_cert_dir = '/a'\ndefault_tls_x509_verify = 0\n"
            "migrate_tls_x509_verify = 1\n");
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
}

static void
test_unreadable(void **state)
{
    const char *root = *state;
    g_autofree char *conf = g_build_filename(root, "etc/libvirt/qemu.conf", NULL);

    tls_put(root, "etc/libvirt/other", "");
    /* As is one that everybody may read, root included, but that is no file. */
    assert_int_equal(g_mkdir(conf, 0755), 0);
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_UNREADABLE);
    assert_int_equal(g_rmdir(conf), 0);
    /* A loop of links cannot be followed by anybody. */
    tls_put(root, "etc/pki/other", "");
    g_autofree char *loop = g_build_filename(root, "etc/pki/qemu", NULL);
    assert_int_equal(symlink("qemu", loop), 0);
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_UNREADABLE);
}

/* A configuration at the limit is read, and a longer one is not. */
static void
test_long_configuration(void **state)
{
    const char *root = *state;
    const size_t limit = 1 << 20;
    g_autofree char *text = g_strnfill(limit + 1, '\n');

    tls_put(root, "etc/libvirt/qemu.conf", text);
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_UNREADABLE);
    text[limit] = '\0';
    tls_put(root, "etc/libvirt/qemu.conf", text);
    assert_int_equal(vg_qemu_tls_look(root), VG_TLS_CERTS_MISSING);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_default_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_configured_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unreadable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_configuration, set_up, tear_down),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
