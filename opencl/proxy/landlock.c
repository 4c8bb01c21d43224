/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's interface. The headers of the build machine may be older than its kernel. */
#ifndef SYS_landlock_create_ruleset
# define SYS_landlock_create_ruleset 444
# define SYS_landlock_add_rule       445
# define SYS_landlock_restrict_self  446
#endif
#define LANDLOCK_VERSION   1 /* LANDLOCK_CREATE_RULESET_VERSION */
#define LANDLOCK_PATH_RULE 1 /* LANDLOCK_RULE_PATH_BENEATH */

#define LANDLOCK_FS(bit)      (UINT64_C(1) << (bit))
#define LANDLOCK_FS_EXECUTE   LANDLOCK_FS(0)
#define LANDLOCK_FS_WRITE     LANDLOCK_FS(1)
#define LANDLOCK_FS_READ      LANDLOCK_FS(2)
#define LANDLOCK_FS_READ_DIR  LANDLOCK_FS(3)
#define LANDLOCK_FS_MAKE_CHAR LANDLOCK_FS(6)
#define LANDLOCK_FS_MAKE_BLK  LANDLOCK_FS(11)
#define LANDLOCK_FS_REFER     LANDLOCK_FS(13) /* since version 2: rename between directories */
#define LANDLOCK_FS_TRUNCATE  LANDLOCK_FS(14) /* since version 3 */
#define LANDLOCK_FS_IOCTL_DEV LANDLOCK_FS(15) /* since version 5 */
#define LANDLOCK_FS_FIRST     (LANDLOCK_FS(13) - 1)
#define LANDLOCK_NET_BIND     UINT64_C(1) /* both since version 4 */
#define LANDLOCK_NET_CONNECT  UINT64_C(2)
#define LANDLOCK_SCOPE_UNIX                                                                        \
 UINT64_C(1) /* both since version 6: abstract sockets of other processes */
#define LANDLOCK_SCOPE_SIGNAL UINT64_C(2)

/* The rights that a rule for a single file may contain. */
#define LANDLOCK_FS_OF_FILES                                                                       \
 (LANDLOCK_FS_EXECUTE | LANDLOCK_FS_WRITE | LANDLOCK_FS_READ | LANDLOCK_FS_TRUNCATE |              \
  LANDLOCK_FS_IOCTL_DEV)

struct landlock_attr {
    uint64_t fs, net, scoped;
};

struct landlock_path {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

/* Returns the version of the kernel's interface, from 1, or 0 with errno if it has none. */
static int
landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);

    return version > 0 ? (int)version : 0;
}

static uint64_t
landlock_known(int version)
{
    uint64_t known = LANDLOCK_FS_FIRST;

    if (version >= 2)
        known |= LANDLOCK_FS_REFER;
    if (version >= 3)
        known |= LANDLOCK_FS_TRUNCATE;
    if (version >= 5)
        known |= LANDLOCK_FS_IOCTL_DEV;
    return known;
}

static uint64_t
landlock_rights(enum landlock_use use)
{
    switch (use) {
    case LANDLOCK_READ:
        return LANDLOCK_FS_EXECUTE | LANDLOCK_FS_READ | LANDLOCK_FS_READ_DIR;
    case LANDLOCK_NODE:
        return LANDLOCK_FS_READ | LANDLOCK_FS_WRITE | LANDLOCK_FS_READ_DIR | LANDLOCK_FS_TRUNCATE |
               LANDLOCK_FS_IOCTL_DEV;
    case LANDLOCK_ROOM:
        break;
    }
    return ~(LANDLOCK_FS_MAKE_CHAR | LANDLOCK_FS_MAKE_BLK | LANDLOCK_FS_IOCTL_DEV);
}

/* Adds a rule. Paths that do not exist, or are not accessible, need none. A rule is for an inode,
 * and the inode of a file in /proc only exists while it is in use, so its descriptor remains
 * open. */
static bool
landlock_allow(int ruleset, uint64_t known, const struct landlock_rule *rule)
{
    struct landlock_path path = {.fd = open(rule->path, O_PATH | O_CLOEXEC)};
    struct stat status;

    if (path.fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES;
    bool ok = fstat(path.fd, &status) == 0;
    path.allowed = landlock_rights(rule->use) & known;
    if (!S_ISDIR(status.st_mode))
        path.allowed &= LANDLOCK_FS_OF_FILES;
    ok = ok && syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_RULE, &path, 0) == 0;
    int error = errno;
    if (strncmp(rule->path, "/proc/", 6) != 0)
        close(path.fd);
    errno = error;
    return ok;
}

bool
vg_landlock_confine(const struct landlock_rule *rules, size_t n)
{
    const int version = landlock_version();

    if (version == 0)
        return false;
    struct landlock_attr attr = {.fs = landlock_known(version)};
    if (version >= 4)
        attr.net = LANDLOCK_NET_BIND | LANDLOCK_NET_CONNECT;
    if (version >= 6)
        attr.scoped = LANDLOCK_SCOPE_UNIX | LANDLOCK_SCOPE_SIGNAL;
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    bool ok = ruleset >= 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = landlock_allow(ruleset, attr.fs, &rules[i]);
    ok = ok && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    int error = errno;
    if (ruleset >= 0)
        close(ruleset);
    errno = error;
    return ok;
}
