/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/vendor.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlfcn.h>

#include "opencl/base/say.h"
#include "opencl/client/client.h"
#include "opencl/icd/nodes.h"
#include "opencl/track/know.h"
#include "opencl/track/limits.h"
#include "opencl/wire/address.h"
#include "opencl/wire/link.h"

#define VENDORS_MAX 16

typedef void *(CL_API_CALL *vendor_get_address)(const char *);

static struct vg_cl_vendor vendors[VENDORS_MAX];
static cl_uint vendors_n;
static const cl_icd_dispatch *vendors_target;

static bool vendors_are_libraries;

/* A link to the proxy to which the program moves, until a vendor takes it; and the proxy. */
static struct vg_wire_client *vendors_reached;
static char vendors_reached_place[VG_CL_PLACE];

void
vg_cl_vendors_forbid_proxies(void)
{
    vendors_are_libraries = true;
}

struct vg_cl_vendor *
vg_cl_vendors_get(cl_uint *n)
{
    *n = vendors_n;
    return vendors;
}

void
vg_cl_vendors_set_target(const cl_icd_dispatch *target)
{
    vendors_target = target;
}

/* ---- platforms ---- */

static const cl_icd_dispatch *
vendor_dispatch(cl_platform_id platform)
{
    return vendors_target ? vendors_target : *(const cl_icd_dispatch **)platform;
}

static void
vendor_take_functions(struct vg_cl_track *track, cl_platform_id platform)
{
    track->cl = vendor_dispatch(platform);
    track->is_remote = track->cl == &vg_wire_dispatch;
}

/* Returns the vendor's root devices, in its order. */
static cl_device_id *
vendor_devices(const cl_icd_dispatch *cl, cl_platform_id platform, cl_uint *n)
{
    *n = 0;
    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, n) != CL_SUCCESS)
        *n = 0;
    cl_device_id *devices = calloc(*n ? *n : 1, sizeof *devices);
    if (!devices || (*n && cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, *n, devices, NULL)))
        *n = 0;
    return devices;
}

static void
vendor_add_devices(struct vg_cl_track *track)
{
    cl_uint n;
    cl_device_id *reals = vendor_devices(track->cl, track->platform->real, &n);

    track->devices = calloc(n ? n : 1, sizeof(struct vg_cl_object *));
    track->limits = calloc(n ? n : 1, sizeof *track->limits);
    for (cl_uint i = 0; track->devices && track->limits && i < n; i++) {
        struct vg_cl_object *device = vg_cl_object_new(VG_CL_DEVICE, track, NULL, reals[i], NULL);
        if (!device)
            break;
        device->device.index = i;
        vg_cl_limits_ask(&track->limits[i], track->cl, reals[i]);
        track->devices[track->n_devices++] = device;
    }
    free(reals);
}

/* Removes what this library adds to the name in a proxy. */
static void
vendor_name(const cl_icd_dispatch *cl, cl_platform_id platform, char name[128])
{
    if (cl->clGetPlatformInfo(platform, CL_PLATFORM_NAME, 128, name, NULL) != CL_SUCCESS)
        name[0] = '\0';
    name[127] = '\0';
    char *suffix = strstr(name, VG_CL_PLATFORM_MARK);
    if (suffix)
        *suffix = '\0';
}

/* Returns the address of the proxy that replaces a library, or NULL for a library. */
static const char *
vendor_proxy(const char *path)
{
    const size_t size = sizeof VG_WIRE_PREFIX - 1;

    return path && strncmp(path, VG_WIRE_PREFIX, size) == 0 ? path + size : NULL;
}

static void
vendor_add_platform(struct vg_cl_vendor *vendor, cl_platform_id platform)
{
    struct vg_cl_track *track = calloc(1, sizeof *track);

    if (!track)
        return;
    vendor_take_functions(track, platform);
    vendor_name(track->cl, platform, track->name);
    track->as_gpu = secure_getenv("VGPU_OPENCL_AS_GPU") != NULL;
    track->platform = vg_cl_object_new(VG_CL_PLATFORM, track, NULL, platform, NULL);
    if (!track->platform) {
        free(track);
        return;
    }
    vendor_add_devices(track);
    vendor->tracks[vendor->n_tracks++] = track;
}

/* ---- libraries and proxies ---- */

void
vg_cl_vendors_unreach(void)
{
    if (vendors_reached)
        vg_wire_disconnect(vendors_reached);
    vendors_reached = NULL;
}

/* Connects to a proxy, unless that was done before. */
static struct vg_wire_client *
vendor_connect(const char *path, const char **why)
{
    struct vg_wire_client *reached = vendors_reached;

    if (!reached || strcmp(path, vendors_reached_place) != 0)
        return vg_wire_connect(vendor_proxy(path), why);
    if (!vg_wire_why(reached)) {
        vendors_reached = NULL;
        return reached;
    }
    vg_cl_vendors_unreach();
    return vg_wire_connect(vendor_proxy(path), why);
}

/* Loads a library. On failure, returns NULL and sets *WHY to a line of text. */
static void *
vendor_open(const char *path, const char **why)
{
    const char *proxy = vendor_proxy(path);
    void *library = proxy ? vendor_connect(path, why) : dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library && !proxy)
        *why = dlerror();
    return library;
}

static void
vendor_close(const struct vg_cl_vendor *vendor)
{
    if (vendor->library && vendor_proxy(vg_cl_vendor_where(vendor)))
        vg_wire_disconnect(vendor->library);
    else if (vendor->library)
        dlclose(vendor->library);
}

void *
vg_cl_vendor_address(const struct vg_cl_vendor *vendor, const char *name)
{
    vendor_get_address get =
        (vendor_get_address)dlsym(vendor->library, "clGetExtensionFunctionAddress");

    return get ? get(name) : NULL;
}

/* The vendor exports the function, or returns it from another one. */
static clIcdGetPlatformIDsKHR_fn
vendor_find_platforms(const struct vg_cl_vendor *vendor)
{
    void *found = vg_cl_vendor_address(vendor, "clIcdGetPlatformIDsKHR");

    return (clIcdGetPlatformIDsKHR_fn)(found ? found
                                             : dlsym(vendor->library, "clIcdGetPlatformIDsKHR"));
}

cl_platform_id *
vg_cl_vendor_platforms(const struct vg_cl_vendor *vendor, cl_uint *n)
{
    if (!vendors_target && vendor_proxy(vg_cl_vendor_where(vendor)))
        return vg_wire_platforms(vendor->library, n);
    clIcdGetPlatformIDsKHR_fn get =
        vendors_target ? vendors_target->clGetPlatformIDs : vendor_find_platforms(vendor);
    *n = 0;
    cl_int error = get ? get(0, NULL, n) : CL_PLATFORM_NOT_FOUND_KHR;
    if (error != CL_SUCCESS || *n == 0) {
        vg_cl_log("%s reports no platforms: OpenCL error %d", vg_cl_vendor_where(vendor), error);
        return NULL;
    }
    cl_platform_id *platforms = calloc(*n, sizeof *platforms);
    if (platforms && get(*n, platforms, NULL) != CL_SUCCESS) {
        free(platforms);
        return NULL;
    }
    return platforms;
}

static void
vendor_add_platforms(struct vg_cl_vendor *vendor)
{
    cl_uint n;
    cl_platform_id *platforms = vg_cl_vendor_platforms(vendor, &n);

    vendor->tracks = platforms ? calloc(n, sizeof *vendor->tracks) : NULL;
    for (cl_uint i = 0; vendor->tracks && i < n; i++)
        vendor_add_platform(vendor, platforms[i]);
    free(platforms);
}

static void
vendor_add(const char *path, bool is_wrapped)
{
    struct vg_cl_vendor *vendor = &vendors[vendors_n];
    const char *why = NULL;

    /* Without this library, a proxy cannot be used. */
    if (vendors_n == VENDORS_MAX || ((!is_wrapped || vendors_are_libraries) && vendor_proxy(path)))
        return;
    void *library = vendor_open(path, &why);
    if (!library) {
        vg_cl_say("%s: %s", path, why);
        return;
    }
    *vendor = (struct vg_cl_vendor){.path = strdup(path), .library = library};
    if (is_wrapped)
        vendor_add_platforms(vendor);
    if (vendor_proxy(path)) {
        why = vg_wire_why(library);
        if (why)
            vg_cl_say("%s: %s", path, why);
        vg_wire_stay(library);
    }
    if (vendor->n_tracks || !is_wrapped)
        vendors_n++;
}

/* Reads an .icd file. Its first line is the name of a library. */
static void
vendor_read(const char *folder, const char *name, bool is_wrapped)
{
    char path[1024], line[512];
    size_t size = strlen(name);

    if (size < 4 || strcmp(name + size - 4, ".icd") != 0 || strncmp(name, "vgpu-opencl", 11) == 0)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        vendor_add(line, is_wrapped);
    }
    fclose(file);
}

/* Returns the path of the agent's note next to its socket (guest/proxy-note.h). */
static bool
vendor_noted(const char *name, char *ret, size_t size)
{
    const char *agent = secure_getenv("VGPU_OPENCL_AGENT");

    if (!agent)
        agent = VG_OPENCL_AGENT_SOCKET;
    const char *slash = strrchr(agent, '/');
    int dir = slash ? (int)(slash - agent) : 0;
    return slash && snprintf(ret, size, "%.*s/%s", dir, agent, name) < (int)size;
}

/* Presents the token that the agent has noted to proxies of other machines, if there is one. */
static void
vendor_take_token(void)
{
    static char token[1024];

    if (vendor_noted("proxy.token", token, sizeof token) && access(token, R_OK) == 0)
        vg_wire_link_set_token(token);
}

/* Adds the proxy through which the host lets this VM use a GPU. The agent has noted the proxy and
 * its token. This applies if there is no vendor's library, or none with a platform. */
static void
vendor_add_told(bool is_wrapped)
{
    char path[1024], line[VG_CL_PLACE] = "";

    if (!vendor_noted("proxy", path, sizeof path))
        return;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(line, sizeof line, file))
        line[strcspn(line, "\r\n")] = '\0';
    fclose(file);
    const char *proxy = vendor_proxy(line);
    if (!proxy || !vg_wire_address_is_far(proxy))
        return;
    vendor_take_token();
    vendor_add(line, is_wrapped);
}

void
vg_cl_vendors_load(bool are_wrapped)
{
    const char *folder = secure_getenv("VGPU_OPENCL_VENDORS");
    const char *choice = secure_getenv("VGPU_OPENCL");
    struct dirent **names;

    if (vendors_target) {
        vendor_add_platforms(&vendors[0]);
        vendors_n = vendors[0].n_tracks ? 1 : 0;
        return;
    }
    if (choice && vendor_proxy(choice)) {
        vendor_add(choice, are_wrapped);
        return;
    }
    if (!folder)
        folder = VG_OPENCL_VENDORS_DIR;
    vg_cl_nodes_note();
    int n = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        vendor_read(folder, names[i]->d_name, are_wrapped);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    vg_cl_nodes_note_vendors();
    if (vendors_n == 0)
        vendor_add_told(are_wrapped);
}

/* ---- letting go, and again ---- */

void
vg_cl_vendor_unload(struct vg_cl_vendor *vendor)
{
    for (cl_uint i = 0; i < vendor->n_tracks; i++) {
        struct vg_cl_track *track = vendor->tracks[i];
        track->cl = NULL;
        track->platform->real = NULL;
        for (cl_uint d = 0; d < track->n_devices; d++)
            track->devices[d]->real = NULL;
    }
    vendor_close(vendor);
    vendor->library = NULL;
}

static const char vendor_no_platform[] = "the proxy has no platform of that vendor";

/* The device that replaces another one must allow everything that the other one did. */
static const char *
vendor_compare(struct vg_cl_track *track, cl_uint i, cl_device_id real)
{
    static char lacking[128];
    struct vg_cl_limits now;

    vg_cl_limits_ask(&now, track->cl, real);
    const char *lack = vg_cl_limits_lack(&track->limits[i], &now);
    if (!vg_cl_limits_are_same(&track->limits[i], &now))
        track->is_other = true;
    free(now.extensions);
    if (!lack)
        return NULL;
    snprintf(lacking, sizeof lacking, "the device offers less than the previous one: %s", lack);
    return lacking;
}

static const char *
vendor_find_again(struct vg_cl_track *track, cl_platform_id platform)
{
    cl_uint n;

    vendor_take_functions(track, platform);
    track->platform->real = platform;
    track->is_other = false;
    cl_device_id *reals = vendor_devices(track->cl, platform, &n);
    const char *wrong = n < track->n_devices ? "fewer devices are available than before" : NULL;
    for (cl_uint i = 0; !wrong && i < track->n_devices; i++) {
        track->devices[i]->real = reals[i];
        wrong = vendor_compare(track, i, reals[i]);
    }
    free(reals);
    return wrong;
}

/* The proxy's platforms are distinguished by their names. */
cl_platform_id
vg_cl_vendor_find_platform(const struct vg_cl_vendor *vendor, const struct vg_cl_track *track,
                           const cl_platform_id *platforms, cl_uint n)
{
    cl_uint same = 0;

    for (cl_uint i = 0; i < vendor->n_tracks && vendor->tracks[i] != track; i++)
        same += strcmp(vendor->tracks[i]->name, track->name) == 0;
    for (cl_uint i = 0; i < n; i++) {
        char name[128];
        vendor_name(vendor_dispatch(platforms[i]), platforms[i], name);
        if (strcmp(name, track->name) == 0 && same-- == 0)
            return platforms[i];
    }
    return NULL;
}

static const char *
vendor_find_all_again(struct vg_cl_vendor *vendor, const cl_platform_id *platforms, cl_uint n)
{
    const char *wrong = NULL;

    if (!vendor->place[0] && n < vendor->n_tracks)
        return "fewer platforms are available than before";
    for (cl_uint i = 0; !wrong && i < vendor->n_tracks; i++) {
        struct vg_cl_track *track = vendor->tracks[i];
        cl_platform_id platform = vendor->place[0]
                                      ? vg_cl_vendor_find_platform(vendor, track, platforms, n)
                                      : platforms[i];
        wrong = platform ? vendor_find_again(track, platform) : vendor_no_platform;
    }
    return wrong;
}

/* Returns whether it needs no GPU. */
static bool
vendor_is_of_processors(const struct vg_cl_vendor *vendor)
{
    for (cl_uint i = 0; i < vendor->n_tracks; i++)
        for (cl_uint d = 0; d < vendor->tracks[i]->n_devices; d++)
            if (!vg_cl_limits_are_of_processor(&vendor->tracks[i]->limits[d]))
                return false;
    return true;
}

const char *
vg_cl_vendor_reload(struct vg_cl_vendor *vendor)
{
    cl_uint n;
    const char *wrong = NULL;

    vendor->library = vendor_open(vg_cl_vendor_where(vendor), &wrong);
    if (!vendor->library)
        return wrong;
    cl_platform_id *platforms = vg_cl_vendor_platforms(vendor, &n);
    wrong = vendor_find_all_again(vendor, platforms, platforms ? n : 0);
    free(platforms);
    /* Without an answer, the platform may exist nevertheless. */
    const char *broken =
        vendor_proxy(vg_cl_vendor_where(vendor)) ? vg_wire_why(vendor->library) : NULL;
    wrong = broken ? broken : wrong;
    if (!wrong)
        return NULL;
    vg_cl_vendor_unload(vendor);
    /* Its own would be another proxy, which was not configured. */
    if (wrong != vendor_no_platform || vendor_proxy(vendor->path) ||
        !vendor_is_of_processors(vendor))
        return wrong;
    vendor->place[0] = '\0';
    return vg_cl_vendor_reload(vendor);
}

/* Prepares for a link to PLACE, which may be empty. Returns false if it is not valid. */
static bool
vendor_take_place(const char *place)
{
    if (strlen(place) >= VG_CL_PLACE || (*place && !vendor_proxy(place)))
        return false;
    if (*place && vg_wire_address_is_far(vendor_proxy(place)))
        vendor_take_token();
    return true;
}

struct vg_wire_client *
vg_cl_vendors_reach(const char *place, const char **why)
{
    vg_cl_vendors_unreach();
    if (!vendor_take_place(place)) {
        *why = "it is not a proxy";
        return NULL;
    }
    vendors_reached = vg_wire_connect(vendor_proxy(place), why);
    snprintf(vendors_reached_place, sizeof vendors_reached_place, "%s", place);
    return vendors_reached;
}

bool
vg_cl_vendors_send(const char *place)
{
    if (!vendor_take_place(place))
        return false;
    for (cl_uint i = 0; i < vendors_n; i++)
        if (!vendors[i].library)
            strcpy(vendors[i].place, place);
    return true;
}

const char *
vg_cl_vendors_place(void)
{
    for (cl_uint i = 0; i < vendors_n; i++)
        if (vendors[i].place[0])
            return vendors[i].place;
    return "";
}

bool
vg_cl_vendors_are_remote(void)
{
    for (cl_uint i = 0; i < vendors_n; i++)
        if (vendor_proxy(vendors[i].path))
            return true;
    return false;
}

void
vg_cl_vendors_inherit(void)
{
    for (cl_uint i = 0; i < vendors_n; i++)
        vendors[i].is_inherited = vendor_proxy(vg_cl_vendor_where(&vendors[i])) != NULL;
}

/* Returns VENDOR's proxy, if it is loaded, or NULL for a library, or nothing. */
static struct vg_wire_client *
vendor_client(const struct vg_cl_vendor *vendor)
{
    return vendor_proxy(vg_cl_vendor_where(vendor)) ? vendor->library : NULL;
}

bool
vg_cl_vendors_are_cut(void)
{
    for (cl_uint i = 0; i < vendors_n; i++) {
        const struct vg_wire_client *client = vendor_client(&vendors[i]);
        if (client && vg_wire_is_cut(client))
            return true;
    }
    return false;
}

void
vg_cl_vendors_stay(void)
{
    for (cl_uint i = 0; i < vendors_n; i++) {
        struct vg_wire_client *client = vendor_client(&vendors[i]);
        if (client)
            vg_wire_stay(client);
    }
}

const char *
vg_cl_vendors_why(void)
{
    const char *why = NULL;

    for (cl_uint i = 0; i < vendors_n && !why; i++) {
        struct vg_wire_client *client = vendor_client(&vendors[i]);
        why = client ? vg_wire_why(client) : NULL;
    }
    return why;
}
