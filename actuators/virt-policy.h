/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_ACTUATORS_VIRT_POLICY_H
#define VG_ACTUATORS_VIRT_POLICY_H

#include "actuators/virt-move.h"
#include "model/acting.h"

/* Stores the policy's mode for a domain in its metadata, both in the running domain and in its
 * persistent definition, if it has these. VG_POLICY_UNSET removes it. Fails with VG_E_NOT_FOUND if
 * the domain does not exist. */
int vg_virt_set_policy(vg_virt_link *link, const char *uuid, enum vg_policy_mode mode,
                       GError **err);

#endif
