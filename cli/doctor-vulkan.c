/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the doctor's rows on requirements for Vulkan in VMs that this machine does not meet
 * (virtio-gpu with Venus).
 *
 * Sources: QEMU's hw/display/virtio-gpu-virgl.c (Venus since 9.2, built with virglrenderer 1.0 or
 * newer); virglrenderer's server/ and src/proxy (the render server, started by a fork); QEMU's
 * softmmu/qemu-seccomp.c (spawn=deny); Mesa's docs/drivers/venus.rst (host drivers); file names of
 * Debian, Fedora and Arch.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor.h"

#define QEMU_CONF "/etc/libvirt/qemu.conf"

/* Allows one QEMU to start programs (host/qemu-spawn.c). */
#define SPAWN_PROGRAM VG_PKGLIBEXECDIR "/vgpud-qemu-spawn"

/* The library directories. */
static const char *const vulkan_libraries[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", NULL};

struct vulkan_view {
    json_object *checks;
    const char *root;
};

/* ---- files ---- */

static bool
vulkan_is(const struct vulkan_view *view, const char *path)
{
    g_autofree char *whole = g_strconcat(view->root, path, NULL);

    return access(whole, F_OK) == 0;
}

static char *
vulkan_read(const struct vulkan_view *view, const char *path)
{
    g_autofree char *whole = g_strconcat(view->root, path, NULL);
    char *text = NULL;

    return g_file_get_contents(whole, &text, NULL, NULL) ? text : NULL;
}

/* Returns whether a file, which may be binary, contains this text. */
static bool
vulkan_has(const struct vulkan_view *view, const char *path, const char *text)
{
    g_autofree char *whole = g_strconcat(view->root, path, NULL);
    g_autoptr(GMappedFile) file = g_mapped_file_new(whole, FALSE, NULL);

    return file && g_mapped_file_get_length(file) > 0 &&
           memmem(g_mapped_file_get_contents(file), g_mapped_file_get_length(file), text,
                  strlen(text));
}

/* Finds a file in the library directories. Returns NULL if there is none. */
static char *
vulkan_find_library(const struct vulkan_view *view, const char *name)
{
    for (size_t i = 0; vulkan_libraries[i]; i++) {
        g_autofree char *path = g_strconcat(vulkan_libraries[i], "/", name, NULL);
        if (vulkan_is(view, path))
            return g_steal_pointer(&path);
    }
    return NULL;
}

static int
vulkan_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the files of a directory whose names start with `start`, sorted, as "a, b". Returns NULL if
 * there are none. */
static char *
vulkan_list(const struct vulkan_view *view, const char *directory, const char *start)
{
    g_autofree char *whole = g_strconcat(view->root, directory, NULL);
    g_autoptr(GDir) dir = g_dir_open(whole, 0, NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    while (dir && (name = g_dir_read_name(dir)))
        if (g_str_has_prefix(name, start))
            g_ptr_array_add(names, g_strdup(name));
    if (names->len == 0)
        return NULL;
    g_ptr_array_sort(names, vulkan_compare);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* ---- QEMU and virglrenderer ---- */

/* Returns the QEMU file that contains virtio-gpu with 3D: a module, or QEMU itself. */
static char *
vulkan_find_qemu(const struct vulkan_view *view)
{
    static const char *const modules[] = {"qemu/hw-display-virtio-gpu-gl.so",
                                          "qemu-kvm/hw-display-virtio-gpu-gl.so"};
    static const char *const programs[] = {"/usr/bin/qemu-system-x86_64", "/usr/libexec/qemu-kvm",
                                           "/usr/bin/qemu-system-aarch64"};

    for (size_t i = 0; i < G_N_ELEMENTS(modules); i++) {
        char *path = vulkan_find_library(view, modules[i]);
        if (path)
            return path;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(programs); i++)
        if (vulkan_has(view, programs[i], "virgl_renderer_init"))
            return g_strdup(programs[i]);
    return NULL;
}

static void
vulkan_check_qemu(const struct vulkan_view *view, const char *qemu)
{
    if (!qemu)
        vg_doctor_add(view->checks, "Vulkan: QEMU", VG_HEALTH_LACKS,
                      "apt install qemu-system-modules-opengl",
                      "no QEMU here has virtio-gpu with 3D, which Vulkan needs in VMs that have no "
                      "GPU of their own");
    else if (!vulkan_has(view, qemu, "venus"))
        vg_doctor_add(view->checks, "Vulkan: QEMU", VG_HEALTH_LACKS, NULL,
                      "%s has no virtio-gpu property venus, which needs QEMU 9.2 or newer (Debian "
                      "13)",
                      qemu);
    else if (!vulkan_has(view, qemu, "virgl_renderer_resource_map"))
        vg_doctor_add(view->checks, "Vulkan: QEMU", VG_HEALTH_LACKS, NULL,
                      "%s was built with a virglrenderer older than 1.0 and cannot map host memory "
                      "into the guest (hostmem); Debian 13's can",
                      qemu);
    else
        vg_doctor_add(view->checks, "Vulkan: QEMU", VG_HEALTH_OK, NULL, "%s has it", qemu);
}

static void
vulkan_check_renderer(const struct vulkan_view *view)
{
    g_autofree char *path = vulkan_find_library(view, "libvirglrenderer.so.1");

    if (!path)
        vg_doctor_add(view->checks, "Vulkan: virglrenderer", VG_HEALTH_LACKS,
                      "apt install libvirglrenderer1", "it is not installed");
    else if (!vulkan_has(view, path, "virgl_render_server"))
        vg_doctor_add(view->checks, "Vulkan: virglrenderer", VG_HEALTH_LACKS, NULL,
                      "%s was built without Venus (-Dvenus=true)", path);
    else if (!vulkan_has(view, path, "virgl_renderer_submit_cmd2"))
        vg_doctor_add(view->checks, "Vulkan: virglrenderer", VG_HEALTH_LACKS, NULL,
                      "%s is older than 1.0; current Mesa in guests does not support its Venus "
                      "protocol (wire format 0). Debian 13 has 1.1",
                      path);
    else
        vg_doctor_add(view->checks, "Vulkan: virglrenderer", VG_HEALTH_OK, NULL, "%s has Venus",
                      path);
}

static void
vulkan_check_server(const struct vulkan_view *view)
{
    static const char *const places[] = {"/usr/libexec/virgl_render_server",
                                         "/usr/lib/virgl_render_server"};

    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        if (!vulkan_is(view, places[i]))
            continue;
        vg_doctor_add(view->checks, "Vulkan: render server", VG_HEALTH_OK, NULL, "%s is there",
                      places[i]);
        return;
    }
    vg_doctor_add(view->checks, "Vulkan: render server", VG_HEALTH_LACKS,
                  "apt install virgl-server",
                  "virgl_render_server, which QEMU starts for each VM, is not installed; "
                  "without it, VMs start without Vulkan");
}

/* ---- the kernel and its devices ---- */

static void
vulkan_check_nodes(const struct vulkan_view *view)
{
    g_autofree char *nodes = vulkan_list(view, "/dev/dri", "renderD");

    if (nodes)
        vg_doctor_add(view->checks, "Vulkan: render node", VG_HEALTH_OK, NULL, "/dev/dri has %s",
                      nodes);
    else
        vg_doctor_add(view->checks, "Vulkan: render node", VG_HEALTH_LACKS, "modprobe vgem",
                      "/dev/dri has no render node for QEMU. A GPU driver provides one; vgem "
                      "provides one without a GPU, for tests with lavapipe");
}

static void
vulkan_check_udmabuf(const struct vulkan_view *view)
{
    if (vulkan_is(view, "/dev/udmabuf"))
        vg_doctor_add(view->checks, "Vulkan: udmabuf", VG_HEALTH_OK, NULL, "/dev/udmabuf exists");
    else
        vg_doctor_add(view->checks, "Vulkan: udmabuf", VG_HEALTH_LACKS, "modprobe udmabuf",
                      "/dev/udmabuf is missing; it gives the host's GPU access to guest memory. "
                      "The kernel needs CONFIG_UDMABUF (Debian: since 6.12)");
}

static void
vulkan_check_memory(const struct vulkan_view *view)
{
    g_autofree char *noexec = vulkan_read(view, "/proc/sys/vm/memfd_noexec");

    if (noexec && noexec[0] == '2')
        vg_doctor_add(view->checks, "Vulkan: shared memory", VG_HEALTH_LACKS,
                      "sysctl vm.memfd_noexec=1",
                      "vm.memfd_noexec is 2, so QEMU cannot use a memfd for guest memory, which "
                      "the host's GPU needs");
    else
        vg_doctor_add(view->checks, "Vulkan: shared memory", VG_HEALTH_OK, NULL,
                      "QEMU can use a memfd for guest memory");
}

/* Venus needs version 570.86 of NVIDIA's proprietary driver (Mesa's manual). */
static void
vulkan_check_driver(const struct vulkan_view *view)
{
    g_autofree char *drivers = vulkan_list(view, "/usr/share/vulkan/icd.d", "");
    g_autofree char *more = drivers ? NULL : vulkan_list(view, "/etc/vulkan/icd.d", "");
    g_autofree char *nvidia = vulkan_read(view, "/sys/module/nvidia/version");
    int major = 0, minor = 0;

    if (!drivers && !more)
        vg_doctor_add(view->checks, "Vulkan: driver", VG_HEALTH_LACKS,
                      "apt install mesa-vulkan-drivers",
                      "the host has no Vulkan driver (/usr/share/vulkan/icd.d) for the render "
                      "server");
    else if (nvidia && sscanf(nvidia, "%d.%d", &major, &minor) == 2 &&
             (major < 570 || (major == 570 && minor < 86)))
        vg_doctor_add(view->checks, "Vulkan: driver", VG_HEALTH_LACKS, NULL,
                      "NVIDIA's driver is %d.%d, and Venus needs 570.86 or newer", major, minor);
    else
        vg_doctor_add(view->checks, "Vulkan: driver", VG_HEALTH_OK, NULL, "the host has %s",
                      drivers ? drivers : more);
}

/* ---- libvirt ---- */

/* Returns the value of a setting in qemu.conf, or NULL if it is not set. */
static char *
vulkan_setting(const char *conf, const char *name)
{
    g_auto(GStrv) lines = g_strsplit(conf ? conf : "", "\n", -1);
    char *value = NULL;

    for (char **line = lines; *line; line++) {
        const char *text = g_strchug(*line);
        const char *equals = strchr(text, '=');
        if (!g_str_has_prefix(text, name) || !equals ||
            strspn(text + strlen(name), " \t") != (size_t)(equals - text) - strlen(name))
            continue;
        g_free(value);
        value = g_strstrip(g_strdup(equals + 1));
    }
    return value;
}

/* Returns whether libvirt starts QEMU without a sandbox. */
static bool
vulkan_is_free(const char *conf)
{
    g_autofree char *sandbox = vulkan_setting(conf, "seccomp_sandbox");

    return sandbox && strcmp(sandbox, "0") == 0;
}

static void
vulkan_check_sandbox(const struct vulkan_view *view, const char *conf)
{
    if (!conf && vulkan_is(view, QEMU_CONF))
        vg_doctor_add(view->checks, "Vulkan: sandbox", VG_HEALTH_LACKS, "sudo vgpuctl doctor",
                      "only root can read " QEMU_CONF ", which determines whether libvirt "
                      "starts QEMU in a sandbox that forbids render servers");
    else if (vulkan_is_free(conf))
        vg_doctor_add(view->checks, "Vulkan: sandbox", VG_HEALTH_OK, NULL,
                      "libvirt starts QEMU without its sandbox (seccomp_sandbox of " QEMU_CONF
                      "), so it can start the render server; a guest that takes over its QEMU "
                      "process can then start any program as QEMU's user");
    else if (!vulkan_is(view, SPAWN_PROGRAM))
        vg_doctor_add(
            view->checks, "Vulkan: sandbox", VG_HEALTH_LACKS, NULL,
            "libvirt starts QEMU in a sandbox that forbids other programs (spawn=deny), "
            "so there is no render server: VMs start without Vulkan; and there is no " SPAWN_PROGRAM
            ", which `vgpuctl vulkan enable "
            "--loosen-sandbox` uses to exempt a "
            "VM; vgpud's package contains it");
    else
        vg_doctor_add(view->checks, "Vulkan: sandbox", VG_HEALTH_LACKS,
                      "vgpuctl vulkan enable VM --loosen-sandbox",
                      "libvirt starts QEMU in a sandbox that forbids other programs "
                      "(spawn=deny), so there is no render server: VMs start without Vulkan. "
                      "The command exempts one VM. If its guest takes over the QEMU process, it "
                      "can then start any program as QEMU's user");
}

/* The emulator's file stays the same when QEMU is upgraded, and libvirt caches the capabilities of
 * an unchanged file. */
static void
vulkan_check_age(const struct vulkan_view *view)
{
    g_autofree char *spawn = g_strconcat(view->root, SPAWN_PROGRAM, NULL);
    g_autofree char *qemu = g_strconcat(view->root, "/usr/bin/qemu-system-x86_64", NULL);
    struct stat of_spawn, of_qemu;

    if (stat(spawn, &of_spawn) == 0 && stat(qemu, &of_qemu) == 0 &&
        of_spawn.st_ctim.tv_sec < of_qemu.st_ctim.tv_sec)
        vg_doctor_add(view->checks, "Vulkan: emulator", VG_HEALTH_LACKS, "touch " SPAWN_PROGRAM,
                      "QEMU is newer than " SPAWN_PROGRAM ", the emulator whose capabilities "
                      "libvirt caches: libvirt may still use the old version's capabilities");
}

/* NVIDIA's driver has its own device nodes, which libvirt makes available to QEMU only if it is
 * configured to. */
static void
vulkan_check_devices(const struct vulkan_view *view, const char *conf)
{
    g_autofree char *acl = vulkan_setting(conf, "cgroup_device_acl");
    const bool told = acl && strstr(conf, "/dev/nvidiactl");

    if (!vulkan_is(view, "/dev/nvidiactl"))
        return;
    if (told)
        vg_doctor_add(view->checks, "Vulkan: devices", VG_HEALTH_OK, NULL,
                      "cgroup_device_acl of " QEMU_CONF " has /dev/nvidiactl");
    else
        vg_doctor_add(view->checks, "Vulkan: devices", VG_HEALTH_LACKS, NULL,
                      "libvirt does not give QEMU access to the NVIDIA driver's device nodes: "
                      "add \"/dev/nvidiactl\", \"/dev/nvidia0\" and \"/dev/nvidia-modeset\" to "
                      "cgroup_device_acl of " QEMU_CONF);
}

/* Returns whether a profile or its local additions name a program. */
static bool
vulkan_profile_has(const struct vulkan_view *view, const char *profile, const char *program)
{
    g_autofree char *whole = g_strconcat("/etc/apparmor.d/", profile, NULL);
    g_autofree char *local = g_strconcat("/etc/apparmor.d/local/", profile, NULL);

    return vulkan_has(view, whole, program) || vulkan_has(view, local, program);
}

/* Appends the command that adds a rule to a profile. */
static void
vulkan_add_rule(GString *mend, const char *profile, const char *rule)
{
    g_string_append_printf(mend, "%secho '%s' >> /etc/apparmor.d/local/%s",
                           mend->len > 0 ? " && " : "", rule, profile);
}

/* VMs and libvirtd have separate profiles. libvirtd starts an emulator to query its
 * capabilities. */
static void
vulkan_check_apparmor(const struct vulkan_view *view, const char *conf)
{
    static const char vms[] = "abstractions/libvirt-qemu", daemon[] = "usr.sbin.libvirtd";
    g_autofree char *enabled = vulkan_read(view, "/sys/module/apparmor/parameters/enabled");
    g_autofree char *driver = vulkan_setting(conf, "security_driver");
    const bool spawns = !vulkan_is_free(conf) && vulkan_is(view, SPAWN_PROGRAM);
    g_autoptr(GString) mend = g_string_new(NULL);

    if (!enabled || enabled[0] != 'Y' ||
        !vulkan_is(view, "/etc/apparmor.d/abstractions/libvirt-qemu") ||
        (driver && !strstr(driver, "apparmor")))
        return;
    if (!vulkan_profile_has(view, vms, "virgl_render_server"))
        vulkan_add_rule(mend, vms, "/usr/libexec/virgl_render_server rix,");
    if (spawns && !vulkan_profile_has(view, vms, "vgpud-qemu-spawn"))
        vulkan_add_rule(mend, vms, SPAWN_PROGRAM " rmix,");
    if (spawns && vulkan_is(view, "/etc/apparmor.d/usr.sbin.libvirtd") &&
        !vulkan_profile_has(view, daemon, "vgpud-qemu-spawn")) {
        vulkan_add_rule(mend, daemon, SPAWN_PROGRAM " PUx,");
        g_string_append(mend, " && apparmor_parser -r /etc/apparmor.d/usr.sbin.libvirtd");
    }
    if (mend->len == 0) {
        vg_doctor_add(view->checks, "Vulkan: AppArmor", VG_HEALTH_OK, NULL,
                      "the profiles allow what QEMU and libvirtd need to start");
        return;
    }
    g_string_prepend(mend, "install -d /etc/apparmor.d/local/abstractions && ");
    vg_doctor_add(view->checks, "Vulkan: AppArmor", VG_HEALTH_LACKS, mend->str,
                  "the AppArmor profiles of VMs and libvirtd do not allow a program that they "
                  "need (virgl_render_server%s); the command adds lines, which apply to VMs "
                  "started afterwards",
                  spawns ? ", vgpud-qemu-spawn" : "");
}

/* ---- together ---- */

void
vg_doctor_read_vulkan(json_object *checks, const char *root)
{
    const struct vulkan_view view = {checks, root};
    g_autofree char *qemu = vulkan_find_qemu(&view);
    g_autofree char *conf = vulkan_read(&view, QEMU_CONF);

    vulkan_check_qemu(&view, qemu);
    /* The other checks are irrelevant without such a QEMU. */
    if (!qemu)
        return;
    vulkan_check_renderer(&view);
    vulkan_check_server(&view);
    vulkan_check_driver(&view);
    vulkan_check_nodes(&view);
    vulkan_check_udmabuf(&view);
    vulkan_check_memory(&view);
    if (!conf && !vulkan_is(&view, "/etc/libvirt"))
        return;
    vulkan_check_sandbox(&view, conf);
    vulkan_check_age(&view);
    vulkan_check_devices(&view, conf);
    vulkan_check_apparmor(&view, conf);
}
