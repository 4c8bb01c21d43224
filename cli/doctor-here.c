/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks this machine if vgpud does not answer, and its configuration if vgpud does.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <grp.h>
#include <pwd.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/child.h"
#include "cli/doctor.h"

/* The first version with CAP_BPF and CAP_PERFMON. */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 8

#define PROGRAM_LIMIT_NS (10 * VG_NS_PER_S)
#define POLL_MS          100

#define DEFAULT_CONFIG "/etc/vgpud/vgpud.conf"

#define START "systemctl enable --now vgpud"

/* ---- files and programs ---- */

/* Returns the content of a file without trailing white space, or NULL. The caller frees it. */
static char *
here_read(const char *root, const char *path)
{
    g_autofree char *whole = g_strconcat(root, path, NULL);
    char *text = NULL;

    return g_file_get_contents(whole, &text, NULL, NULL) ? g_strchomp(text) : NULL;
}

static bool
here_is(const char *root, const char *path)
{
    g_autofree char *whole = g_strconcat(root, path, NULL);

    return access(whole, F_OK) == 0;
}

/* Returns the output of a program, or NULL and *err. The caller frees it. */
static char *
here_run(const char *const *argv, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + PROGRAM_LIMIT_NS;
    g_autoptr(vg_child) child = vg_child_new(argv, NULL, 0, err);

    if (!child)
        return NULL;
    while (!vg_child_poll(child, -1, POLL_MS)) {
        if (vg_clock_monotonic_ns() < until_ns)
            continue;
        vg_error(err, VG_E_TIMEOUT, "`%s` did not finish within 10 s", argv[0]);
        return NULL;
    }
    return vg_child_result(child, err) < 0 ? NULL : g_strdup(vg_child_output(child));
}

/* ---- is it running? ---- */

/* Returns the first process named vgpud, or 0. */
static long
here_find_process(const char *root)
{
    g_autofree char *proc = g_strconcat(root, "/proc", NULL);
    g_autoptr(GDir) dir = g_dir_open(proc, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_strdup_printf("/proc/%s/comm", name);
        g_autofree char *comm = g_ascii_isdigit(name[0]) ? here_read(root, path) : NULL;
        if (comm && strcmp(comm, "vgpud") == 0)
            return strtol(name, NULL, 10);
    }
    return 0;
}

/* Returns the value of a line NAME=VALUE in a text, or "". The caller frees it. */
static char *
here_value(const char *text, const char *name)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    const size_t length = strlen(name);

    for (char **line = lines; *line; line++) {
        if (strncmp(*line, name, length) == 0 && (*line)[length] == '=')
            return g_strdup(*line + length + 1);
    }
    return g_strdup("");
}

static void
here_check_unit(json_object *checks)
{
    static const char *const argv[] = {"systemctl", "show", "vgpud.service",
                                       "--property=LoadState,ActiveState,Result", NULL};
    g_autoptr(GError) err = NULL;
    g_autofree char *text = here_run(argv, &err);

    if (!text) {
        vg_doctor_add(checks, "unit", VG_HEALTH_LACKS, NULL,
                      "systemd does not report the state of the unit: %s", err->message);
        return;
    }
    g_autofree char *load = here_value(text, "LoadState"),
                    *active = here_value(text, "ActiveState");
    g_autofree char *result = here_value(text, "Result");
    if (strcmp(load, "loaded") != 0)
        vg_doctor_add(checks, "unit", VG_HEALTH_BROKEN, "systemctl daemon-reload && " START,
                      "systemd has no vgpud.service (%s); is vgpud installed?", load);
    else if (strcmp(active, "active") == 0)
        vg_doctor_add(checks, "unit", VG_HEALTH_OK, NULL, "vgpud.service is active");
    else if (strcmp(active, "failed") == 0)
        vg_doctor_add(checks, "unit", VG_HEALTH_BROKEN, "journalctl -u vgpud -n 20",
                      "vgpud.service has failed (%s); its log says why", result);
    else
        vg_doctor_add(checks, "unit", VG_HEALTH_BROKEN, START, "vgpud.service is %s", active);
}

static void
here_check_process(json_object *checks, const char *root, bool systemd)
{
    const long pid = here_find_process(root);

    if (pid > 0)
        vg_doctor_add(checks, "process", VG_HEALTH_OK, NULL,
                      "a vgpud is running (process %ld); does it listen on another socket?", pid);
    else if (!systemd)
        vg_doctor_add(checks, "process", VG_HEALTH_BROKEN, "vgpud",
                      "vgpud is not running, and there is no systemd to start it");
}

/* ---- the socket ---- */

/* Returns the names or numbers of a file's user and group. The caller frees the text. */
static char *
here_owner(const struct stat *status)
{
    const struct passwd *user = getpwuid(status->st_uid);
    g_autofree char *owner =
        user ? g_strdup(user->pw_name) : g_strdup_printf("%u", (unsigned)status->st_uid);
    const struct group *group = getgrgid(status->st_gid);
    g_autofree char *of =
        group ? g_strdup(group->gr_name) : g_strdup_printf("%u", (unsigned)status->st_gid);

    return g_strdup_printf("user %s, group %s, mode %04o", owner, of,
                           (unsigned)status->st_mode & 07777);
}

static int
here_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_strlcpy(address.sun_path, path, sizeof(address.sun_path));
    int result = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
    close(fd);
    return result;
}

static void
here_check_socket(json_object *checks, const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0) {
        vg_doctor_add(checks, "socket", VG_HEALTH_BROKEN, NULL,
                      "'%s': %s; vgpud creates it at start, at the path that [api] socket in "
                      "vgpud.conf sets",
                      path, g_strerror(errno));
        return;
    }
    g_autofree char *owner = here_owner(&status);
    const struct group *group = getgrgid(status.st_gid);
    g_autofree char *join =
        g_strdup_printf("adduser %s %s", g_get_user_name(), group ? group->gr_name : "vgpud");
    switch (here_connect(path)) {
    case 0:
        vg_doctor_add(checks, "socket", VG_HEALTH_OK, NULL, "'%s' (%s) accepts connections", path,
                      owner);
        break;
    case EACCES:
    case EPERM:
        vg_doctor_add(checks, "socket", VG_HEALTH_BROKEN, join,
                      "'%s' (%s) denies access to user '%s'; group changes apply from the next "
                      "login",
                      path, owner, g_get_user_name());
        break;
    default:
        vg_doctor_add(checks, "socket", VG_HEALTH_BROKEN, START,
                      "'%s' exists, but no process listens on it: a vgpud that has exited left "
                      "it behind",
                      path);
    }
}

/* ---- the configuration ---- */

/* Finds vgpud, also in the sbin directories that a user's PATH lacks. Returns NULL if it is not
 * installed. The caller frees it. */
static char *
here_find_program(void)
{
    static const char *const places[] = {"/usr/local/sbin/vgpud", "/usr/sbin/vgpud"};
    char *program = g_find_program_in_path("vgpud");

    for (size_t i = 0; !program && i < G_N_ELEMENTS(places); i++) {
        if (access(places[i], X_OK) == 0)
            program = g_strdup(places[i]);
    }
    return program;
}

static void
here_check_config(json_object *checks)
{
    g_autofree char *program = here_find_program();
    const char *argv[] = {program, "--check-config", NULL};
    g_autoptr(GError) err = NULL;

    if (!program) {
        vg_doctor_add(checks, "program", VG_HEALTH_BROKEN, NULL,
                      "vgpud is not installed: it is neither in PATH nor in an sbin directory; "
                      "install the package, or run `make install`");
        return;
    }
    g_autofree char *text = here_run(argv, &err);
    if (text)
        vg_doctor_add(checks, "configuration", VG_HEALTH_OK, NULL,
                      "`%s --check-config` finds no errors", program);
    else
        vg_doctor_add(checks, "configuration", VG_HEALTH_BROKEN, "vgpud --check-config", "%s",
                      err->message);
}

/* Returns the configuration file that a process's arguments name, or NULL for the default. */
static const char *
here_find_config(char *const *argv)
{
    for (char *const *arg = argv; *arg; arg++) {
        const size_t name = strcspn(*arg, "=");
        /* Unambiguous abbreviations are valid. */
        const bool is_long = name >= strlen("--co") && strncmp(*arg, "--config", name) == 0;
        if (is_long && (*arg)[name] == '=')
            return *arg + name + 1;
        if (is_long || strcmp(*arg, "-c") == 0)
            return arg[1];
        if (g_str_has_prefix(*arg, "-c"))
            return *arg + strlen("-c");
    }
    return NULL;
}

/* Returns the arguments of a process, or NULL. The caller frees them. */
static GStrv
here_read_arguments(int32_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", pid), *text = NULL;
    GPtrArray *argv = g_ptr_array_new();
    gsize size = 0;

    (void)!g_file_get_contents(path, &text, &size, NULL);
    for (gsize at = 0; at < size; at += strlen(text + at) + 1)
        g_ptr_array_add(argv, g_strdup(text + at));
    g_ptr_array_add(argv, NULL);
    return (GStrv)g_ptr_array_free(argv, FALSE);
}

/* Returns whether this user may read a configuration file and its conf.d directory. */
static bool
here_may_read_config(const char *path)
{
    g_autofree char *parent = g_path_get_dirname(path);
    g_autofree char *directory = g_build_filename(parent, "conf.d", NULL);
    bool may = access(path, R_OK) == 0 || errno == ENOENT;

    may = may && (access(directory, R_OK | X_OK) == 0 || errno == ENOENT);
    g_autoptr(GDir) dir = may ? g_dir_open(directory, 0, NULL) : NULL;
    const char *name;
    while (may && dir && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(directory, name, NULL);
        may = !g_str_has_suffix(name, ".conf") || access(file, R_OK) == 0;
    }
    return may;
}

void
vg_doctor_read_config(json_object *checks, int32_t pid)
{
    g_autofree char *comm_path = g_strdup_printf("/proc/%d/comm", pid);
    g_autofree char *comm = pid > 0 ? here_read("", comm_path) : NULL;
    /* The process that listens on the socket does not choose the program that root runs here. */
    g_autofree char *program = here_find_program();
    g_autoptr(GError) err = NULL;

    if (g_strcmp0(comm, "vgpud") != 0 || !program)
        return;
    g_auto(GStrv) running = here_read_arguments(pid);
    const char *file = here_find_config(running);
    const char *argv[] = {program, "--check-config", file ? "-c" : NULL, file, NULL};
    /* A relative path is relative to an unknown directory. */
    if (!running[0] || (file && !g_path_is_absolute(file)))
        return;
    if (!here_may_read_config(file ? file : DEFAULT_CONFIG))
        return;
    g_autofree char *text = here_run(argv, &err);
    if (text)
        vg_doctor_add(checks, "configuration", VG_HEALTH_OK, NULL,
                      "the files have no errors that prevent the next start");
    else
        vg_doctor_add(checks, "configuration", VG_HEALTH_BROKEN, "vgpud --check-config",
                      "vgpud will not start again with the present files: %s", err->message);
}

/* ---- requirements ---- */

static void
here_check_bpf(json_object *checks, const char *root)
{
    g_autofree char *release = here_read(root, "/proc/sys/kernel/osrelease");
    g_autofree char *lockdown = here_read(root, "/sys/kernel/security/lockdown");
    const char *kernel = vg_doctor_by_distribution(root, "apt install linux-image-amd64",
                                                   "apt install linux-image-generic");
    int major = 0, minor = 0;

    if (!release || sscanf(release, "%d.%d", &major, &minor) != 2)
        vg_doctor_add(checks, "bpf", VG_HEALTH_LACKS, NULL, "the kernel's version is unknown");
    else if (major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR))
        vg_doctor_add(checks, "bpf", VG_HEALTH_LACKS, kernel,
                      "kernel %s is too old: BPF without root needs %d.%d or newer", release,
                      KERNEL_MAJOR, KERNEL_MINOR);
    else if (!here_is(root, "/sys/kernel/btf/vmlinux"))
        vg_doctor_add(checks, "bpf", VG_HEALTH_LACKS, kernel,
                      "kernel %s has no type information (/sys/kernel/btf/vmlinux)", release);
    else if (lockdown && strstr(lockdown, "[confidentiality]"))
        vg_doctor_add(checks, "bpf", VG_HEALTH_LACKS, NULL,
                      "the kernel's lockdown mode 'confidentiality' keeps BPF programs from "
                      "reading kernel memory; boot with lockdown=integrity");
    else
        vg_doctor_add(checks, "bpf", VG_HEALTH_OK, NULL,
                      "kernel %s supports it; vgpud's unit grants CAP_BPF and CAP_PERFMON",
                      release);
}

static void
here_check_perf(json_object *checks, const char *root)
{
    g_autofree char *paranoid = here_read(root, "/proc/sys/kernel/perf_event_paranoid");

    if (!here_is(root, "/sys/kernel/tracing/events") &&
        !here_is(root, "/sys/kernel/debug/tracing/events"))
        vg_doctor_add(checks, "tracefs", VG_HEALTH_LACKS,
                      "mount -t tracefs none /sys/kernel/tracing",
                      "tracefs is not mounted, or only root can read it: perf events and GPU "
                      "drivers' tracepoints are unavailable");
    else
        vg_doctor_add(checks, "tracefs", VG_HEALTH_OK, NULL,
                      "tracefs is mounted; kernel.perf_event_paranoid is %s",
                      paranoid ? paranoid : "not known");
}

static void
here_check_kvm(json_object *checks, const char *root)
{
    if (here_is(root, "/dev/kvm"))
        vg_doctor_add(checks, "kvm", VG_HEALTH_OK, NULL, "/dev/kvm exists");
    else
        vg_doctor_add(checks, "kvm", VG_HEALTH_LACKS, "modprobe -a kvm_intel kvm_amd",
                      "there is no /dev/kvm: VMs here run without KVM, so their guests' activity "
                      "is unknown");
}

void
vg_doctor_look_around(json_object *checks, const char *socket, const char *root)
{
    const bool systemd = here_is(root, "/run/systemd/system");

    if (!*root) {
        here_check_config(checks);
        if (systemd)
            here_check_unit(checks);
    }
    here_check_process(checks, root, systemd);
    here_check_socket(checks, socket);
    here_check_bpf(checks, root);
    here_check_perf(checks, root);
    here_check_kvm(checks, root);
    vg_doctor_look_for_libvirt(checks, root);
}
