/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a configuration: no crash; what is accepted is dumped and read back the same.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy-conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vg_policy_config config;
    struct vg_policy_config again;
    g_autoptr(GError) err = NULL;

    if (vg_policy_config_parse((const char *)data, size, &config, &err) < 0) {
        if (!err)
            abort();
        return 0;
    }
    g_autofree char *dump = vg_policy_config_dump(&config);
    if (vg_policy_config_parse(dump, strlen(dump), &again, NULL) < 0)
        abort();
    g_autofree char *dump_again = vg_policy_config_dump(&again);
    if (strcmp(dump, dump_again) != 0)
        abort();
    return 0;
}
