/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of this directory as NUL-terminated strings; sizes exclude the NUL. schema/embed.c
 * generates schema/schema.c from them in the build directory.
 */
#ifndef VG_SCHEMA_SCHEMA_H
#define VG_SCHEMA_SCHEMA_H

#include <stddef.h>

/* schema/api/openapi.yaml as JSON on one line. */
extern const char vg_schema_openapi[];
extern const size_t vg_schema_openapi_size;

/* schema/journal/ and schema/store/: the additions of each version, in order. */
extern const char vg_schema_state_001[];
extern const size_t vg_schema_state_001_size;
extern const char vg_schema_state_002[];
extern const size_t vg_schema_state_002_size;
extern const char vg_schema_state_003[];
extern const size_t vg_schema_state_003_size;
extern const char vg_schema_state_004[];
extern const size_t vg_schema_state_004_size;
extern const char vg_schema_state_005[];
extern const size_t vg_schema_state_005_size;
extern const char vg_schema_state_006[];
extern const size_t vg_schema_state_006_size;
extern const char vg_schema_state_007[];
extern const size_t vg_schema_state_007_size;
extern const char vg_schema_ts_001[];
extern const size_t vg_schema_ts_001_size;
extern const char vg_schema_ts_002[];
extern const size_t vg_schema_ts_002_size;
extern const char vg_schema_ts_003[];
extern const size_t vg_schema_ts_003_size;
extern const char vg_schema_ts_004[];
extern const size_t vg_schema_ts_004_size;

/* web/dist/, compressed with gzip. */
extern const char vg_page_html[];
extern const size_t vg_page_html_size;
extern const char vg_page_js[];
extern const size_t vg_page_js_size;
extern const char vg_page_css[];
extern const size_t vg_page_css_size;

#endif
