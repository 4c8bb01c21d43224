/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault-vfs.h"

#include <pthread.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "base/thread.h"

/* The real file follows in memory. */
struct fault_file {
    sqlite3_file base;
    sqlite3_file *real;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_vfs *real_vfs;
static sqlite3_vfs fault_vfs;
static long count;
static long armed_at;
static enum fault_mode armed_mode;
static bool armed_on;
static long locks_left;
static void (*lock_call)(void *data);
static void *lock_data;

void
fault_vfs_arm(long n, enum fault_mode mode, bool on)
{
    VG_LOCK_SCOPE(&lock);
    count = 0;
    armed_at = n;
    armed_mode = mode;
    armed_on = on;
}

long
fault_vfs_count(void)
{
    VG_LOCK_SCOPE(&lock);
    return count;
}

void
fault_vfs_call_at_lock(long n, void (*call)(void *data), void *data)
{
    VG_LOCK_SCOPE(&lock);
    locks_left = n;
    lock_call = call;
    lock_data = data;
}

/* Is this the lock to call at? */
static bool
count_lock(void)
{
    VG_LOCK_SCOPE(&lock);
    return locks_left > 0 && --locks_left == 0;
}

/* The call takes locks of its own, so nothing is held meanwhile. */
static void
before_lock(void)
{
    if (count_lock())
        lock_call(lock_data);
}

/* Counts an operation. SQLITE_OK, or the error that it fails with. */
static int
step(int error, bool *ret_short)
{
    VG_LOCK_SCOPE(&lock);
    count++;
    bool fails = armed_at > 0 && (count == armed_at || (armed_on && count > armed_at));
    *ret_short = fails && armed_mode == FAULT_SHORT;
    return !fails ? SQLITE_OK : armed_mode == FAULT_FULL ? SQLITE_FULL : error;
}

static sqlite3_file *
real_of(sqlite3_file *file)
{
    return ((struct fault_file *)file)->real;
}

/* ---- files ---- */

static int
file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int
file_read(sqlite3_file *file, void *buf, int n, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), buf, n, at);
}

static int
file_write(sqlite3_file *file, const void *buf, int n, sqlite3_int64 at)
{
    bool is_short;
    int rc = step(SQLITE_IOERR_WRITE, &is_short);

    if (is_short && n > 1)
        (void)real_of(file)->pMethods->xWrite(real_of(file), buf, n / 2, at);
    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xWrite(real_of(file), buf, n, at);
}

static int
file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    bool is_short;
    int rc = step(SQLITE_IOERR_TRUNCATE, &is_short);

    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int
file_sync(sqlite3_file *file, int flags)
{
    bool is_short;
    int rc = step(SQLITE_IOERR_FSYNC, &is_short);

    return rc != SQLITE_OK ? rc : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int
file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret);
}

static int
file_lock(sqlite3_file *file, int level)
{
    before_lock();
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int
file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int
file_check_lock(sqlite3_file *file, int *ret)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret);
}

static int
file_control(sqlite3_file *file, int what, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, arg);
}

static int
file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int
file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int
file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, ret);
}

static int
file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    if (flags & SQLITE_SHM_LOCK)
        before_lock();
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}

static void
file_shm_barrier(sqlite3_file *file)
{
    real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int
file_shm_unmap(sqlite3_file *file, int delete)
{
    return real_of(file)->pMethods->xShmUnmap(real_of(file), delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

/* ---- the file system ---- */

static int
fault_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *ret_flags)
{
    struct fault_file *fault = (struct fault_file *)file;
    bool is_short;
    int rc = step(SQLITE_CANTOPEN, &is_short);

    (void)vfs;
    fault->base.pMethods = NULL;
    if (rc != SQLITE_OK)
        return rc;
    fault->real = (sqlite3_file *)(fault + 1);
    rc = real_vfs->xOpen(real_vfs, path, fault->real, flags, ret_flags);
    if (rc == SQLITE_OK)
        fault->base.pMethods = &methods;
    return rc;
}

static int
fault_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    bool is_short;
    int rc = step(SQLITE_IOERR_DELETE, &is_short);

    (void)vfs;
    return rc != SQLITE_OK ? rc : real_vfs->xDelete(real_vfs, path, sync);
}

void
fault_vfs_register(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    fault_vfs = *real_vfs;
    fault_vfs.zName = FAULT_VFS_NAME;
    fault_vfs.pNext = NULL;
    fault_vfs.szOsFile = (int)sizeof(struct fault_file) + real_vfs->szOsFile;
    fault_vfs.xOpen = fault_open;
    fault_vfs.xDelete = fault_delete;
    if (sqlite3_vfs_register(&fault_vfs, 0) != SQLITE_OK)
        abort();
}
