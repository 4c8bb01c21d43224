/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzzer's input as the messages of a program's library to a proxy: a script that says which
 * functions are called, with which objects of those that there are, and what is wrong about it.
 */
#ifndef VG_TESTS_FUZZ_OPENCL_MESSAGE_H
#define VG_TESTS_FUZZ_OPENCL_MESSAGE_H

#include "opencl/track/object.h"
#include "opencl/wire/ops.h"
#include "opencl/wire/wire.h"

#define MESSAGE_IDS    32 /* of a type, that are known */
#define MESSAGE_MAPS   8
#define MESSAGE_BLOCK  65536 /* bytes of a block of the memory in common */
#define MESSAGE_BLOCKS 4

struct message_mem {
    size_t element, extent[3]; /* of an image */
};

struct message_map {
    uint64_t number, mem;
    size_t size; /* of what is written back */
};

struct message_script {
    const uint8_t *data;
    size_t left;
    uint64_t ids[VG_CL_EVENT + 1][MESSAGE_IDS], gone[VG_CL_EVENT + 1], last_id;
    unsigned n_ids[VG_CL_EVENT + 1];
    struct message_mem mems[MESSAGE_IDS]; /* of the memory objects in `ids` */
    struct message_map maps[MESSAGE_MAPS];
    unsigned n_maps;
    uint64_t number, last_map, last_token;
    /* of the message that is made */
    uint64_t numbers[8], regions[3][3];
    unsigned n_numbers, n_regions, mem;
    struct message_mem made;
};

struct message {
    struct vg_wire_head head;
    struct vg_wire_out body;
    size_t data;   /* bytes that follow, and of whichever content */
    bool is_cut;   /* nothing comes after it */
    bool is_wrong; /* its head may be: what follows may be read as others than were made */
    bool settles;  /* commands are done before it comes */
    uint8_t fails; /* which call of the vendor fails; 0: none */
};

uint8_t message_byte(struct message_script *script);

/* Has ID, of a root, in the script. */
void message_know(struct message_script *script, enum vg_cl_type type, uint64_t id);

/* Makes the next message, whose body is to be ended. False: there is none. */
bool message_next(struct message_script *script, struct message *message);

/* The hello, as it has to be. */
void message_hello(struct message_script *script, struct message *message);

#endif
