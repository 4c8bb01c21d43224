/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/opencl-message.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/api/fields.h"

/* The bits of a message's second byte; both of the last ones: something is wrong with it. */
enum {
    SCRIPT_LATER = 1,
    SCRIPT_WAITS = 2,
    SCRIPT_SETTLES = 4,
    SCRIPT_FAILS = 8,
    SCRIPT_STAGED = 16,
    SCRIPT_ROOM = 32,
    SCRIPT_WRONG = 64 | 128,
};

#define SCRIPT_NULL 0xF0 /* of a byte, and more: there is no list */

uint8_t
message_byte(struct message_script *script)
{
    if (script->left == 0)
        return 0;
    script->left--;
    return *script->data++;
}

/* A number of one byte, or one that is likely to be taken for another. */
static uint64_t
script_number(struct message_script *script)
{
    static const uint64_t others[] = {256,
                                      1024,
                                      4096,
                                      16384,
                                      65536,
                                      65537,
                                      1 << 20,
                                      (1 << 20) + 1,
                                      1 << 24,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      0x100000001,
                                      VG_WIRE_DATA_MAX,
                                      VG_WIRE_DATA_MAX + 1,
                                      VG_WIRE_IDS_MAX - 1,
                                      VG_WIRE_IDS_MAX,
                                      INT64_MAX,
                                      UINT64_MAX - 7,
                                      UINT64_MAX,
                                      UINT64_C(1) << 61};
    uint8_t byte = message_byte(script);
    uint64_t number = 0;

    if (byte < 0xE0)
        return byte;
    if (byte - 0xE0U < sizeof others / sizeof *others)
        return others[byte - 0xE0];
    for (int i = 0; i < 8; i++)
        number = number << 8 | message_byte(script);
    return number;
}

void
message_know(struct message_script *script, enum vg_cl_type type, uint64_t id)
{
    unsigned n = script->n_ids[type]++ % MESSAGE_IDS;

    script->ids[type][n] = id;
    script->last_id = id > script->last_id && id < 4096 ? id : script->last_id;
    if (type == VG_CL_MEM)
        script->mems[n] = script->made;
}

static unsigned
script_known(const struct message_script *script, unsigned type)
{
    return script->n_ids[type] < MESSAGE_IDS ? script->n_ids[type] : MESSAGE_IDS;
}

/* One of those that are there, or one that is not what it should be. */
static uint64_t
script_object(struct message_script *script, unsigned type)
{
    uint8_t byte = message_byte(script);
    unsigned n = script_known(script, type);

    if (byte < SCRIPT_NULL && n) {
        unsigned at = (n - 1 + byte) % n;
        if (type == VG_CL_MEM)
            script->mem = at;
        return script->ids[type][at];
    }
    if (byte < SCRIPT_NULL + 4)
        return script->gone[type];
    if (byte < SCRIPT_NULL + 12) {
        unsigned other = 1 + byte % VG_CL_EVENT;
        return script_known(script, other) ? script->ids[other][0] : 0;
    }
    return byte < SCRIPT_NULL + 14 ? 0 : script_number(script);
}

static void
script_forget(struct message_script *script, unsigned type, uint64_t id)
{
    for (unsigned i = 0; i < script_known(script, type); i++) {
        if (script->ids[type][i] != id)
            continue;
        unsigned last = script_known(script, type) - 1;
        script->n_ids[type] = last;
        script->ids[type][i] = script->ids[type][last];
        if (type == VG_CL_MEM)
            script->mems[i] = script->mems[last];
        script->gone[type] = id;
    }
}

static uint64_t
script_new(struct message_script *script, unsigned type)
{
    uint8_t byte = message_byte(script);
    uint64_t id = byte < 0x80 || byte >= SCRIPT_NULL ? script->last_id + 1 : script->gone[type];

    if (byte >= SCRIPT_NULL + 12)
        return byte == 0xFF ? script_number(script) : script_object(script, type);
    if (byte >= SCRIPT_NULL)
        return 0;
    id = id ? id : script->last_id + 1;
    message_know(script, type, id);
    return id;
}

/* ---- fields ---- */

static void
script_put_ids(struct message_script *script, struct message *message, unsigned type, unsigned at,
               bool are_new)
{
    uint64_t ids[8], n = message_byte(script);
    bool is_null = n >= SCRIPT_NULL;

    /* How many there are said to be, mostly. */
    if (!are_new && !is_null)
        n = at < script->n_numbers ? script->numbers[at] : n;
    is_null = is_null || (n == 0 && !are_new);
    n %= 8;
    for (uint64_t i = 0; i < n && !is_null; i++)
        ids[i] = are_new ? script_new(script, type) : script_object(script, type);
    vg_wire_put_list(&message->body, is_null ? NULL : ids, n * sizeof *ids);
}

static void
script_put_array(struct message_script *script, struct message *message, size_t each, uint64_t n)
{
    uint64_t numbers[32] = {0};
    size_t size = each * (n % (each == 8 ? 5 : 130));
    uint8_t byte = message_byte(script);

    for (size_t i = 0; i < size / 8 && i < 4; i++)
        numbers[i] = script_number(script);
    vg_wire_put_list(&message->body, byte >= SCRIPT_NULL ? NULL : numbers, size);
}

static void
script_put_region(struct message_script *script, struct message *message)
{
    uint64_t *region = script->regions[script->n_regions++ % 3];

    for (int i = 0; i < 3; i++)
        region[i] = script_number(script);
    if (message_byte(script) >= SCRIPT_NULL + 8)
        vg_wire_put(&message->body, VG_WIRE_NONE);
    else
        vg_wire_put_list(&message->body, region, sizeof script->regions[0]);
}

static void
script_put_string(struct message_script *script, struct message *message)
{
    static const char *const strings[] = {"", "kernel void first() { }", "first", "-D A=1", "a;b"};
    uint8_t byte = message_byte(script);
    char bytes[16];

    if (byte >= 0xF8)
        vg_wire_put(&message->body, VG_WIRE_NONE);
    if (byte >= 0xF8)
        return;
    if (byte < SCRIPT_NULL) {
        vg_wire_put_string(&message->body, strings[byte % 5]);
        return;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)message_byte(script);
    vg_wire_put_list(&message->body, bytes, byte % 8 * 2);
}

static void
script_put_lists(struct message_script *script, struct message *message, uint64_t n, bool is_bytes)
{
    uint8_t byte = is_bytes ? 0 : message_byte(script);

    if (!is_bytes)
        vg_wire_put(&message->body, byte >= SCRIPT_NULL ? VG_WIRE_NONE : n);
    for (uint64_t i = 0; i < n % 8 && byte < SCRIPT_NULL; i++)
        script_put_string(script, message);
}

static void
script_put_pairs(struct message_script *script, struct message *message)
{
    static const uint64_t names[] = {CL_CONTEXT_PLATFORM,           CL_QUEUE_PROPERTIES,
                                     CL_SAMPLER_NORMALIZED_COORDS,  CL_DEVICE_PARTITION_EQUALLY,
                                     CL_DEVICE_PARTITION_BY_COUNTS, CL_CONTEXT_INTEROP_USER_SYNC};
    uint64_t pairs[7];
    uint8_t byte = message_byte(script);
    size_t n = byte & 3;

    for (size_t i = 0; i < n; i++) {
        pairs[2 * i] = names[message_byte(script) % (sizeof names / sizeof *names)];
        pairs[2 * i + 1] = script_number(script);
    }
    pairs[2 * n] = byte < SCRIPT_NULL && (byte & 0x40) ? script_number(script) : 0;
    vg_wire_put_list(&message->body, byte >= SCRIPT_NULL ? NULL : pairs, (2 * n + 1) * 8);
}

static void
script_put_format(struct message_script *script, struct message *message, struct message_mem *image)
{
    static const cl_image_format formats[] = {
        {CL_RGBA, CL_UNSIGNED_INT8},  {CL_R, CL_FLOAT},
        {CL_RGBA, CL_FLOAT},          {CL_R, CL_UNSIGNED_INT8},
        {CL_RGB, CL_UNORM_SHORT_565}, {CL_DEPTH, CL_UNORM_INT24}};
    static const size_t elements[] = {4, 4, 16, 1, 2, 0};
    uint8_t byte = message_byte(script);

    image->element = elements[byte % 6];
    vg_wire_put_list(&message->body, byte >= SCRIPT_NULL ? NULL : &formats[byte % 6],
                     sizeof *formats);
}

static void
script_put_desc(struct message_script *script, struct message *message, struct message_mem *image)
{
    uint8_t byte = message_byte(script);
    cl_image_desc desc = {.image_type = byte % 8 + CL_MEM_OBJECT_BUFFER};

    desc.image_width = script_number(script);
    desc.image_height = script_number(script);
    desc.image_depth = byte & 8 ? script_number(script) : 1;
    desc.image_array_size = byte & 16 ? script_number(script) : 1;
    desc.image_row_pitch = byte & 32 ? script_number(script) : 0;
    desc.image_slice_pitch = byte & 64 ? script_number(script) : 0;
    image->extent[0] = desc.image_width;
    image->extent[1] = desc.image_height;
    image->extent[2] = 1;
    if (desc.image_type == CL_MEM_OBJECT_IMAGE3D)
        image->extent[2] = desc.image_depth;
    else if (desc.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY)
        image->extent[2] = desc.image_array_size;
    else if (desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY)
        image->extent[1] = desc.image_array_size;
    else if (desc.image_type != CL_MEM_OBJECT_IMAGE2D)
        image->extent[1] = 1;
    vg_wire_put_list(&message->body, byte >= SCRIPT_NULL ? NULL : &desc,
                     offsetof(cl_image_desc, num_mip_levels));
}

/* The type of an argument, its kernel, and its value. */
static void
script_put_arg(struct message_script *script, struct message *message)
{
    static const uint8_t types[] = {VG_CL_NONE, VG_CL_MEM, VG_CL_SAMPLER, VG_CL_NONE};
    uint8_t byte = message_byte(script);
    uint64_t bytes[8];
    unsigned type = byte >= SCRIPT_NULL ? byte - SCRIPT_NULL : types[byte % 4];
    size_t size = script->numbers[1] % 64;

    vg_wire_put(&message->body, type);
    vg_wire_put(&message->body, script_object(script, VG_CL_KERNEL));
    if (type != VG_CL_NONE) {
        vg_wire_put(&message->body, script_object(script, type % (VG_CL_EVENT + 1)));
        return;
    }
    for (size_t i = 0; i < 8; i++)
        bytes[i] = i * 8 < size ? script_number(script) : 0;
    vg_wire_put_list(&message->body, byte & 0x40 ? NULL : bytes, byte & 0x20 ? 0 : size);
}

static void
script_put_events(struct message_script *script, struct message *message)
{
    uint64_t n = message_byte(script);

    n = n >= SCRIPT_NULL ? script_number(script) : n % 3;
    script->numbers[7] = n;
    unsigned n_numbers = script->n_numbers;
    script->n_numbers = 8;
    vg_wire_put(&message->body, n);
    script_put_ids(script, message, VG_CL_EVENT, 7, false);
    script->n_numbers = n_numbers;
    vg_wire_put(&message->body, script_new(script, VG_CL_EVENT));
}

static uint64_t
script_flags(struct message_script *script)
{
    static const uint64_t flags[] = {0,
                                     CL_MEM_COPY_HOST_PTR,
                                     CL_MEM_USE_HOST_PTR,
                                     CL_MEM_ALLOC_HOST_PTR,
                                     CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR,
                                     CL_MEM_HOST_READ_ONLY,
                                     CL_MEM_READ_ONLY,
                                     CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR,
                                     CL_MEM_HOST_NO_ACCESS};
    uint8_t byte = message_byte(script);

    return byte < SCRIPT_NULL ? flags[byte % 9] : script_number(script);
}

/* ---- messages ---- */

static size_t
script_product(const uint64_t region[3], size_t element)
{
    size_t size = region[0] * element * region[1] * region[2];

    return size <= VG_WIRE_DATA_MAX ? size : VG_WIRE_DATA_MAX;
}

/* How many bytes a message brings along, or has come. */
static size_t
script_size(struct message_script *script, unsigned op)
{
    const bool has_memory = script->numbers[0] & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR);
    const struct message_mem *mem = &script->mems[script->mem];

    switch (op) {
    case VG_WIRE_OP_CreateBufferWithProperties:
        return has_memory && script->numbers[2] ? script->numbers[1] : 0;
    case VG_WIRE_OP_CreateImageWithProperties:
        return has_memory && script->numbers[1]
                   ? script_product(script->made.extent, script->made.element)
                   : 0;
    case VG_WIRE_OP_EnqueueReadBuffer:
    case VG_WIRE_OP_EnqueueWriteBuffer:
    case VG_WIRE_OP_EnqueueMapBuffer:
        return script->numbers[1];
    case VG_WIRE_OP_EnqueueReadBufferRect:
    case VG_WIRE_OP_EnqueueWriteBufferRect:
        return script_product(script->regions[1], 1);
    case VG_WIRE_OP_EnqueueReadImage:
    case VG_WIRE_OP_EnqueueWriteImage:
    case VG_WIRE_OP_EnqueueMapImage:
        return script_product(script->regions[1], mem->element);
    default:
        return 0;
    }
}

static void
script_put_map(struct message_script *script, struct message *message)
{
    uint8_t byte = message_byte(script);
    uint64_t flags = byte < SCRIPT_NULL ? byte & 7 : script_number(script);
    size_t size = script_size(script, message->head.op);
    uint64_t number = byte & 0x80 ? script->last_map : ++script->last_map;

    script->maps[script->n_maps++ % MESSAGE_MAPS] =
        (struct message_map){number, script->ids[VG_CL_MEM][script->mem],
                             flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) ? size : 0};
    vg_wire_put(&message->body, number);
    vg_wire_put(&message->body, flags);
    vg_wire_put(&message->body, byte & 0x40 ? 0 : 1);
}

/* What ends a mapping, whose number, queue and memory these are. Returns how much is written. */
static size_t
script_put_unmap(struct message_script *script, struct message *message)
{
    uint8_t byte = message_byte(script);
    unsigned n = script->n_maps < MESSAGE_MAPS ? script->n_maps : MESSAGE_MAPS;
    struct message_map map = {.number = byte};

    if (byte < SCRIPT_NULL && n)
        map = script->maps[(n - 1 + byte) % n];
    vg_wire_put(&message->body, map.number);
    vg_wire_put(&message->body, script_object(script, VG_CL_QUEUE));
    vg_wire_put(&message->body,
                byte < SCRIPT_NULL - 32 ? map.mem : script_object(script, VG_CL_MEM));
    return map.size;
}

static void
script_put_field(struct message_script *script, struct message *message, const char *field)
{
    unsigned type = field[0] ? (unsigned)field[1] - '0' : 0;
    unsigned at = type && field[1] ? (unsigned)field[2] - '0' : 0;
    uint64_t n = at < 8 ? script->numbers[at] : 0, number = 0;

    switch (field[0]) {
    case 'o':
        number = script_object(script, type);
        break;
    case 'r':
        number = script_object(script, type);
        script_forget(script, type, number);
        break;
    case 'w':
        number = script_new(script, type);
        break;
    case 'W':
        script_put_ids(script, message, type, 0, true);
        return;
    case 'L':
        script_put_ids(script, message, type, at, false);
        return;
    case 'A':
        script_put_array(script, message, type, n);
        return;
    case 'a':
        script_put_array(script, message, 1, strtoul(field + 1, NULL, 10));
        return;
    case 'R':
        script_put_region(script, message);
        return;
    case 's':
        script_put_string(script, message);
        return;
    case 'z':
    case 'b':
        script_put_lists(script, message, type < 8 ? script->numbers[type] : 0, field[0] == 'b');
        return;
    case 'p':
        script_put_pairs(script, message);
        return;
    case 'F':
        script_put_format(script, message, &script->made);
        return;
    case 'D':
        script_put_desc(script, message, &script->made);
        return;
    case 'K':
        script_put_arg(script, message);
        return;
    case 'M':
        script_put_map(script, message);
        return;
    case 'E':
        number = message_byte(script);
        vg_wire_put(&message->body, number & 1 ? ++script->last_token : number >> 7);
        script_put_events(script, message);
        return;
    case 'm':
        number = VG_WIRE_MAGIC;
        break;
    case 't':
        number = message_byte(script) < SCRIPT_NULL ? CL_DEVICE_TYPE_ALL : script_number(script);
        break;
    case 'g':
        number = script_flags(script);
        break;
    case 'k':
        number = CL_MEM_OBJECT_BUFFER + message_byte(script) % 9;
        break;
    case 'i':
        number = strtoul(field + 1, NULL, 16) + message_byte(script) % 0x80;
        break;
    case 'v':
        number = message_byte(script);
        number = number >= SCRIPT_NULL ? script_number(script) : number;
        break;
    default:
        number = script_number(script);
    }
    if (strchr("nmtgki", field[0]) && script->n_numbers < 7)
        script->numbers[script->n_numbers++] = number;
    vg_wire_put(&message->body, number);
}

static void
script_spoil(struct message_script *script, struct message *message)
{
    uint8_t how = message_byte(script);
    uint64_t number = script_number(script);
    size_t fields = message->body.size / 8;

    message->is_wrong = true;
    switch (how % 8) {
    case 0:
        message->head.size -= (uint32_t)(number % 64);
        break;
    case 1:
        if (fields)
            memcpy(message->body.bytes + how / 8 % fields * 8, &number, sizeof number);
        break;
    case 2:
        message->head.op = (uint16_t)number;
        break;
    case 3:
        message->head.data = number;
        break;
    case 4:
        message->head.at = number;
        break;
    case 5:
        message->head.flags = (uint16_t)number;
        break;
    case 6:
        message->is_cut = true;
        message->body.size -= number % (message->body.size + 1);
        break;
    default:
        message->head.size = (uint32_t)number;
    }
}

static void
script_begin(struct message_script *script, struct message *message, unsigned op)
{
    vg_wire_out_begin(&message->body);
    message->head = (struct vg_wire_head){.op = (uint16_t)op, .number = ++script->number};
    message->data = 0;
    message->is_cut = false;
    message->settles = false;
    message->fails = 0;
    script->n_numbers = 0;
    script->n_regions = 0;
    script->made = (struct message_mem){.element = 0};
    memset(script->numbers, 0, sizeof script->numbers);
    memset(script->regions, 0, sizeof script->regions);
}

void
message_hello(struct message_script *script, struct message *message)
{
    script_begin(script, message, VG_WIRE_OP_HELLO);
    vg_wire_put(&message->body, VG_WIRE_MAGIC);
    vg_wire_put(&message->body, VG_WIRE_VERSION);
    message->head.size = (uint32_t)message->body.size;
}

/* Where the data are, or are to come. */
static void
script_put_data(struct message_script *script, struct message *message, size_t size, uint8_t how)
{
    bool is_read = message->head.op == VG_WIRE_OP_EnqueueReadBuffer ||
                   message->head.op == VG_WIRE_OP_EnqueueReadBufferRect ||
                   message->head.op == VG_WIRE_OP_EnqueueReadImage ||
                   message->head.op == VG_WIRE_OP_EnqueueMapBuffer ||
                   message->head.op == VG_WIRE_OP_EnqueueMapImage;
    bool is_area = how & (is_read ? SCRIPT_ROOM : SCRIPT_STAGED);

    if (is_read && !is_area)
        return;
    message->head.data = size;
    if (is_area) {
        message->head.flags |= is_read ? VG_WIRE_ROOM : VG_WIRE_STAGED;
        message->head.at = (uint64_t)(message_byte(script) % MESSAGE_BLOCKS) * MESSAGE_BLOCK;
    }
}

bool
message_next(struct message_script *script, struct message *message)
{
    if (script->left == 0)
        return false;
    unsigned op = (message_byte(script) + 1U) % VG_WIRE_OPS;
    uint8_t how = message_byte(script);
    size_t size = 0;

    script_begin(script, message, op);
    message->settles = how & SCRIPT_SETTLES;
    if (op == VG_WIRE_OP_EnqueueUnmapMemObject) {
        size = script_put_unmap(script, message);
        script_put_field(script, message, "E");
    }
    for (const char *field = vg_wire_fields[op];
         field && *field && op != VG_WIRE_OP_EnqueueUnmapMemObject; field += *field == ' ') {
        script_put_field(script, message, field);
        field += strcspn(field, " ");
    }
    if (op != VG_WIRE_OP_EnqueueUnmapMemObject)
        size = script_size(script, op);
    message->head.size = (uint32_t)message->body.size;
    message->head.flags = how & (SCRIPT_LATER | SCRIPT_WAITS);
    script_put_data(script, message, size, how);
    if (how & SCRIPT_FAILS)
        message->fails = message_byte(script);
    if ((how & SCRIPT_WRONG) == SCRIPT_WRONG)
        script_spoil(script, message);
    if (!(message->head.flags & (VG_WIRE_STAGED | VG_WIRE_ROOM)) && message->head.data <= (2 << 20))
        message->data = message->head.data;
    return true;
}
