/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at paths: what is there, what is missing, what vgpud is kept from seeing, and a file system
 * that never answers.
 */
#define _GNU_SOURCE
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <linux/fuse.h>
#include <sched.h>

#include "base/clock.h"
#include "host/path-look.h"

#define PATIENCE_NS (60 * VG_NS_PER_S)
#define SIZE        12345

static char *directory;
/* The mounts of process 1 may be others than this process's, as in a chroot. */
static struct vg_path_look ordinary = {NULL, PATIENCE_NS, PATIENCE_NS};

/* Writes the mounts of a process 1, which are those of this process as far as keep says. */
static void
write_mounts(const char *proc, const char *(*keep)(const char *line))
{
    g_autofree char *inner = g_build_filename(proc, "1", NULL);
    g_autofree char *path = g_build_filename(inner, "mountinfo", NULL);
    g_autofree char *text = NULL;
    GString *made = g_string_new(NULL);

    assert_true(g_file_get_contents("/proc/self/mountinfo", &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        const char *line = keep(lines[i]);
        if (line)
            g_string_append_printf(made, "%s\n", line);
    }
    g_mkdir_with_parents(inner, 0700);
    assert_true(g_file_set_contents(path, made->str, -1, NULL));
    g_string_free(made, TRUE);
}

static const char *
keep_all(const char *line)
{
    return line;
}

/* Looks at paths in the directory, which end with NULL. */
static GPtrArray *
look_at(const char *const *names, const struct vg_path_look *options)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; names[i]; i++)
        g_ptr_array_add(paths, g_build_filename(directory, names[i], NULL));
    GPtrArray *seen = vg_path_look(paths, options);
    assert_int_equal(seen->len, paths->len);
    for (guint i = 0; i < seen->len; i++)
        assert_string_equal(((const struct vg_path_seen *)seen->pdata[i])->path, paths->pdata[i]);
    return seen;
}

static void
assert_state(const GPtrArray *seen, guint i, enum vg_path_state state, const char *why)
{
    const struct vg_path_seen *one = seen->pdata[i];

    if (one->state != state || !strstr(one->why ? one->why : "", why))
        fail_msg("%s: %s, %s", one->path, vg_path_state_names[one->state], one->why);
}

static void
make_files(void)
{
    g_autofree char *file = g_build_filename(directory, "file", NULL);
    g_autofree char *link = g_build_filename(directory, "link", NULL);
    g_autofree char *way = g_build_filename(directory, "way", NULL);
    g_autofree char *text = g_strnfill(SIZE, 'x');

    assert_true(g_file_set_contents(file, text, SIZE, NULL));
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    assert_int_equal(symlink(file, way), 0);
}

static void
test_what_is_there(void **state)
{
    static const char *const names[] = {"file", "gone",      "gone/file", "file/below", "",
                                        "link", "link/file", "way",       NULL};
    g_autoptr(GPtrArray) seen = look_at(names, &ordinary);
    const struct vg_path_seen *file = seen->pdata[0], *way = seen->pdata[7];
    struct stat about;

    (void)state;
    assert_state(seen, 0, VG_PATH_THERE, "");
    assert_int_equal(file->kind, VG_PATH_FILE);
    assert_int_equal(file->size_bytes, SIZE);
    assert_false(file->read_only);
    assert_non_null(file->file_system);
    assert_int_equal(stat(file->path, &about), 0);
    assert_int_equal(g_ascii_strtoull(file->identity, NULL, 10), about.st_ino);
    for (guint i = 1; i < 4; i++)
        assert_state(seen, i, VG_PATH_MISSING, "");
    assert_int_equal(((const struct vg_path_seen *)seen->pdata[4])->kind, VG_PATH_DIRECTORY);
    assert_state(seen, 5, VG_PATH_UNKNOWN, "symbolic link");
    assert_state(seen, 6, VG_PATH_UNKNOWN, "symbolic link");
    assert_state(seen, 7, VG_PATH_THERE, "");
    assert_string_equal(way->identity, file->identity);
}

/* ---- mounts ---- */

static const char *
keep_none(const char *line)
{
    (void)line;
    return NULL;
}

static const char *
keep_read_only(const char *line)
{
    static char copy[4096];
    char *options;

    g_strlcpy(copy, line, sizeof(copy));
    options = strstr(copy, " rw,");
    if (options)
        memcpy(options, " ro,", strlen(" ro,"));
    return copy;
}

static void
test_mounts(void **state)
{
    static const char *const names[] = {"file", "gone", NULL};
    g_autofree char *proc = g_build_filename(directory, "other", NULL);
    const struct vg_path_look options = {proc, PATIENCE_NS, PATIENCE_NS};

    (void)state;
    g_autoptr(GPtrArray) nobody = look_at(names, &options);
    assert_state(nobody, 0, VG_PATH_UNKNOWN, "cannot determine what is mounted");
    assert_state(nobody, 1, VG_PATH_UNKNOWN, "cannot determine what is mounted");
    write_mounts(proc, keep_none);
    g_autoptr(GPtrArray) own = look_at(names, &options);
    assert_state(own, 0, VG_PATH_UNKNOWN, "its own mount at");
    assert_state(own, 1, VG_PATH_UNKNOWN, "its own mount at");
    write_mounts(proc, keep_read_only);
    g_autoptr(GPtrArray) seen = look_at(names, &options);
    assert_state(seen, 0, VG_PATH_THERE, "");
    assert_true(((const struct vg_path_seen *)seen->pdata[0])->read_only);
    assert_state(seen, 1, VG_PATH_MISSING, "");
}

static void
test_shared(void **state)
{
    (void)state;
    assert_true(vg_path_is_shared("nfs4"));
    assert_true(vg_path_is_shared("ceph"));
    assert_true(vg_path_is_shared("fuse.glusterfs"));
    assert_false(vg_path_is_shared("ext4"));
    assert_false(vg_path_is_shared("fuseblk"));
    assert_false(vg_path_is_shared(NULL));
}

/* ---- a file system that hangs ---- */

/* Takes all requests of a FUSE file system, and answers the first one only. */
static void *
take_requests(void *arg)
{
    const int fd = *(const int *)arg;
    static char request[1 << 17];
    struct {
        struct fuse_out_header head;
        struct fuse_init_out init;
    } answer = {
        .head.len = sizeof(answer),
        .init = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION},
    };

    while (read(fd, request, sizeof(request)) > 0) {
        struct fuse_in_header head;
        memcpy(&head, request, sizeof(head));
        if (head.opcode != FUSE_INIT)
            continue;
        answer.head.unique = head.unique;
        answer.init.max_write = 4096;
        if (write(fd, &answer, sizeof(answer)) != sizeof(answer))
            break;
    }
    return NULL;
}

/* Mounts it, in a name space of this process. Returns the descriptor, or -1. */
static int
mount_hanging(const char *place)
{
    const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    g_autofree char *options = g_strdup_printf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd);

    if (fd < 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("hang", place, "fuse", 0, options) != 0)
        return -1;
    return fd;
}

/* Ends all that waits for it. */
static void
end_hanging(void)
{
    g_autofree char *place = g_build_filename(directory, "hang", NULL);

    umount2(place, MNT_FORCE | MNT_DETACH);
}

/* Looks again and again, until the first path is as wanted. */
static void
look_until(const char *const *names, const struct vg_path_look *options, enum vg_path_state state,
           const char *why)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + PATIENCE_NS;

    for (;;) {
        g_autoptr(GPtrArray) seen = look_at(names, options);
        const struct vg_path_seen *first = seen->pdata[0];
        if (vg_clock_monotonic_ns() > until_ns)
            assert_state(seen, 0, state, why);
        if (first->state == state && strstr(first->why ? first->why : "", why))
            return;
    }
}

/* Nothing can end a process that waits for such a file system: it is left behind. */
static void
test_hangs(void **state)
{
    static const char *const names[] = {"hang/a", "hang/b", "file", NULL};
    g_autofree char *place = g_build_filename(directory, "hang", NULL);
    const struct vg_path_look options = {"/proc", VG_NS_PER_S / 20, PATIENCE_NS};
    pthread_t thread;

    (void)state;
    assert_int_equal(g_mkdir(place, 0700), 0);
    int fd = mount_hanging(place);
    if (fd < 0) {
        print_message("# a FUSE file system cannot be mounted here\n");
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, take_requests, &fd), 0);
    g_autoptr(GPtrArray) first = look_at(names, &options);
    assert_state(first, 0, VG_PATH_FAILING, "has not answered");
    assert_state(first, 1, VG_PATH_FAILING, "has not answered");
    assert_state(first, 2, VG_PATH_UNKNOWN, "earlier checks have not answered");
    look_until(names, &options, VG_PATH_UNKNOWN, "have not finished");
    end_hanging();
    look_until(names + 2, &ordinary, VG_PATH_THERE, "");
    pthread_join(thread, NULL);
    close(fd);
}

/* ---- all of them ---- */

static int
set_up(void **state)
{
    (void)state;
    directory = g_dir_make_tmp("path-look-XXXXXX", NULL);
    make_files();
    ordinary.proc = g_build_filename(directory, "proc", NULL);
    write_mounts(ordinary.proc, keep_all);
    return directory ? 0 : -1;
}

static int
tear_down(void **state)
{
    g_autofree char *command = g_strdup_printf("rm -rf '%s'", directory);

    (void)state;
    end_hanging();
    g_free((char *)ordinary.proc);
    g_free(directory);
    return system(command);
}

static bool
has_mount_ids(void)
{
    struct statx about;

    return statx(AT_FDCWD, "/", 0, STATX_MNT_ID, &about) == 0 && (about.stx_mask & STATX_MNT_ID) &&
           about.stx_mnt_id != 0; /* an emulator may leave it out */
}

int
main(void)
{
    if (!has_mount_ids()) {
        puts("1..0 # SKIP statx() reports no mounts here, as in an emulator of programs");
        return 0;
    }

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_there),
        cmocka_unit_test(test_mounts),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_hangs),
    };

    return cmocka_run_group_tests_name("path-look", tests, set_up, tear_down);
}
