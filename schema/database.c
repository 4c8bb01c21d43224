/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "schema/database.h"

#include <sys/statvfs.h>

#include <sqlite3.h>

bool
vg_database_is_damaged(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* a table or column of its version is not there */
        return true;
    default:
        return false;
    }
}

bool
vg_database_is_read_only(const char *path)
{
    g_autofree char *directory = g_path_get_dirname(path);
    struct statvfs status;

    return statvfs(directory, &status) == 0 && (status.f_flag & ST_RDONLY);
}

enum vg_error_code
vg_database_code(int rc, const char *path)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return VG_E_BUSY;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return vg_database_is_read_only(path) ? VG_E_IO : VG_E_DENIED;
    default:
        return VG_E_IO;
    }
}

const char *
vg_database_advice(int rc, const char *path)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return "; free some space in its file system";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        if (vg_database_is_read_only(path))
            return "; its file system is mounted read-only: mount it for writing (the kernel log "
                   "may "
                   "show why), or add the directory to ReadWritePaths of vgpud's unit";
        return "; does its directory exist, and may this user write to it?";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "; another program uses it; stop that program";
    case SQLITE_IOERR:
        return "; check the kernel log for disk errors";
    default:
        return "";
    }
}

char *
vg_database_script(const char *script, int sqlite_version)
{
    GString *text = g_string_new(script);

    if (sqlite_version < 3037000) {
        g_string_replace(text, ") STRICT;", ");", 0);
        g_string_replace(text, ") STRICT, WITHOUT ROWID;", ") WITHOUT ROWID;", 0);
    }
    return g_string_free(text, FALSE);
}
