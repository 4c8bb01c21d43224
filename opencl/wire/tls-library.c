/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/tls-library.h"

#include <pthread.h>
#include <stdio.h>

#include <dlfcn.h>

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tls_library library;
static bool library_is_there;

/* Called under the lock. */
static bool
library_load(char *fault, size_t size)
{
    void *handle = dlopen(TLS_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        snprintf(fault, size, "a tls address needs GnuTLS (package libgnutls30): %s", dlerror());
        return false;
    }
#define LIBRARY_FIND(name)                                                                         \
 library.name = (__typeof__(library.name))dlsym(handle, #name);                                    \
 if (!library.name) {                                                                              \
  snprintf(fault, size, "GnuTLS is too old: " TLS_LIBRARY " has no " #name);                       \
  return false;                                                                                    \
 }
    TLS_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
    return true;
}

const struct tls_library *
vg_wire_tls_library(char *fault, size_t size)
{
    pthread_mutex_lock(&library_lock);
    library_is_there = library_is_there || library_load(fault, size);
    bool is_there = library_is_there;
    pthread_mutex_unlock(&library_lock);
    return is_there ? &library : NULL;
}
