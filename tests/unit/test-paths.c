/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a host has what a VM needs at its paths, as far as two hosts tell.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "move/paths.h"

/* Records own their texts, but judging changes none. */
#define TEXT(text) ((char *)(text))
#define NEED(...)                                                                                  \
 ((struct vg_path_need){.path = TEXT("/a"), .use = TEXT("the disk 'vda'"), __VA_ARGS__})
#define THERE(...) ((struct vg_path_seen){.path = TEXT("/a"), .state = VG_PATH_THERE, __VA_ARGS__})
#define ELSE(how, reason)                                                                          \
 ((struct vg_path_seen){.path = TEXT("/a"), .state = VG_PATH_##how, .why = TEXT(reason)})
#define NFS(...)                                                                                   \
 THERE(.kind = VG_PATH_FILE, .file_system = TEXT("nfs4"), .shared = true, __VA_ARGS__)
#define EXT4(...)   THERE(.kind = VG_PATH_FILE, .file_system = TEXT("ext4"), __VA_ARGS__)
#define DEVICE(...) THERE(.kind = VG_PATH_DEVICE, __VA_ARGS__)

static const struct vg_path_need disk = NEED(.writable = true, .is_storage = true);
static const struct vg_path_need base = NEED(.is_storage = true);
static const struct vg_path_need kernel = {.path = TEXT("/a"), .use = TEXT("the kernel")};
static const struct vg_path_need device =
    NEED(.writable = true, .is_storage = true, .is_device = true);
static const struct vg_path_need variables = NEED(.writable = true, .optional = true);
static const struct vg_path_need medium = NEED(.is_storage = true, .optional = true);

static void
assert_verdict(struct vg_path_need need, const struct vg_path_seen *here, struct vg_path_seen there,
               enum vg_path_verdict verdict, const char *words)
{
    struct vg_path_check *check = vg_path_judge(&need, here, &there, "h1", "h2");

    assert_string_equal(check->path, "/a");
    if (check->verdict != verdict || !strstr(check->text, words) || !strstr(check->text, "/a") ||
        !strstr(check->text, "'h2'"))
        fail_msg("%s: %s", vg_path_verdict_names[check->verdict], check->text);
    vg_path_check_free(check);
}

static void
test_missing(void **state)
{
    (void)state;
    assert_verdict(disk, NULL, ELSE(MISSING, NULL), VG_PATH_REFUSED,
                   "'h2' has no /a, the disk 'vda'");
    assert_verdict(kernel, NULL, ELSE(MISSING, NULL), VG_PATH_REFUSED, "the kernel");
    assert_verdict(medium, NULL, ELSE(MISSING, NULL), VG_PATH_OK, "leaves the drive empty");
    assert_verdict(disk, NULL, ELSE(FAILING, "Stale file handle"), VG_PATH_REFUSED,
                   "Stale file handle");
    assert_verdict(medium, NULL, ELSE(FAILING, NULL), VG_PATH_REFUSED, "does not answer");
    assert_verdict(disk, NULL, ELSE(UNKNOWN, "/a is closed"), VG_PATH_UNTRIED, "/a is closed");
    assert_verdict(medium, NULL, ELSE(UNKNOWN, "/a is closed"), VG_PATH_UNTRIED, "/a is closed");
    assert_verdict(variables, NULL, ELSE(UNKNOWN, "/a is closed"), VG_PATH_OK,
                   "libvirt creates /a");
    assert_verdict(variables, NULL, EXT4(.read_only = true), VG_PATH_REFUSED, "read-only there");
    assert_verdict(variables, NULL, EXT4(), VG_PATH_OK, "apparently not shared");
    struct vg_path_check *check = vg_path_judge(&disk, NULL, NULL, "h1", "h2");
    assert_int_equal(check->verdict, VG_PATH_UNTRIED);
    vg_path_check_free(check);
}

static void
test_kinds(void **state)
{
    (void)state;
    assert_verdict(disk, NULL, THERE(.kind = VG_PATH_DIRECTORY), VG_PATH_REFUSED, "is a directory");
    assert_verdict(device, NULL, NFS(), VG_PATH_REFUSED, "not a block device");
    assert_verdict(device, NULL, THERE(.kind = VG_PATH_DIRECTORY), VG_PATH_REFUSED, "not a block");
    assert_verdict(disk, NULL, NFS(.read_only = true), VG_PATH_REFUSED, "read-only there");
    assert_verdict(device, NULL, DEVICE(.read_only = true), VG_PATH_REFUSED, "read-only there");
    assert_verdict(base, NULL, NFS(.read_only = true), VG_PATH_OK, "on nfs4");
    assert_verdict(kernel, NULL, EXT4(.read_only = true), VG_PATH_OK, "apparently not shared");
}

static void
test_shared(void **state)
{
    const struct vg_path_seen here = NFS(.identity = TEXT("7")), unknown = ELSE(UNKNOWN, NULL);

    (void)state;
    assert_verdict(disk, &here, NFS(.identity = TEXT("7")), VG_PATH_OK, "on nfs4");
    assert_verdict(disk, NULL, NFS(.identity = TEXT("7")), VG_PATH_OK, "on nfs4");
    assert_verdict(disk, &unknown, NFS(.identity = TEXT("7")), VG_PATH_OK, "on nfs4");
    assert_verdict(disk, &here, NFS(.identity = TEXT("8")), VG_PATH_UNTRIED,
                   "may be a different file");
    assert_verdict(kernel, &here, NFS(.identity = TEXT("8")), VG_PATH_OK, "on nfs4");
}

/* The target may be the one that exports a file; then it has the same number there. */
static void
test_local(void **state)
{
    const struct vg_path_seen here = NFS(.identity = TEXT("7"), .size_bytes = 10);
    const struct vg_path_seen local = EXT4(.identity = TEXT("7"), .size_bytes = 10);

    (void)state;
    assert_verdict(disk, &here, EXT4(.identity = TEXT("8"), .size_bytes = 10), VG_PATH_REFUSED,
                   "local file system (ext4)");
    assert_verdict(disk, NULL, EXT4(.identity = TEXT("7")), VG_PATH_REFUSED,
                   "local file system (ext4)");
    assert_verdict(disk, &local, EXT4(.identity = TEXT("7")), VG_PATH_REFUSED, "local file system");
    assert_verdict(disk, &here, EXT4(.identity = TEXT("7")), VG_PATH_UNTRIED,
                   "local file system (ext4)");
    assert_verdict(base, &here, EXT4(.size_bytes = 11), VG_PATH_REFUSED, "11 bytes there, and 10");
    assert_verdict(base, &here, EXT4(.size_bytes = 10), VG_PATH_OK, "apparently not shared");
    assert_verdict(kernel, &here, EXT4(.size_bytes = 11), VG_PATH_OK, "not shared");
}

static void
test_devices(void **state)
{
    const struct vg_path_seen here = DEVICE(.size_bytes = 512, .identity = TEXT("naa.1"));

    (void)state;
    assert_verdict(device, &here, DEVICE(.size_bytes = 512, .identity = TEXT("naa.1")), VG_PATH_OK,
                   "block device");
    assert_verdict(device, &here, DEVICE(.size_bytes = 512), VG_PATH_OK, "block device");
    assert_verdict(device, NULL, DEVICE(.size_bytes = 1024), VG_PATH_OK, "block device");
    assert_verdict(device, &here, DEVICE(.size_bytes = 1024), VG_PATH_REFUSED, "1024 bytes there");
    assert_verdict(device, &here, DEVICE(.size_bytes = 512, .identity = TEXT("naa.2")),
                   VG_PATH_REFUSED, "naa.2 there, and naa.1");
}

static void
test_source(void **state)
{
    const struct vg_path_seen local = EXT4(), shared = NFS(), block = DEVICE();
    g_autofree char *refused = vg_path_judge_source(&disk, &local, "h1");

    (void)state;
    assert_non_null(strstr(refused, "local file system (ext4) of 'h1'"));
    assert_null(vg_path_judge_source(&disk, &shared, "h1"));
    assert_null(vg_path_judge_source(&disk, NULL, "h1"));
    assert_null(vg_path_judge_source(&device, &block, "h1"));
    assert_null(vg_path_judge_source(&base, &local, "h1"));
    assert_null(vg_path_judge_source(&kernel, &local, "h1"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_shared),  cmocka_unit_test(test_local),
        cmocka_unit_test(test_devices), cmocka_unit_test(test_source),
    };

    return cmocka_run_group_tests_name("paths", tests, NULL, NULL);
}
