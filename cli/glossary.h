/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_CLI_GLOSSARY_H
#define VG_CLI_GLOSSARY_H

#include <stddef.h>

/* A term in the output (a measurement, class or rule) and its meaning. */
struct vg_glossary_entry {
    const char *word;
    const char *meaning;
};

extern const struct vg_glossary_entry vg_glossary[];
extern const size_t vg_glossary_size;

/* The terms are headings in lower case without units, and words in tables. */
extern const struct vg_glossary_entry vg_glossary_headings[];
extern const size_t vg_glossary_headings_size;

#endif
