/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/opencl-liar.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/wire/link.h"
#include "opencl/wire/ops.h"
#include "opencl/wire/wire.h"

#define LIAR_QUESTIONS 64
#define LIAR_TOKENS    16
#define LIAR_AREAS     64

bool __wrap_vg_wire_link_open(struct vg_wire_link *link, const char *address);
void __wrap_vg_wire_link_stay(struct vg_wire_link *link);
bool __wrap_vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                              void (*help)(void *data), void *data);
bool __wrap_vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size);
bool __wrap_vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms);
void __wrap_vg_wire_link_shut(struct vg_wire_link *link);
void __wrap_vg_wire_link_close(struct vg_wire_link *link);
unsigned char *__wrap_vg_wire_link_stage(struct vg_wire_link *link, size_t size);
uint64_t __wrap_vg_wire_link_lend(struct vg_wire_link *link, const unsigned char *area);
uint64_t __wrap_vg_wire_link_where(const struct vg_wire_link *link, const unsigned char *area);
void __wrap_vg_wire_link_unstage(struct vg_wire_link *link, const unsigned char *area);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *data);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *data);

/* What the program asked, and waits for. */
struct liar_question {
    struct vg_wire_head head;
    uint64_t last; /* field of its body */
    size_t size, element;
};

/* What it reads, and does not wait for. */
struct liar_token {
    uint64_t token;
    size_t size;
    bool is_staged;
};

struct liar_area {
    unsigned char *bytes;
    size_t size;
    bool is_lent;
};

static const uint8_t *script;
static size_t script_left;
static struct liar_question questions[LIAR_QUESTIONS];
static unsigned n_questions;
static struct liar_token tokens[LIAR_TOKENS];
static unsigned n_tokens;
static struct liar_area areas[LIAR_AREAS];
static size_t expected, expected_element;
static bool is_shut, may_have_threads = true;
static unsigned char *sent; /* by the program, and not looked at */
static size_t n_sent;
static struct vg_wire_out said; /* to the program */
static size_t said_at;

static _Noreturn void
die(const char *why)
{
    fprintf(stderr, "the program's side is wrong: %s\n", why);
    abort();
}

/* ---- the script ---- */

void
liar_begin(const uint8_t *data, size_t size)
{
    script = data;
    script_left = size;
    n_questions = n_tokens = 0;
    memset(areas, 0, sizeof areas);
    expected = expected_element = 0;
    is_shut = false;
    n_sent = 0;
    said_at = 0;
    vg_wire_out_begin(&said);
}

void
liar_end(void)
{
    for (unsigned i = 0; i < LIAR_AREAS; i++)
        free(areas[i].bytes);
    free(sent);
    sent = NULL;
    vg_wire_out_end(&said);
}

bool
liar_has_more(void)
{
    return script_left > 0;
}

uint8_t
liar_byte(void)
{
    if (script_left == 0)
        return 0;
    script_left--;
    return *script++;
}

uint64_t
liar_number(void)
{
    static const uint64_t others[] = {256,
                                      4096,
                                      65536,
                                      1 << 20,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      UINT64_C(1) << 61,
                                      UINT64_C(1) << 63,
                                      INT64_MAX,
                                      UINT64_MAX - 7,
                                      UINT64_MAX - 1,
                                      UINT64_MAX,
                                      VG_WIRE_BODY_MAX,
                                      VG_WIRE_DATA_MAX};
    uint8_t byte = liar_byte();
    uint64_t number = 0;

    if (byte < 0xE0)
        return byte;
    if (byte < 0xE0 + sizeof others / sizeof *others)
        return others[byte - 0xE0];
    for (int i = 0; i < 8; i++)
        number = number << 8 | liar_byte();
    return number;
}

void
liar_expect(size_t size, size_t element)
{
    expected = size;
    expected_element = element;
}

void
liar_allow_threads(bool may)
{
    may_have_threads = may;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                      void *data)
{
    return may_have_threads ? __real_pthread_create(thread, attr, run, data) : EAGAIN;
}

/* ---- what the program says ---- */

/* Where the token is in a message's body, in fields; 0: it has none. */
static size_t
liar_token_at(unsigned op)
{
    switch (op) {
    case VG_WIRE_OP_EnqueueReadBuffer:
        return 4;
    case VG_WIRE_OP_EnqueueReadBufferRect:
        return 12;
    case VG_WIRE_OP_EnqueueReadImage:
        return 10;
    case VG_WIRE_OP_EnqueueMapBuffer:
        return 7;
    case VG_WIRE_OP_EnqueueMapImage:
        return 13;
    default:
        return 0;
    }
}

static void
liar_hear(const struct vg_wire_head *head, const unsigned char *body)
{
    struct liar_question *question = &questions[n_questions % LIAR_QUESTIONS];
    size_t at = liar_token_at(head->op) * sizeof(uint64_t);
    uint64_t token = 0;

    if (head->op >= VG_WIRE_OPS || head->size % 8 || head->data > VG_WIRE_DATA_MAX)
        die("it sends what is no message");
    if (at && at + sizeof token <= head->size)
        memcpy(&token, body + at, sizeof token);
    if (token)
        tokens[n_tokens++ % LIAR_TOKENS] =
            (struct liar_token){token, expected, head->flags & VG_WIRE_ROOM};
    if (head->flags & VG_WIRE_LATER)
        return;
    *question = (struct liar_question){*head, 0, token ? 0 : expected, expected_element};
    if (head->size >= 8)
        memcpy(&question->last, body + head->size - 8, 8);
    n_questions++;
}

bool
__wrap_vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                         void (*help)(void *data), void *data)
{
    size_t at = 0;

    (void)link;
    (void)help;
    (void)data;
    for (int i = 0; i < n; i++) {
        sent = realloc(sent, n_sent + parts[i].iov_len + 1);
        if (!sent)
            die("there is no memory for this test");
        if (parts[i].iov_len)
            memcpy(sent + n_sent, parts[i].iov_base, parts[i].iov_len);
        n_sent += parts[i].iov_len;
    }
    while (n_sent - at >= sizeof(struct vg_wire_head)) {
        struct vg_wire_head head;
        memcpy(&head, sent + at, sizeof head);
        size_t size = head.flags & (VG_WIRE_STAGED | VG_WIRE_ROOM) ? 0 : head.data;
        size += sizeof head + head.size;
        if (size > n_sent - at)
            die("it sends less than it says");
        liar_hear(&head, sent + at + sizeof head);
        at += size;
    }
    if (at != n_sent)
        die("it sends a part of a message");
    n_sent = 0;
    return !is_shut;
}

/* ---- what it is told ---- */

static void
liar_put_bytes(const void *bytes, size_t size)
{
    unsigned char *room = malloc(said.size + size + 1);

    if (!room)
        die("there is no memory for this test");
    memcpy(room, said.bytes, said.size);
    if (size)
        memcpy(room + said.size, bytes, size);
    size += said.size;
    vg_wire_out_end(&said);
    said.bytes = room;
    said.size = size;
    said.room = size + 1;
}

/* A message with DATA bytes behind it. */
static void
liar_say(const struct vg_wire_head *head, const struct vg_wire_out *body, size_t data)
{
    unsigned char *bytes = calloc(1, data + 1);

    if (!bytes)
        die("there is no memory for this test");
    memset(bytes, 'x', data);
    liar_put_bytes(head, sizeof *head);
    if (body)
        liar_put_bytes(body->bytes, body->size);
    liar_put_bytes(bytes, data);
    free(bytes);
}

static void
liar_put_list(struct vg_wire_out *out, uint64_t size)
{
    static const unsigned char bytes[512] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3};

    vg_wire_put_list(out, size == VG_WIRE_NONE ? NULL : bytes, size % sizeof bytes);
}

/* Sizes that are mostly what they should be. */
static uint64_t
liar_size(uint64_t honest)
{
    uint8_t byte = liar_byte();

    return byte < 0xC0 ? honest : byte < 0xE0 ? honest + byte - 0xD0 : liar_number();
}

/* What follows the result, if it is a good one. */
static void
liar_put_answer(const struct liar_question *question, struct vg_wire_out *out)
{
    uint64_t n;

    switch (question->head.op) {
    case VG_WIRE_OP_HELLO:
        liar_put_list(out, liar_size(8));
        vg_wire_put(out, liar_byte() < 0xC0 ? UINT64_MAX : liar_number());
        break;
    case VG_WIRE_OP_GetDeviceIDs:
        liar_put_list(out, liar_size(24));
        break;
    case VG_WIRE_OP_CreateBufferWithProperties:
    case VG_WIRE_OP_CreateSubBuffer:
    case VG_WIRE_OP_CreateImageWithProperties:
        vg_wire_put(out, liar_size(question->element));
        break;
    case VG_WIRE_OP_CreateKernelsInProgram:
    case VG_WIRE_OP_CreateSubDevices:
        vg_wire_put(out, liar_size(2));
        break;
    case VG_WIRE_OP_GetSupportedImageFormats:
        n = liar_size(3);
        vg_wire_put(out, n);
        liar_put_list(out, liar_size(n * 8 < question->size ? n * 8 : question->size));
        break;
    case VG_WIRE_OP_CreateProgramWithBinary:
        liar_put_list(out, liar_size(8));
        break;
    case VG_WIRE_OP_ProgramBinaries:
        n = liar_size(2);
        vg_wire_put(out, n);
        for (uint64_t i = 0; i < n % 8; i++)
            liar_put_list(out, liar_size(question->size));
        break;
    default:
        /* Of what asks for a value, the last field is the room for it. */
        n = liar_size(question->size);
        vg_wire_put(out, n);
        liar_put_list(out, liar_size(n < question->last ? n : question->last));
    }
}

/* What comes by itself, of a read or an event that was requested, or not. */
static void
liar_say_more(uint8_t how)
{
    struct vg_wire_out body;
    struct liar_token token = {.token = how};

    vg_wire_out_begin(&body);
    if (how & 1 && n_tokens) {
        token = tokens[how / 4 % (n_tokens < LIAR_TOKENS ? n_tokens : LIAR_TOKENS)];
        struct vg_wire_head head = {.op = VG_WIRE_READ,
                                    .flags = token.is_staged ? VG_WIRE_ROOM : 0,
                                    .number = token.token,
                                    .data = how & 2 ? liar_size(token.size) : token.size};
        liar_say(&head, NULL, token.is_staged || head.data > (1 << 20) ? 0 : head.data);
    } else {
        struct vg_wire_head head = {
            .op = how & 4 ? VG_WIRE_EVENT : VG_WIRE_READ, .size = 8, .number = how / 8};
        vg_wire_put(&body, liar_number());
        liar_say(&head, &body, 0);
    }
    vg_wire_out_end(&body);
}

static void
liar_spoil(struct vg_wire_head *head, struct vg_wire_out *body)
{
    uint8_t how = liar_byte();
    uint64_t number = liar_number();

    switch (how % 8) {
    case 0:
        head->size = (uint32_t)number;
        break;
    case 1:
        memcpy(body->bytes + how / 8 % (body->size / 8) * 8, &number, sizeof number);
        break;
    case 2:
        head->op = (uint16_t)number;
        break;
    case 3:
        head->data = number;
        break;
    case 4:
        head->number = number;
        break;
    case 5:
        head->flags = (uint16_t)number;
        break;
    case 6:
        body->size -= number % (body->size + 1);
        break;
    default:
        head->number -= 1;
    }
}

/* Answers one of the questions. False: there is none, or it closes the link. */
static bool
liar_answer(void)
{
    uint8_t how = liar_byte();
    struct vg_wire_out body;

    if (n_questions == 0 || how == 0xFF || !script_left)
        return false;
    if (how & 0x20)
        liar_say_more(liar_byte());
    unsigned at =
        how & 0x40 ? how % n_questions % LIAR_QUESTIONS : (n_questions - 1) % LIAR_QUESTIONS;
    const struct liar_question question = questions[at];
    bool is_staged = question.head.flags & VG_WIRE_ROOM;
    bool has_data = liar_token_at(question.head.op) && question.size;
    uint8_t result = liar_byte();
    struct vg_wire_head head = {.op = VG_WIRE_ANSWER,
                                .flags = has_data && is_staged ? VG_WIRE_ROOM : 0,
                                .number = question.head.number,
                                .data = has_data && result < 0xE0 ? question.size : 0};
    vg_wire_out_begin(&body);
    vg_wire_put(&body, result < 0xE0   ? 0
                       : result < 0xF0 ? (uint64_t) - (int64_t)(result - 0xD0)
                                       : liar_number());
    if (!has_data)
        liar_put_answer(&question, &body);
    head.size = (uint32_t)body.size;
    if (how & 0x10)
        liar_spoil(&head, &body);
    liar_say(&head, &body, head.flags & VG_WIRE_ROOM || head.data > (1 << 20) ? 0 : head.data);
    vg_wire_out_end(&body);
    return true;
}

bool
__wrap_vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size)
{
    unsigned char *at = to;

    (void)link;
    while (size > 0) {
        size_t n = said.size - said_at < size ? said.size - said_at : size;
        if (n) {
            memcpy(at, said.bytes + said_at, n);
            said_at += n;
            at += n;
            size -= n;
            continue;
        }
        vg_wire_out_end(&said);
        said_at = 0;
        if (is_shut || !liar_answer())
            return false;
    }
    return true;
}

/* ---- the rest of the link ---- */

bool
__wrap_vg_wire_link_open(struct vg_wire_link *link, const char *address)
{
    (void)address;
    *link = (struct vg_wire_link){.fd = -1};
    return true;
}

void
__wrap_vg_wire_link_stay(struct vg_wire_link *link)
{
    (void)link;
}

bool
__wrap_vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms)
{
    (void)link;
    (void)timeout_ms;
    return said.size > said_at;
}

void
__wrap_vg_wire_link_shut(struct vg_wire_link *link)
{
    (void)link;
    is_shut = true;
}

void
__wrap_vg_wire_link_close(struct vg_wire_link *link)
{
    (void)link;
}

static struct liar_area *
liar_area_of(const unsigned char *bytes)
{
    for (unsigned i = 0; i < LIAR_AREAS; i++)
        if (areas[i].bytes && areas[i].bytes == bytes)
            return &areas[i];
    die("an area is none");
}

unsigned char *
__wrap_vg_wire_link_stage(struct vg_wire_link *link, size_t size)
{
    (void)link;
    for (unsigned i = 0; i < LIAR_AREAS && size <= (1 << 20); i++) {
        if (areas[i].bytes)
            continue;
        areas[i] = (struct liar_area){malloc(size), size, false};
        if (!areas[i].bytes)
            die("there is no memory for this test");
        memset(areas[i].bytes, 'y', size);
        return areas[i].bytes;
    }
    return NULL;
}

uint64_t
__wrap_vg_wire_link_where(const struct vg_wire_link *link, const unsigned char *area)
{
    (void)link;
    return (uint64_t)(liar_area_of(area) - areas) << 16;
}

uint64_t
__wrap_vg_wire_link_lend(struct vg_wire_link *link, const unsigned char *area)
{
    liar_area_of(area)->is_lent = true;
    return __wrap_vg_wire_link_where(link, area);
}

void
__wrap_vg_wire_link_unstage(struct vg_wire_link *link, const unsigned char *bytes)
{
    struct liar_area *area = liar_area_of(bytes);

    (void)link;
    if (area->is_lent)
        die("an area is taken back that the proxy has");
    free(area->bytes);
    area->bytes = NULL;
}
