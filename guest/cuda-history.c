/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-history.h"

#include <string.h>

#include "guest/util.h"

enum {
    /* CU_MEM_LOCATION_TYPE_DEVICE. */
    ON_DEVICE = 1,
    /* The maximum number of callers looked up per process, because each requires reading all its
     * mappings. */
    LOOKED_UP_MAX = 32,
    DEVICES_MAX = 64,
};

/* Returns the product, or the maximum if it overflows. */
static uint64_t
history_times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Returns the bytes of an element of CUarray_format, or the maximum of all formats if it is
 * unknown. */
static uint64_t
history_element(uint32_t format)
{
    if (format == 0x01 || format == 0x08)
        return 1;
    if (format == 0x02 || format == 0x09 || format == 0x10)
        return 2;
    return 4;
}

/* Returns the bytes of an array. The format of its elements follows the n extents. */
static uint64_t
history_array(const uint64_t *extents, size_t n)
{
    uint64_t bytes = history_times(history_element((uint32_t)extents[n]), extents[n] >> 32);

    for (size_t i = 0; i < n; i++)
        bytes = history_times(bytes, extents[i] > 0 ? extents[i] : 1);
    return bytes;
}

/* Returns the bit of a device in a CUmemLocation, or 0 if it is none. */
static uint64_t
history_device(uint64_t location)
{
    uint64_t device = location >> 32;

    if ((uint32_t)location != ON_DEVICE)
        return 0;
    return device < DEVICES_MAX ? (uint64_t)1 << device : UINT64_MAX;
}

/* Returns whether the allocation is large. */
static bool
history_allocate(uint64_t *smallest, uint64_t bytes)
{
    if (bytes < VG_CUDA_LARGE_BYTES)
        return false;
    if (*smallest == 0 || bytes < *smallest)
        *smallest = bytes;
    return true;
}

static bool
history_create(struct vg_cuda_history *history, uint64_t bytes, uint64_t location)
{
    uint64_t device = history_device(location);

    if (device == 0 || !history_allocate(&history->created_bytes, bytes))
        return false;
    history->created_on |= device;
    return true;
}

static bool
history_access(struct vg_cuda_history *history, uint64_t n, const uint64_t *locations)
{
    uint64_t devices = n > 0 ? history_device(locations[0]) : 0;

    devices |= n > 1 ? history_device(locations[1]) : 0;
    /* Further devices are not read. */
    history->access_by |= n > 2 ? UINT64_MAX : devices;
    return true;
}

static bool
history_enable(struct vg_cuda_history *history, uint64_t context, bool disables)
{
    uint32_t i = 0;

    while (i < history->n_peers && history->peers[i].context != context)
        i++;
    if (i == history->n_peers && i == VG_CUDA_PEERS_MAX) {
        history->more_peers = 1;
        return true;
    }
    if (i == history->n_peers)
        history->peers[history->n_peers++].context = context;
    if (disables)
        history->peers[i].disabled++;
    else
        history->peers[i].enabled++;
    return true;
}

bool
vg_cuda_history_take(struct vg_cuda_history *history, size_t i, const uint64_t *values, size_t n)
{
    static const size_t needs[] = {
        [VG_CUDA_SAYS_TIE] = 1,    [VG_CUDA_SAYS_BYTES] = 2,  [VG_CUDA_SAYS_ROWS] = 3,
        [VG_CUDA_SAYS_FLAT] = 4,   [VG_CUDA_SAYS_ARRAY] = 5,  [VG_CUDA_SAYS_CREATE] = 3,
        [VG_CUDA_SAYS_ACCESS] = 4, [VG_CUDA_SAYS_ENABLE] = 2, [VG_CUDA_SAYS_DISABLE] = 2,
    };
    enum vg_cuda_says says = vg_cuda_functions[i].says;

    if (n < needs[says])
        return false;
    switch (says) {
    case VG_CUDA_SAYS_BYTES:
        return history_allocate(&history->large_bytes, values[1]);
    case VG_CUDA_SAYS_ROWS:
        return history_allocate(&history->large_bytes, history_times(values[1], values[2]));
    case VG_CUDA_SAYS_FLAT:
        return history_allocate(&history->large_bytes, history_array(values + 1, 2));
    case VG_CUDA_SAYS_ARRAY:
        return history_allocate(&history->large_bytes, history_array(values + 1, 3));
    case VG_CUDA_SAYS_CREATE:
        return history_create(history, values[1], values[2]);
    case VG_CUDA_SAYS_ACCESS:
        return history_access(history, values[1], values + 2);
    case VG_CUDA_SAYS_ENABLE:
    case VG_CUDA_SAYS_DISABLE:
        return history_enable(history, values[1], says == VG_CUDA_SAYS_DISABLE);
    case VG_CUDA_SAYS_TIE:
    default:
        return true;
    }
}

static bool
use_has_call(const struct vg_cuda_history *history, size_t i, const char *library)
{
    for (uint32_t k = 0; k < history->n_calls; k++) {
        if (history->calls[k].function == i &&
            (!library || strcmp(history->calls[k].library, library) == 0))
            return true;
    }
    return false;
}

bool
vg_cuda_history_wants_caller(const struct vg_cuda_history *history, size_t i)
{
    /* Each library that makes a tie counts, because the advice depends on the library. */
    return history->n_calls < VG_CUDA_CALLS_MAX && history->looked_up < LOOKED_UP_MAX &&
           (vg_cuda_functions[i].tie != 0 || !use_has_call(history, i, NULL));
}

void
vg_cuda_history_take_caller(struct vg_cuda_history *history, size_t i, const char *library)
{
    history->looked_up++;
    if (history->n_calls == VG_CUDA_CALLS_MAX || use_has_call(history, i, library))
        return;
    history->calls[history->n_calls].function = (uint32_t)i;
    vg_guest_put(history->calls[history->n_calls].library, VG_CUDA_LIBRARY_NAME_MAX, "%s", library);
    history->n_calls++;
}

bool
vg_cuda_history_has_peer(const struct vg_cuda_history *history)
{
    bool enabled = history->more_peers > 0, uneven = history->more_peers > 0;

    for (uint32_t i = 0; i < history->n_peers; i++) {
        enabled = enabled || history->peers[i].enabled > 0;
        uneven = uneven || history->peers[i].disabled != history->peers[i].enabled;
    }
    /* If they do not match one to one, some calls may have failed, but it is unknown which ones. */
    return history->large_bytes > 0 && enabled && uneven;
}

bool
vg_cuda_history_has_shared(const struct vg_cuda_history *history)
{
    /* Any device that may access memory, other than the only one that has large memory. */
    bool one = (history->created_on & (history->created_on - 1)) == 0;

    return history->created_bytes > 0 && history->access_by != 0 &&
           (!one || (history->access_by & ~history->created_on) != 0);
}
