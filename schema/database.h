/* SPDX-License-Identifier: Apache-2.0
 *
 * What the databases of store and journal have in common: the meaning of sqlite's errors. Any
 * thread.
 */
#ifndef VG_SCHEMA_DATABASE_H
#define VG_SCHEMA_DATABASE_H

#include <stdbool.h>

#include "base/error.h"

/* Tells if the error means that the file is damaged, or not one of ours. */
bool vg_database_is_damaged(int rc);

/* Returns the code of an error, VG_E_IO if it is none that sqlite blames on others or on rights. */
enum vg_error_code vg_database_code(int rc);

/* Returns what to do about an error, as the end of a sentence; "" if there is no advice. */
const char *vg_database_advice(int rc);

#endif
