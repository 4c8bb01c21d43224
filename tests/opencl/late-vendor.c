/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, but it holds back the callbacks of events until a sampler is created.
 * NVIDIA's library calls back up to 20 ms after a command is done.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/vendor-table.h"

struct held {
    struct held *next;
    cl_event event;
    cl_int type;
    void(CL_CALLBACK *notify)(cl_event, cl_int, void *);
    void *data;
};

static cl_icd_dispatch pocl; /* its own functions */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *all, **end = &all; /* with the lock */

static cl_int CL_API_CALL
late_clSetEventCallback(cl_event event, cl_int type,
                        void(CL_CALLBACK *notify)(cl_event, cl_int, void *), void *data)
{
    struct held *held = malloc(sizeof *held);

    if (!held)
        return CL_OUT_OF_HOST_MEMORY;
    *held = (struct held){NULL, event, type, notify, data};
    pocl.clRetainEvent(event);
    pthread_mutex_lock(&lock);
    *end = held;
    end = &held->next;
    pthread_mutex_unlock(&lock);
    return CL_SUCCESS;
}

static cl_sampler CL_API_CALL
late_clCreateSampler(cl_context context, cl_bool is_normal, cl_addressing_mode addressing,
                     cl_filter_mode filter, cl_int *error)
{
    pthread_mutex_lock(&lock);
    struct held *held = all;
    all = NULL;
    end = &all;
    pthread_mutex_unlock(&lock);
    while (held) {
        struct held *next = held->next;
        pocl.clSetEventCallback(held->event, held->type, held->notify, held->data);
        pocl.clReleaseEvent(held->event);
        free(held);
        held = next;
    }
    return pocl.clCreateSampler(context, is_normal, addressing, filter, error);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0 || pocl.clSetEventCallback)
        return found;
    cl_icd_dispatch *table = vendor_table((vendor_get_platforms)found);
    if (!table)
        return NULL;
    pocl = *table;
    table->clSetEventCallback = late_clSetEventCallback;
    table->clCreateSampler = late_clCreateSampler;
    return found;
}
