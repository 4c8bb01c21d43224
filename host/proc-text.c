/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/proc-text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

/* The fields of stat after the name. */
enum {
    FIELD_STATE = 3,
    FIELD_PARENT = 4,
    FIELD_FLAGS = 9,
    FIELD_UTIME = 14,
    FIELD_STIME = 15,
    FIELD_CUTIME = 16,
    FIELD_CSTIME = 17,
    FIELD_THREADS = 20,
    FIELD_START = 22,
    FIELD_CPU = 39,
    FIELD_GUEST = 43,
};

/* From the kernel's include/linux/sched.h. proc(5) only shows the flags as a number. */
#define PF_KTHREAD 0x00200000

/* Reads the number at *at and advances *at past it. */
static bool
take_number(const char **at, uint64_t *ret)
{
    const char *c = *at;
    uint64_t value = 0;

    if (*c < '0' || *c > '9')
        return false;
    for (; *c >= '0' && *c <= '9'; c++) {
        unsigned digit = (unsigned)(*c - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *at = c;
    *ret = value;
    return true;
}

static bool
take_comm(const char **at, char ret[VG_COMM_LEN])
{
    const char *open = strchr(*at, '(');
    /* A name may contain anything, even parentheses. */
    const char *close = strrchr(*at, ')');

    if (!open || !close || close < open || close[1] != ' ' || close[2] == '\0')
        return false;
    size_t length = MIN((size_t)(close - open) - 1, (size_t)VG_COMM_LEN - 1);
    memset(ret, 0, VG_COMM_LEN);
    memcpy(ret, open + 1, length);
    *at = close + 2;
    return true;
}

static void
set_field(struct vg_proc_stat *stat, int field, uint64_t value)
{
    switch (field) {
    case FIELD_PARENT:
        stat->parent = value < VG_TID_LIMIT ? (int32_t)value : 0;
        break;
    case FIELD_FLAGS:
        stat->is_kernel = value & PF_KTHREAD;
        break;
    case FIELD_UTIME:
    case FIELD_STIME:
        stat->cpu_ticks += value;
        break;
    case FIELD_CUTIME:
    case FIELD_CSTIME:
        stat->child_ticks += value;
        break;
    case FIELD_THREADS:
        stat->threads = value;
        break;
    case FIELD_START:
        stat->start_ticks = value;
        break;
    case FIELD_CPU:
        stat->cpu = value < VG_CPU_LIMIT ? (int32_t)value : VG_NONE;
        break;
    case FIELD_GUEST:
        stat->guest_ticks = value;
        break;
    default:
        break;
    }
}

bool
vg_proc_parse_stat(const char *text, struct vg_proc_stat *ret)
{
    struct vg_proc_stat stat = {.cpu = VG_NONE};
    const char *at = text;
    int field = FIELD_STATE;

    if (!take_comm(&at, stat.comm))
        return false;
    stat.state = *at++;
    while (*at == ' ' && field < FIELD_GUEST) {
        uint64_t value = 0;
        at++;
        field++;
        /* Some fields are negative (tpgid, nice), but none of those read here. */
        bool negative = *at == '-';
        at += negative;
        if (!take_number(&at, &value))
            return false;
        set_field(&stat, field, negative ? 0 : value);
    }
    if (field < FIELD_START)
        return false;
    *ret = stat;
    return true;
}

bool
vg_proc_parse_schedstat(const char *text, struct vg_proc_schedstat *ret)
{
    struct vg_proc_schedstat stat;
    const char *at = text;

    if (!take_number(&at, &stat.run_ns) || *at++ != ' ' || !take_number(&at, &stat.wait_ns) ||
        *at++ != ' ' || !take_number(&at, &stat.timeslices))
        return false;
    if (stat.run_ns > INT64_MAX || stat.wait_ns > INT64_MAX)
        return false;
    *ret = stat;
    return true;
}

/* Reads the number after a key at the start of a line. */
static bool
find_line(const char *text, const char *key, uint64_t *ret)
{
    const char *at = strstr(text, key);

    if (!at)
        return false;
    at += strlen(key);
    while (*at == '\t' || *at == ' ')
        at++;
    return take_number(&at, ret);
}

bool
vg_proc_parse_switches(const char *text, struct vg_proc_switches *ret)
{
    struct vg_proc_switches switches;

    /* The text includes the end of the previous line, because one key ends like the other. */
    if (!find_line(text, "\nvoluntary_ctxt_switches:", &switches.voluntary) ||
        !find_line(text, "\nnonvoluntary_ctxt_switches:", &switches.nonvoluntary))
        return false;
    *ret = switches;
    return true;
}

/* ---- the command line ---- */

/* Copies the value of an option up to its comma. `,,` is a comma in the value. */
static void
copy_value(const char *value, char ret[VG_VM_NAME_MAX])
{
    g_autoptr(GString) name = g_string_new(NULL);

    for (const char *c = value; *c && name->len < VG_VM_NAME_MAX - 1; c++) {
        if (*c == ',' && *++c != ',')
            break;
        g_string_append_c(name, *c);
    }
    g_autofree char *valid = g_utf8_make_valid(name->str, (gssize)name->len);
    /* A replacement is longer than the invalid byte, so truncate the name at a character. */
    size_t length = strlen(valid);
    if (length >= VG_VM_NAME_MAX)
        length = (size_t)(g_utf8_find_prev_char(valid, valid + VG_VM_NAME_MAX) - valid);
    memcpy(ret, valid, length);
    ret[length] = '\0';
}

/* Extracts the value of -name: its option `guest`, or the first option if that has no key. */
static void
proc_text_take_name(const char *value, char ret[VG_VM_NAME_MAX])
{
    const char *option = value;

    while (*option) {
        size_t length = strcspn(option, "=,");
        if (g_str_has_prefix(option, "guest=")) {
            copy_value(option + strlen("guest="), ret);
            return;
        }
        if (option == value && option[length] != '=')
            copy_value(option, ret);
        /* Skip the rest of the option, including the comma that ends it. */
        while (*option && (*option != ',' || option[1] == ','))
            option += *option == ',' ? 2 : 1;
        option += *option == ',';
    }
}

static void
take_uuid(const char *value, char ret[VG_UUID_LEN])
{
    if (g_uuid_string_is_valid(value)) {
        g_autofree char *lower = g_ascii_strdown(value, -1);
        g_strlcpy(ret, lower, VG_UUID_LEN);
    }
}

/* Finds the path, of ret_length bytes, after a prefix at the start of a line, or returns NULL. */
static const char *
find_cgroup(const char *text, const char *prefix, size_t *ret_length)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        /* The line contains the hierarchy's number, and then its controllers. */
        const char *path = strchr(line, ':');
        if (path && strncmp(path, prefix, strlen(prefix)) == 0) {
            path += strlen(prefix);
            *ret_length = strcspn(path, "\n");
            return path;
        }
    }
    return NULL;
}

bool
vg_proc_parse_cgroup(const char *text, char *ret, size_t size)
{
    size_t length = 0, other_length = 0;
    const char *path = find_cgroup(text, "::", &length);
    const char *other = find_cgroup(text, ":name=systemd:", &other_length);

    if (other && (!path || length <= 1)) {
        path = other;
        length = other_length;
    }
    if (!path || length == 0)
        return false;
    size_t cut = length >= size ? length - (size - 1 - strlen("...")) : 0;
    snprintf(ret, size, "%s%.*s", cut > 0 ? "..." : "", (int)(length - cut), path + cut);
    return true;
}

bool
vg_proc_parse_cpu_cgroup(const char *text, char *ret, size_t size)
{
    static const char *const places[][2] = {
        {":cpu:", "/cpu"}, {":cpu,cpuacct:", "/cpu,cpuacct"}, {"::", ""}};
    size_t length = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        const char *path = find_cgroup(text, places[i][0], &length);
        if (path)
            return (size_t)snprintf(ret, size, "%s%.*s", places[i][1], (int)length, path) < size;
    }
    return false;
}

bool
vg_proc_parse_throttled(const char *text, int64_t *ret_ns)
{
    static const struct {
        const char *key;
        int64_t unit_ns;
    } lines[] = {{"\nthrottled_usec", 1000}, {"\nthrottled_time", 1}};

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        uint64_t value;
        if (find_line(text, lines[i].key, &value) &&
            value <= (uint64_t)(INT64_MAX / lines[i].unit_ns)) {
            *ret_ns = (int64_t)value * lines[i].unit_ns;
            return true;
        }
    }
    return false;
}

void
vg_proc_parse_qemu(const char *cmdline, size_t size, char ret_name[VG_VM_NAME_MAX],
                   char ret_uuid[VG_UUID_LEN])
{
    const char *end = cmdline + size;
    const char *option = "";

    ret_name[0] = '\0';
    ret_uuid[0] = '\0';
    for (const char *word = cmdline; word < end;) {
        size_t length = strnlen(word, (size_t)(end - word));
        g_autofree char *value = g_strndup(word, length);
        if (strcmp(option, "name") == 0)
            proc_text_take_name(value, ret_name);
        else if (strcmp(option, "uuid") == 0)
            take_uuid(value, ret_uuid);
        /* QEMU accepts one dash or two. */
        option = "";
        if (strcmp(value, "-name") == 0 || strcmp(value, "--name") == 0)
            option = "name";
        else if (strcmp(value, "-uuid") == 0 || strcmp(value, "--uuid") == 0)
            option = "uuid";
        word += length + 1;
    }
}

/* ---- reading ---- */

ssize_t
vg_proc_reread(int fd, char *buf, size_t size)
{
    ssize_t n;

    do
        n = pread(fd, buf, size - 1, 0);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        buf[n] = '\0';
    return n;
}

/* Reads to the end: one read() of a pipe or a long file may return less than requested. */
static ssize_t
read_all(int fd, char *buf, size_t size)
{
    size_t used = 0;

    while (used < size - 1) {
        ssize_t n = read(fd, buf + used, size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    buf[used] = '\0';
    return (ssize_t)used;
}

ssize_t
vg_proc_read(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0)
        return -1;
    ssize_t n = read_all(fd, buf, size);
    int error = errno;
    close(fd);
    errno = error;
    return n;
}

bool
vg_proc_read_thread(const char *proc, int32_t pid, int32_t tid, struct vg_proc_stat *ret_stat,
                    struct vg_proc_schedstat *ret_sched)
{
    char path[PATH_MAX];
    char text[VG_PROC_TEXT_MAX];

    snprintf(path, sizeof(path), "%s/%d/task/%d/stat", proc, pid, tid);
    if (vg_proc_read(path, text, sizeof(text)) <= 0 || !vg_proc_parse_stat(text, ret_stat))
        return false;
    snprintf(path, sizeof(path), "%s/%d/task/%d/schedstat", proc, pid, tid);
    return vg_proc_read(path, text, sizeof(text)) > 0 && vg_proc_parse_schedstat(text, ret_sched);
}
