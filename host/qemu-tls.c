/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/qemu-tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QEMU_CONF   "/etc/libvirt/qemu.conf"
#define MIGRATE_DIR "/etc/pki/libvirt-migrate"
#define DEFAULT_DIR "/etc/pki/qemu"

/* A longer qemu.conf is not read. */
#define CONF_SIZE_MAX (1 << 20)

/* The keys of qemu.conf that count. */
enum tls_key { KEY_MIGRATE_DIR, KEY_DEFAULT_DIR, KEY_MIGRATE_VERIFY, KEY_DEFAULT_VERIFY, KEY_MAX };

static const char *const tls_keys[KEY_MAX] = {
    [KEY_MIGRATE_DIR] = "migrate_tls_x509_cert_dir",
    [KEY_DEFAULT_DIR] = "default_tls_x509_cert_dir",
    [KEY_MIGRATE_VERIFY] = "migrate_tls_x509_verify",
    [KEY_DEFAULT_VERIFY] = "default_tls_x509_verify",
};

/* Reads a line `KEY = VALUE` or `KEY = "VALUE"` into values, which are owned. */
static void
qemu_tls_take_line(char *line, char **values)
{
    char *value = strchr(line, '=');

    if (!value)
        return;
    *value++ = '\0';
    g_strstrip(line);
    g_strstrip(value);
    char *end = *value == '"' || *value == '\'' ? strchr(value + 1, *value) : NULL;
    if (end) {
        *end = '\0';
        value++;
    } else {
        value[strcspn(value, "# \t")] = '\0';
    }
    for (size_t i = 0; i < KEY_MAX; i++) {
        if (strcmp(line, tls_keys[i]) == 0) {
            g_free(values[i]);
            values[i] = g_strdup(value);
        }
    }
}

/* Returns whether a file exists. Sets *unreadable if that is unknown. */
static bool
qemu_tls_exists(const char *root, const char *directory, const char *name, bool *unreadable)
{
    g_autofree char *path = g_build_filename("/", root, directory, name, NULL);
    struct stat status;

    if (stat(path, &status) == 0)
        return true;
    *unreadable |= errno != ENOENT && errno != ENOTDIR;
    return false;
}

/* Reads qemu.conf into values. Without this file, a host has libvirt's defaults. Returns false if
 * the file cannot be read. */
static bool
qemu_tls_read_conf(const char *root, char **values)
{
    g_autofree char *path = g_build_filename("/", root, QEMU_CONF, NULL);
    struct stat status;
    char *line = NULL;
    size_t size = 0;

    if (stat(path, &status) < 0)
        return errno == ENOENT || errno == ENOTDIR;
    /* Opening a FIFO would block until another process writes to it. */
    FILE *file =
        S_ISREG(status.st_mode) && status.st_size <= CONF_SIZE_MAX ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    while (getline(&line, &size, file) >= 0)
        qemu_tls_take_line(line, values);
    const bool ok = !ferror(file);
    free(line);
    fclose(file);
    return ok;
}

static enum vg_tls_certs
qemu_tls_look_in(const char *root, char **values)
{
    /* The target checks the source's certificate unless one of these keys is 0. */
    static const char *const names[] = {"ca-cert.pem", "server-cert.pem", "server-key.pem",
                                        "client-cert.pem", "client-key.pem"};
    const char *verify =
        values[KEY_MIGRATE_VERIFY] ? values[KEY_MIGRATE_VERIFY] : values[KEY_DEFAULT_VERIFY];
    const size_t n = g_strcmp0(verify, "0") == 0 ? 3 : G_N_ELEMENTS(names);
    const char *directory = values[KEY_MIGRATE_DIR];
    bool unreadable = false;

    if (!directory && qemu_tls_exists(root, MIGRATE_DIR, NULL, &unreadable))
        directory = MIGRATE_DIR;
    if (!directory)
        directory = values[KEY_DEFAULT_DIR] ? values[KEY_DEFAULT_DIR] : DEFAULT_DIR;
    for (size_t i = 0; i < n; i++) {
        if (!qemu_tls_exists(root, directory, names[i], &unreadable))
            return unreadable ? VG_TLS_CERTS_UNREADABLE : VG_TLS_CERTS_MISSING;
    }
    return VG_TLS_CERTS_READY;
}

enum vg_tls_certs
vg_qemu_tls_look(const char *root)
{
    char *values[KEY_MAX] = {NULL};
    enum vg_tls_certs certs =
        qemu_tls_read_conf(root, values) ? qemu_tls_look_in(root, values) : VG_TLS_CERTS_UNREADABLE;

    for (size_t i = 0; i < KEY_MAX; i++)
        g_free(values[i]);
    return certs;
}
