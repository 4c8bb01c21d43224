/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/path-look.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define PATH_NS      (5 * VG_NS_PER_S)
#define FAILING_MAX  2 /* number of unresponsive paths after which the rest is left out */
#define END_NS       (VG_NS_PER_S / 10) /* time limit for an ended process to exit */
#define SECTOR_BYTES 512

/* What the process finds at a path, small enough for one atomic write. */
struct look_raw {
    int error; /* errno for the path itself */
    mode_t mode;
    uint64_t inode, size, mount, attributes;
    unsigned dev_major, dev_minor; /* of a device */
    int is_read_only;              /* of a device; -1 if unknown */
    size_t seen_bytes;             /* length of the part of the path that exists */
    bool dangling;                 /* the next component is a dangling symbolic link */
};

/* ---- the process that looks: nothing here may allocate or lock ---- */

static int
looker_stat(const char *path, int flags, struct statx *ret)
{
    return statx(AT_FDCWD, path, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret) == 0 ? 0 : errno;
}

/* Finds the existing part of a path. */
static void
looker_find_part(const char *path, struct look_raw *raw)
{
    char part[VG_PATH_BYTES_MAX + 1];
    struct statx about, link;
    size_t size = strnlen(path, VG_PATH_BYTES_MAX);

    memcpy(part, path, size);
    do {
        part[size] = '\0';
        raw->dangling = looker_stat(part, AT_SYMLINK_NOFOLLOW, &link) == 0;
        while (size > 1 && part[size - 1] != '/')
            size--;
        while (size > 1 && part[size - 1] == '/')
            size--;
        part[size] = '\0';
        if (looker_stat(part, 0, &about) == 0) {
            raw->mount = about.stx_mnt_id;
            raw->seen_bytes = size;
            return;
        }
    } while (size > 1);
}

/* Queries a block device itself, if this process may do so. */
static void
looker_ask_device(const char *path, struct look_raw *raw)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    uint64_t size = 0;

    if (fd < 0)
        return;
    if (ioctl(fd, BLKROGET, &raw->is_read_only) != 0)
        raw->is_read_only = -1;
    if (ioctl(fd, BLKGETSIZE64, &size) == 0)
        raw->size = size;
    close(fd);
}

static void
looker_look(const char *path, struct look_raw *raw)
{
    struct statx about = {0};

    raw->error = looker_stat(path, 0, &about);
    if (raw->error == ENOENT || raw->error == ENOTDIR || raw->error == EACCES) {
        looker_find_part(path, raw);
        return;
    }
    raw->mode = about.stx_mode;
    raw->inode = about.stx_ino;
    raw->size = about.stx_size;
    raw->mount = about.stx_mask & STATX_MNT_ID ? about.stx_mnt_id : 0;
    raw->attributes = about.stx_attributes & about.stx_attributes_mask;
    raw->dev_major = about.stx_rdev_major;
    raw->dev_minor = about.stx_rdev_minor;
    raw->is_read_only = -1;
    if (S_ISBLK(raw->mode))
        looker_ask_device(path, raw);
}

/* Checks the paths from first on. */
static _Noreturn void
looker_run(const GPtrArray *paths, guint first, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "path-look");
    if (dup2(out, STDIN_FILENO) < 0 || close_range(1, UINT_MAX, 0) != 0)
        _exit(1);
    for (guint i = first; i < paths->len; i++) {
        struct look_raw raw;
        memset(&raw, 0, sizeof(raw));
        looker_look(paths->pdata[i], &raw);
        if (write(STDIN_FILENO, &raw, sizeof(raw)) != sizeof(raw))
            _exit(1);
    }
    _exit(0);
}

/* ---- processes that were left behind ---- */

static struct {
    pthread_mutex_t lock;
    unsigned looking;
    GArray *left; /* pid_t; NULL: there never were any */
} lookers = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Called with the lock. */
static unsigned
lookers_reap(void)
{
    for (guint i = lookers.left ? lookers.left->len : 0; i > 0; i--) {
        if (waitpid(g_array_index(lookers.left, pid_t, i - 1), NULL, WNOHANG) != 0)
            g_array_remove_index_fast(lookers.left, i - 1);
    }
    return lookers.left ? lookers.left->len : 0;
}

static bool
lookers_begin(void)
{
    VG_LOCK_SCOPE(&lookers.lock);
    if (lookers_reap() + lookers.looking >= VG_PATH_LOOKERS_MAX)
        return false;
    lookers.looking++;
    return true;
}

/* Ends a process, or abandons it. */
static void
lookers_end(pid_t pid)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + END_NS;
    bool gone;

    kill(pid, SIGKILL);
    while (!(gone = waitpid(pid, NULL, WNOHANG) != 0) && vg_clock_monotonic_ns() < until_ns)
        g_usleep(1000);
    VG_LOCK_SCOPE(&lookers.lock);
    lookers.looking--;
    if (gone)
        return;
    if (!lookers.left)
        lookers.left = g_array_new(FALSE, FALSE, sizeof(pid_t));
    g_array_append_val(lookers.left, pid);
}

/* ---- mounts ---- */

struct mount {
    uint64_t id;
    char *place; /* device, root and mount point, by which one mount is found in two lists */
    char *point;
    char *type;
    bool read_only;       /* the mount itself */
    bool super_read_only; /* all mounts of the same file system */
};

static void
mount_free(void *data)
{
    struct mount *mount = data;

    g_free(mount->place);
    g_free(mount->point);
    g_free(mount->type);
    g_free(mount);
}

static bool
mount_has_option(const char *options, const char *option)
{
    g_auto(GStrv) words = g_strsplit(options, ",", -1);

    return g_strv_contains((const char *const *)words, option);
}

/* Reads a line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-",
 * type, source, file system options. Returns NULL if it is not valid. */
static struct mount *
mount_read(const char *line)
{
    const char *rest = strstr(line, " - ");
    g_auto(GStrv) fields = g_strsplit(line, " ", -1);
    g_auto(GStrv) more = g_strsplit(rest ? rest + strlen(" - ") : "", " ", 3);

    if (!rest || g_strv_length(fields) < 7 || g_strv_length(more) < 3)
        return NULL;
    struct mount *mount = g_new0(struct mount, 1);
    mount->id = g_ascii_strtoull(fields[0], NULL, 10);
    mount->place = g_strdup_printf("%s %s %s", fields[2], fields[3], fields[4]);
    mount->point = g_strcompress(fields[4]);
    mount->type = g_strdup(more[0]);
    mount->read_only = mount_has_option(fields[5], "ro");
    mount->super_read_only = mount_has_option(more[2], "ro");
    return mount;
}

/* Reads the mounts of a process, or returns NULL on failure. The array frees its elements. */
static GPtrArray *
mounts_read(const char *proc, const char *process)
{
    g_autofree char *path = g_strdup_printf("%s/%s/mountinfo", proc, process);
    g_autofree char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return NULL;
    GPtrArray *mounts = g_ptr_array_new_with_free_func(mount_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (guint i = 0; lines[i]; i++) {
        struct mount *mount = mount_read(lines[i]);
        if (mount)
            g_ptr_array_add(mounts, mount);
    }
    return mounts;
}

static const struct mount *
mounts_find(const GPtrArray *mounts, uint64_t id)
{
    for (guint i = 0; mounts && i < mounts->len; i++) {
        const struct mount *mount = mounts->pdata[i];
        if (mount->id == id)
            return mount;
    }
    return NULL;
}

static const struct mount *
mounts_find_place(const GPtrArray *mounts, const char *place)
{
    for (guint i = 0; mounts && i < mounts->len; i++) {
        const struct mount *mount = mounts->pdata[i];
        if (strcmp(mount->place, place) == 0)
            return mount;
    }
    return NULL;
}

/* ---- what was seen ---- */

struct look {
    struct vg_path_look options;
    const GPtrArray *paths;
    GPtrArray *seen; /* struct vg_path_seen */
    GPtrArray *own;  /* of this process; NULL if unknown */
    GPtrArray *host; /* of the host; NULL if unknown */
};

static struct vg_path_seen *
look_add(struct look *look, enum vg_path_state state)
{
    struct vg_path_seen *seen = vg_record_new(&vg_path_seen_record);

    seen->path = g_strdup(look->paths->pdata[look->seen->len]);
    seen->state = state;
    g_ptr_array_add(look->seen, seen);
    return seen;
}

/* Returns why this process does not see the same file system on a mount as the host, or NULL if it
 * does. *ret is then the host's mount. The caller frees the text. */
static char *
look_check_mount(const struct look *look, uint64_t id, const struct mount **ret)
{
    const struct mount *own = mounts_find(look->own, id);

    if (!own || !look->host)
        return g_strdup("vgpud cannot determine what is mounted there");
    *ret = mounts_find_place(look->host, own->place);
    return *ret ? NULL
                : g_strdup_printf("vgpud has its own mount at %s and cannot see the host's",
                                  own->point);
}

/* Reads a file of a block device in sysfs, or returns NULL. The caller frees the text. */
static char *
look_device_file(const struct look_raw *raw, const char *name)
{
    g_autofree char *path =
        g_strdup_printf("/sys/dev/block/%u:%u/%s", raw->dev_major, raw->dev_minor, name);
    char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) ? g_strstrip(text) : NULL;
}

static void
look_set_device(struct vg_path_seen *seen, const struct look_raw *raw)
{
    g_autofree char *sectors = look_device_file(raw, "size");
    g_autofree char *read_only = look_device_file(raw, "ro");

    seen->kind = VG_PATH_DEVICE;
    seen->size_bytes = (int64_t)MIN(raw->size, (uint64_t)VG_JSON_INT_MAX);
    if (seen->size_bytes == 0 && sectors)
        seen->size_bytes =
            CLAMP(g_ascii_strtoll(sectors, NULL, 10), 0, VG_JSON_INT_MAX / SECTOR_BYTES) *
            SECTOR_BYTES;
    seen->read_only = raw->is_read_only > 0 || (read_only && strcmp(read_only, "1") == 0);
    seen->identity = look_device_file(raw, "dm/uuid");
    if (!seen->identity)
        seen->identity = look_device_file(raw, "device/wwid");
    if (seen->identity && (!seen->identity[0] || strlen(seen->identity) > VG_PATH_TEXT_MAX))
        g_clear_pointer(&seen->identity, g_free);
}

/* Describes a path that exists. */
static void
look_set_whole(const struct look *look, struct vg_path_seen *seen, const struct look_raw *raw)
{
    const struct mount *host = NULL;
    g_autofree char *why = look_check_mount(look, raw->mount, &host);

    if (why) {
        seen->state = VG_PATH_UNKNOWN;
        seen->why = g_steal_pointer(&why);
        return;
    }
    if (S_ISBLK(raw->mode)) {
        look_set_device(seen, raw);
        return;
    }
    seen->kind = S_ISREG(raw->mode)   ? VG_PATH_FILE
                 : S_ISDIR(raw->mode) ? VG_PATH_DIRECTORY
                                      : VG_PATH_OTHER;
    seen->file_system = g_strdup(host->type);
    seen->shared = vg_path_is_shared(host->type);
    seen->read_only =
        host->read_only || host->super_read_only || (raw->attributes & STATX_ATTR_IMMUTABLE) != 0;
    seen->size_bytes = S_ISREG(raw->mode) ? (int64_t)MIN(raw->size, (uint64_t)VG_JSON_INT_MAX) : 0;
    seen->identity = g_strdup_printf("%" G_GUINT64_FORMAT, raw->inode);
}

/* Describes a path that does not exist, or is not accessible to this process. */
static void
look_set_part(const struct look *look, struct vg_path_seen *seen, const struct look_raw *raw)
{
    const struct mount *host = NULL;
    g_autofree char *why = look_check_mount(look, raw->mount, &host);

    seen->state = VG_PATH_UNKNOWN;
    if (raw->error == EACCES)
        seen->why =
            g_strdup_printf("vgpud has no access to %.*s", (int)raw->seen_bytes, seen->path);
    else if (why)
        seen->why = g_steal_pointer(&why);
    else if (raw->dangling)
        seen->why = g_strdup("a symbolic link leads to a place that vgpud cannot see");
    else
        seen->state = VG_PATH_MISSING;
}

static void
look_add_raw(struct look *look, const struct look_raw *raw)
{
    struct vg_path_seen *seen = look_add(look, VG_PATH_THERE);

    if (raw->error == 0) {
        look_set_whole(look, seen, raw);
    } else if (raw->error == ENOENT || raw->error == ENOTDIR || raw->error == EACCES) {
        look_set_part(look, seen, raw);
    } else {
        seen->state = VG_PATH_FAILING;
        seen->why = g_strdup(g_strerror(raw->error));
    }
}

/* ---- all of them ---- */

/* Reads the results of a process. Returns false if it does not answer. */
static bool
look_read(struct look *look, int in, int64_t until_ns)
{
    while (look->seen->len < look->paths->len) {
        const int64_t now_ns = vg_clock_monotonic_ns();
        const int64_t wait_ns = MIN(look->options.path_ns, until_ns - now_ns);
        struct pollfd ready = {.fd = in, .events = POLLIN};
        struct look_raw raw;
        if (wait_ns <= 0 || poll(&ready, 1, (int)(wait_ns / VG_NS_PER_MS) + 1) <= 0)
            return false;
        if (read(in, &raw, sizeof(raw)) != sizeof(raw))
            return true;
        look_add_raw(look, &raw);
    }
    return true;
}

/* Reports that a path, or its file system, is unresponsive. */
static void
look_add_failing(struct look *look, int64_t began_ns)
{
    const int64_t took_ns = vg_clock_monotonic_ns() - began_ns;
    struct vg_path_seen *seen = look_add(look, VG_PATH_FAILING);

    seen->why = g_strdup_printf("it has not answered for %.0f s",
                                (double)MIN(look->options.path_ns, took_ns) / (double)VG_NS_PER_S);
}

/* Starts a process that checks the remaining paths. Returns -1 if that is not possible. */
static int
look_continue(struct look *look, int64_t until_ns, GError **err)
{
    const int64_t began_ns = vg_clock_monotonic_ns();
    bool answered = true;
    int ends[2];

    if (!lookers_begin())
        return vg_error(err, VG_E_BUSY, "%d other checks have not finished", VG_PATH_LOOKERS_MAX);
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        pid = fork();
        if (pid == 0)
            looker_run(look->paths, look->seen->len, ends[1]);
        close(ends[1]);
        if (pid > 0)
            answered = look_read(look, ends[0], until_ns);
        close(ends[0]);
    }
    if (pid > 0) {
        lookers_end(pid);
        if (!answered)
            look_add_failing(look, began_ns);
        return answered && look->seen->len < look->paths->len
                   ? vg_error(err, VG_E_EXTERNAL, "the process that checks paths has exited")
                   : 0;
    }
    const int errnum = errno;
    VG_LOCK_SCOPE(&lookers.lock);
    lookers.looking--;
    return vg_error_errno(err, errnum, "cannot start a process");
}

static void
look_at_all(struct look *look)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + look->options.limit_ns;
    g_autoptr(GError) error = NULL;

    for (guint tries = 0; look->seen->len < look->paths->len && tries < FAILING_MAX &&
                          vg_clock_monotonic_ns() < until_ns;
         tries++) {
        if (look_continue(look, until_ns, &error) < 0)
            break;
    }
    while (look->seen->len < look->paths->len) {
        struct vg_path_seen *seen = look_add(look, VG_PATH_UNKNOWN);
        seen->why = g_strdup(error ? error->message : "earlier checks have not answered");
    }
}

GPtrArray *
vg_path_look(const GPtrArray *paths, const struct vg_path_look *options)
{
    static const struct vg_path_look defaults = {"/proc", PATH_NS, VG_PATH_LOOK_NS};
    struct look look = {
        .options = options ? *options : defaults,
        .paths = paths,
        .seen = g_ptr_array_new_with_free_func(vg_path_seen_free),
    };

    look.own = mounts_read("/proc", "self");
    look.host = mounts_read(look.options.proc, "1");
    look_at_all(&look);
    g_clear_pointer(&look.own, g_ptr_array_unref);
    g_clear_pointer(&look.host, g_ptr_array_unref);
    return look.seen;
}
