/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/look.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/icd/entries.h"

#define LOOK_PAUSE INT64_C(60000000000) /* ns */

/* cl_khr_pci_bus_info and cl_nv_device_attribute_query, which may be missing from headers. */
#define LOOK_PCI_KHR    0x410F
#define LOOK_PCI_BUS    0x4008
#define LOOK_PCI_SLOT   0x4009
#define LOOK_PCI_DOMAIN 0x400A

struct look_pci {
    cl_uint domain, bus, device, function;
};

void
vg_look_want(struct proxy_look *look)
{
    look->is_wanted = look->is_wanted || !look->is_known;
}

void
vg_look_again(struct proxy_look *look)
{
    look->is_wanted = look->is_known || look->is_wanted;
    look->due = 0;
}

static bool
look_is_due(struct proxy_look *look)
{
    if (!look->is_wanted || look->pid || vg_cl_now() < look->due)
        return false;
    if (!look->found) {
        void *found = mmap(NULL, sizeof *look->found, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        look->found = found == MAP_FAILED ? NULL : found;
    }
    look->due = vg_cl_now() + LOOK_PAUSE;
    if (look->found)
        memset(look->found, 0, sizeof *look->found);
    return look->found;
}

static bool
look_ask(cl_device_id device, cl_device_info what, void *value, size_t size)
{
    return vg_cl_dispatch.clGetDeviceInfo(device, what, size, value, NULL) == CL_SUCCESS;
}

static bool
look_find_pci(cl_device_id device, struct look_pci *pci)
{
    cl_uint slot = 0;

    if (look_ask(device, LOOK_PCI_KHR, pci, sizeof *pci))
        return true;
    if (!look_ask(device, LOOK_PCI_BUS, &pci->bus, sizeof pci->bus) ||
        !look_ask(device, LOOK_PCI_SLOT, &slot, sizeof slot))
        return false;
    if (!look_ask(device, LOOK_PCI_DOMAIN, &pci->domain, sizeof pci->domain))
        pci->domain = 0;
    /* A slot as in configuration space: five bits for the device, three for the function. */
    pci->device = slot >> 3;
    pci->function = slot & 7;
    return true;
}

static void
look_add(struct proxy_found *found, cl_device_id device)
{
    struct proxy_look_device *to = &found->devices[found->n];
    struct look_pci pci = {0};
    cl_ulong memory = 0;

    if (found->n == PROXY_LOOK_MAX ||
        !look_ask(device, CL_DEVICE_NAME, to->name, sizeof to->name - 1))
        return;
    if (look_find_pci(device, &pci))
        snprintf(to->pci, sizeof to->pci, "%04x:%02x:%02x.%x", pci.domain & 0xffff, pci.bus & 0xff,
                 pci.device & 0x1f, pci.function & 7);
    if (look_ask(device, CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory))
        to->memory = memory;
    found->n++;
}

static _Noreturn void
look_run(struct proxy_found *found)
{
    cl_platform_id platforms[16];
    cl_device_id devices[PROXY_LOOK_MAX];
    cl_uint n = 0, n_devices;

    if (vg_cl_dispatch.clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        n = 0;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        if (vg_cl_dispatch.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, PROXY_LOOK_MAX, devices,
                                          &n_devices) != CL_SUCCESS)
            n_devices = 0;
        for (cl_uint d = 0; d < n_devices && d < PROXY_LOOK_MAX; d++)
            look_add(found, devices[d]);
    }
    /* Skip the vendors' exit handlers. */
    _exit(found->n > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

void
vg_look_begin(struct proxy_look *look, const struct proxy_confinement *confinement,
              void (*leave)(void *data), void *data)
{
    sigset_t none;

    vg_keeper_look(&look->keeper, confinement, leave, data);
    if (!look_is_due(look))
        return;
    struct proxy_found *found = look->found;
    const pid_t pid = vg_proxy_fork(confinement);
    look->pid = pid > 0 ? pid : 0;
    if (pid != 0)
        return;
    look->found = NULL;
    leave(data);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_NAME, "vgpu-proxy-look", 0, 0, 0);
    const char *why = vg_proxy_confine(confinement);
    if (why) {
        vg_cl_say("cannot search for devices: %s: %s", why, strerror(errno));
        _exit(EXIT_FAILURE);
    }
    look_run(found);
}

void
vg_look_leave(const struct proxy_look *look)
{
    if (look->found)
        munmap(look->found, sizeof *look->found);
    vg_keeper_leave(&look->keeper);
}

void
vg_look_end(const struct proxy_look *look)
{
    if (look->pid)
        kill(look->pid, SIGKILL);
    if (look->keeper.pid)
        kill(look->keeper.pid, SIGKILL);
}

bool
vg_look_ended(struct proxy_look *look, pid_t pid, int status)
{
    if (vg_keeper_ended(&look->keeper, pid, status))
        return true;
    if (!look->pid || pid != look->pid)
        return false;
    look->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS ||
        look->found->n > PROXY_LOOK_MAX)
        return true;
    look->known = *look->found;
    for (unsigned i = 0; i < look->known.n; i++) {
        look->known.devices[i].name[sizeof look->known.devices[i].name - 1] = '\0';
        look->known.devices[i].pci[sizeof look->known.devices[i].pci - 1] = '\0';
    }
    look->is_known = true;
    look->is_wanted = false;
    return true;
}
