/* SPDX-License-Identifier: Apache-2.0
 *
 * A proxy that lies to a program's library: a fuzzer's input says what it answers, in which order,
 * and what is wrong about it. It is the other side of a link that is a buffer.
 */
#ifndef VG_TESTS_FUZZ_OPENCL_LIAR_H
#define VG_TESTS_FUZZ_OPENCL_LIAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program and the proxy do is in the same script. */
void liar_begin(const uint8_t *data, size_t size);
void liar_end(void);
uint8_t liar_byte(void);
uint64_t liar_number(void);
bool liar_has_more(void);

/* How many bytes the program's next call reads, for an honest answer, and how large an element of
 * an image is that it makes. */
void liar_expect(size_t size, size_t element);

/* Has threads begin, which the program's side has not while it is tried. */
void liar_allow_threads(bool may);

#endif
