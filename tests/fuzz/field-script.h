/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzzer's input as the fields of records: a script that says which fields an event has, and what
 * is in them. One byte says which exist, by a hash of their names; then for each one that is asked
 * for, one byte picks a value from a table of nasty ones, or says how many bytes make it.
 */
#ifndef VG_TESTS_FUZZ_FIELD_SCRIPT_H
#define VG_TESTS_FUZZ_FIELD_SCRIPT_H

#include <stdint.h>

#include "trace/adapter.h"

struct field_script {
    const uint8_t *data;
    size_t left;
    uint8_t present;            /* bits: which fields exist */
    const int64_t *numbers;     /* nasty ones */
    size_t n_numbers;           /* below 0xf0 */
    const char *const *strings; /* the same; may be NULL */
    size_t n_strings;
};

uint8_t field_script_byte(struct field_script *script);

/* Its event classes are scripts, its records pointers to scripts. */
extern const struct vg_field_reader field_script_reader;

#endif
