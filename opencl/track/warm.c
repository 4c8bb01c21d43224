/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/warm.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
# define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define WARM_PIECE ((size_t)32 << 20) /* bytes per call */
#define WARM_MIN   (4 * WARM_PIECE)   /* less memory is not worth a thread */

static void *
warm_run(void *data)
{
    struct vg_cl_warm *warm = data;

    while (!warm->is_over) {
        size_t at = atomic_fetch_add(&warm->next, WARM_PIECE);
        if (at >= warm->size)
            break;
        size_t size = warm->size - at < WARM_PIECE ? warm->size - at : WARM_PIECE;
        if (madvise(warm->base + at, size, MADV_POPULATE_WRITE) != 0)
            break;
    }
    return NULL;
}

void
vg_cl_warm_begin(struct vg_cl_warm *warm, unsigned char *base, size_t size)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    *warm = (struct vg_cl_warm){.base = base, .size = size};
    if (size < WARM_MIN)
        return;
    /* One CPU is for the reader. */
    while (warm->n < VG_CL_WARM_THREADS && (long)warm->n + 1 < cpus &&
           warm->n < size / WARM_PIECE &&
           pthread_create(&warm->threads[warm->n], NULL, warm_run, warm) == 0)
        warm->n++;
}

void
vg_cl_warm_end(struct vg_cl_warm *warm)
{
    warm->is_over = true;
    while (warm->n > 0)
        pthread_join(warm->threads[--warm->n], NULL);
}
