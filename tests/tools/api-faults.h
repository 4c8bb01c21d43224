/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of access control, for tests that must find them. The linker puts the functions and the
 * document of api-faults.c in the place of the product's (--wrap), which knows nothing of it.
 */
#ifndef VG_TESTS_TOOLS_API_FAULTS_H
#define VG_TESTS_TOOLS_API_FAULTS_H

#include <stdbool.h>

/* In the OpenAPI document GET /v1/audit has no role. */
#define API_FAULT_NO_ROLE "no-role"
/* The same, and nobody minds. */
#define API_FAULT_NO_ROLE_READ "no-role-read"
/* It says that a reader may POST /v1/plans. */
#define API_FAULT_WEAK_ROLE "weak-role"
/* Who is not known is told 404 where there is no such path. */
#define API_FAULT_NOT_FOUND "not-found"

/* Before vg_api_new(), in any case. name: one of these, or another one, which changes nothing. */
void api_fault_begin(const char *name);

#endif
