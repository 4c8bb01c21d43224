/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/vm-name.h"

#include <string.h>

#include <glib.h>

bool
vg_vm_is(const char *id, const char *name, const char *uuid)
{
    return id && *id &&
           ((name && strcmp(id, name) == 0) || (uuid && g_ascii_strcasecmp(id, uuid) == 0));
}
