/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/request.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "guest/util.h"

static const char *const code_words[VG_GUEST_CODE_MAX] = {
    [VG_GUEST_BAD_REQUEST] = "bad-request",
    [VG_GUEST_TOO_LONG] = "too-long",
    [VG_GUEST_UNKNOWN_TYPE] = "unknown-type",
    [VG_GUEST_BAD_VERSION] = "version",
    [VG_GUEST_HELLO_FIRST] = "hello-first",
    [VG_GUEST_BUSY] = "busy",
    [VG_GUEST_ID_REUSED] = "id-reused",
    [VG_GUEST_BAD_STATE] = "state",
    [VG_GUEST_NOT_FOUND] = "not-found",
    [VG_GUEST_AMBIGUOUS] = "ambiguous",
    [VG_GUEST_HOOK_FAILED] = "hook-failed",
    [VG_GUEST_UNIT_FAILED] = "unit-failed",
    [VG_GUEST_HELD] = "held",
    [VG_GUEST_UNRELEASABLE] = "unreleasable",
    [VG_GUEST_NO_MEMORY] = "no-memory",
    [VG_GUEST_CUDA_FAILED] = "cuda-failed",
    [VG_GUEST_OPENCL_FAILED] = "opencl-failed",
    [VG_GUEST_OTHER_GPU] = "other-gpu",
    [VG_GUEST_UNBIND_FAILED] = "unbind-failed",
    [VG_GUEST_BIND_FAILED] = "bind-failed",
    [VG_GUEST_TIMEOUT] = "timeout",
    [VG_GUEST_CANCELLED] = "cancelled",
    [VG_GUEST_INTERNAL] = "internal",
};

static const char *const type_words[VG_GUEST_TYPE_MAX] = {
    [VG_GUEST_HELLO] = "hello",   [VG_GUEST_PREPARE] = "prepare", [VG_GUEST_RESUME] = "resume",
    [VG_GUEST_STATUS] = "status", [VG_GUEST_CANCEL] = "cancel",   [VG_GUEST_SWITCH] = "switch",
    [VG_GUEST_PROXY] = "proxy",
};

const char *
vg_guest_code_word(enum vg_guest_code code)
{
    return code_words[code];
}

const char *
vg_guest_type_word(enum vg_guest_type type)
{
    return type_words[type];
}

__attribute__((format(printf, 3, 4))) static int
request_fault(struct vg_guest_fault *fault, enum vg_guest_code code, const char *format, ...)
{
    va_list args;

    fault->code = code;
    va_start(args, format);
    vsnprintf(fault->message, sizeof fault->message, format, args);
    va_end(args);
    return -1;
}

/* Parses the whole line. Returns NULL if it is not JSON. */
static json_object *
request_json(const char *text, size_t size, struct vg_guest_fault *fault)
{
    json_tokener *tokener = json_tokener_new_ex(VG_GUEST_DEPTH_MAX);
    json_object *root = NULL;

    if (!tokener) {
        request_fault(fault, VG_GUEST_INTERNAL, "out of memory");
        return NULL;
    }
    /* In strict mode, json-c 0.18 accepts only ASCII. */
    json_tokener_set_flags(tokener,
                           JSON_TOKENER_VALIDATE_UTF8 |
                               (json_c_version_num() < (18 << 8) ? JSON_TOKENER_STRICT : 0));
    root = json_tokener_parse_ex(tokener, text, (int)size);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    while (end < size && isspace((unsigned char)text[end]))
        end++;
    if (error == json_tokener_success && end == size && json_object_is_type(root, json_type_object))
        return root;
    json_object_put(root);
    if (error == json_tokener_continue)
        request_fault(fault, VG_GUEST_BAD_REQUEST, "not JSON: the line ends too early");
    else if (error != json_tokener_success)
        request_fault(fault, VG_GUEST_BAD_REQUEST, "not JSON: %s at byte %zu",
                      json_tokener_error_desc(error), end);
    else if (end < size)
        request_fault(fault, VG_GUEST_BAD_REQUEST,
                      "unexpected text after the JSON value, at byte %zu", end);
    else
        request_fault(fault, VG_GUEST_BAD_REQUEST, "a message must be an object");
    return NULL;
}

/* Reads an integer in its range. */
static int
request_int(json_object *root, const char *name, int64_t min, int64_t max, int64_t *ret,
            struct vg_guest_fault *fault)
{
    json_object *value;

    if (!json_object_object_get_ex(root, name, &value))
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "'%s' is missing", name);
    /* json-c limits numbers that are too large. */
    int64_t number = json_object_get_int64(value);
    if (!json_object_is_type(value, json_type_int) || number < min || number > max)
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'%s' must be an integer from %lld to %lld", name, (long long)min,
                             (long long)max);
    *ret = number;
    return 0;
}

/* Skips this many hexadecimal digits. Returns the text after them, or NULL if there are fewer. */
static const char *
request_hex(const char *text, int digits)
{
    for (int i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)*text))
            return NULL;
        text++;
    }
    return text;
}

/* Skips slot and function, as in "1f.7". Returns the text after them, or NULL. */
static const char *
request_step(const char *text)
{
    text = request_hex(text, 2);
    if (!text || text[0] != '.' || text[1] < '0' || text[1] > '7')
        return NULL;
    return text + 2;
}

/* Checks a path such as "0000:00/02.1/00.0": the root bus, then each bridge, then the function. */
static bool
request_is_path(const char *text)
{
    const char *at = request_hex(text, 4);

    if (!at || *at != ':' || !(at = request_hex(at + 1, 2)) || *at != '/')
        return false;
    while (at && *at == '/')
        at = request_step(at + 1);
    return at && *at == '\0';
}

/* Checks an address such as "0000:01:00.0". */
static bool
request_is_address(const char *text)
{
    const char *at = request_hex(text, 4);

    if (!at || *at != ':' || !(at = request_hex(at + 1, 2)) || *at != ':')
        return false;
    at = request_step(at + 1);
    return at && *at == '\0';
}

static int
request_text(json_object *object, const char *name, bool (*is_good)(const char *), const char *like,
             char *ret, size_t size, struct vg_guest_fault *fault)
{
    json_object *value;

    if (!json_object_object_get_ex(object, name, &value))
        return 0;
    const char *text = json_object_get_string(value);
    if (!json_object_is_type(value, json_type_string) ||
        strlen(text) != (size_t)json_object_get_string_len(value) || strlen(text) >= size ||
        !is_good(text))
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "'%s' must be like \"%s\"", name, like);
    for (size_t i = 0; i <= strlen(text); i++)
        ret[i] = (char)tolower((unsigned char)text[i]);
    return 0;
}

static bool
request_is_id(const char *text)
{
    const char *at = strncmp(text, "0x", 2) == 0 ? request_hex(text + 2, 4) : NULL;

    return at && *at == '\0';
}

static int
request_device(json_object *object, struct vg_guest_match *match, struct vg_guest_fault *fault)
{
    char vendor[8] = "", device[8] = "";

    if (!json_object_is_type(object, json_type_object))
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "a device must be an object");
    if (request_text(object, "path", request_is_path, "0000:00/02.1/00.0", match->path,
                     sizeof match->path, fault) != 0 ||
        request_text(object, "address", request_is_address, "0000:01:00.0", match->address,
                     sizeof match->address, fault) != 0 ||
        request_text(object, "vendor", request_is_id, "0x10de", vendor, sizeof vendor, fault) !=
            0 ||
        request_text(object, "device", request_is_id, "0x20b0", device, sizeof device, fault) != 0)
        return -1;
    match->vendor = *vendor ? (int)strtol(vendor, NULL, 16) : -1;
    match->device = *device ? (int)strtol(device, NULL, 16) : -1;
    if (!*match->path && !*match->address && match->vendor < 0 && match->device < 0)
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "a device needs 'path', 'address', 'vendor' or 'device'");
    return 0;
}

static int
request_devices(json_object *root, struct vg_guest_request *request, struct vg_guest_fault *fault)
{
    json_object *list;

    if (!json_object_object_get_ex(root, "devices", &list)) {
        if (request->type == VG_GUEST_STATUS)
            return 0;
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "'devices' is missing");
    }
    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) < 1 ||
        json_object_array_length(list) > VG_GUEST_DEVICES_MAX)
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'devices' must be a list of 1 to %d devices", VG_GUEST_DEVICES_MAX);
    request->n_devices = json_object_array_length(list);
    for (size_t i = 0; i < request->n_devices; i++) {
        if (request_device(json_object_array_get_idx(list, i), &request->devices[i], fault) != 0)
            return -1;
    }
    return 0;
}

static bool
request_is_printable(const char *text)
{
    while (isprint((unsigned char)*text))
        text++;
    return *text == '\0';
}

/* Reads where OpenCL programs are to continue. */
static int
request_place(json_object *root, struct vg_guest_request *request, struct vg_guest_fault *fault)
{
    static const char prefix[] = "proxy:";
    json_object *value;

    if (!json_object_object_get_ex(root, "opencl_at", &value)) {
        if (request->type != VG_GUEST_SWITCH)
            return 0;
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "'opencl_at' is missing");
    }
    const char *text = json_object_get_string(value);
    if (request->type == VG_GUEST_SWITCH && json_object_is_type(value, json_type_string) &&
        strcmp(text, VG_GUEST_PLACE_DIRECT) == 0) {
        strcpy(request->opencl_at, text);
        return 0;
    }
    if (!json_object_is_type(value, json_type_string) ||
        strlen(text) != (size_t)json_object_get_string_len(value) ||
        strlen(text) >= sizeof request->opencl_at ||
        strncmp(text, prefix, sizeof prefix - 1) != 0 || !request_is_printable(text))
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'opencl_at' must be like \"proxy:/run/vgpu-proxy.sock\"");
    strcpy(request->opencl_at, text);
    return 0;
}

/* Returns a string of MIN to SIZE - 1 bytes without blanks and control characters, or NULL. */
static const char *
request_word(json_object *value, size_t min, size_t size)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;

    if (!text || strlen(text) != (size_t)json_object_get_string_len(value) || strlen(text) < min ||
        strlen(text) >= size)
        return NULL;
    for (const char *at = text; *at; at++) {
        if (!isgraph((unsigned char)*at))
            return NULL;
    }
    return text;
}

/* Reads where OpenCL programs find a GPU, and the token to use there. Without `at`, there is
 * none. */
static int
request_proxy(json_object *root, struct vg_guest_request *request, struct vg_guest_fault *fault)
{
    json_object *value;

    if (!json_object_object_get_ex(root, "at", &value))
        return 0;
    const char *at = request_word(value, 1, sizeof request->opencl_at);
    if (!at || (strncmp(at, "proxy:tcp:", 10) != 0 && strncmp(at, "proxy:tls:", 10) != 0 &&
                strncmp(at, "proxy:vsock:", 12) != 0))
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'at' must be like \"proxy:tls:192.168.122.1:7000\", "
                             "\"proxy:tcp:192.168.122.1:7000\" or \"proxy:vsock:2:7000\"");
    const char *token = json_object_object_get_ex(root, "token", &value)
                            ? request_word(value, VG_GUEST_TOKEN_MIN, sizeof request->token)
                            : NULL;
    if (!token)
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'token' must have %d to %d bytes and no spaces", VG_GUEST_TOKEN_MIN,
                             VG_GUEST_TOKEN_MAX - 1);
    strcpy(request->opencl_at, at);
    strcpy(request->token, token);
    return 0;
}

static int
request_versions(json_object *root, struct vg_guest_request *request, struct vg_guest_fault *fault)
{
    json_object *list;

    if (!json_object_object_get_ex(root, "versions", &list) ||
        !json_object_is_type(list, json_type_array) || json_object_array_length(list) < 1 ||
        json_object_array_length(list) > VG_GUEST_VERSIONS_MAX)
        return request_fault(fault, VG_GUEST_BAD_REQUEST,
                             "'versions' must be a list of 1 to %d integers",
                             VG_GUEST_VERSIONS_MAX);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *version = json_object_array_get_idx(list, i);
        if (!json_object_is_type(version, json_type_int))
            return request_fault(fault, VG_GUEST_BAD_REQUEST,
                                 "'versions' must be a list of integers");
        if (json_object_get_int64(version) == VG_GUEST_VERSION)
            request->version = VG_GUEST_VERSION;
    }
    return 0;
}

static int
request_type(json_object *root, enum vg_guest_type *ret, struct vg_guest_fault *fault)
{
    json_object *value;

    if (!json_object_object_get_ex(root, "type", &value) ||
        !json_object_is_type(value, json_type_string))
        return request_fault(fault, VG_GUEST_BAD_REQUEST, "'type' must be a string");
    for (int type = 0; type < VG_GUEST_TYPE_MAX; type++) {
        if (strcmp(json_object_get_string(value), type_words[type]) == 0) {
            *ret = (enum vg_guest_type)type;
            return 0;
        }
    }
    vg_guest_auto char *word = vg_guest_clean(json_object_get_string(value), 64);
    return request_fault(fault, VG_GUEST_UNKNOWN_TYPE, "unknown request type '%s'", word);
}

static int
request_members(json_object *root, struct vg_guest_request *request, struct vg_guest_fault *fault)
{
    if (request_int(root, "id", 1, VG_GUEST_ID_MAX, &request->id, fault) != 0)
        return -1;
    fault->id = request->id;
    if (request_type(root, &request->type, fault) != 0)
        return -1;
    switch (request->type) {
    case VG_GUEST_HELLO:
        return request_versions(root, request, fault);
    case VG_GUEST_PREPARE:
    case VG_GUEST_RESUME:
        if (request_int(root, "deadline_ms", VG_GUEST_DEADLINE_MS_MIN, VG_GUEST_DEADLINE_MS_MAX,
                        &request->deadline_ms, fault) != 0)
            return -1;
        if (request->type == VG_GUEST_PREPARE && request_place(root, request, fault) != 0)
            return -1;
        return request_devices(root, request, fault);
    case VG_GUEST_SWITCH:
        if (request_int(root, "deadline_ms", VG_GUEST_DEADLINE_MS_MIN, VG_GUEST_DEADLINE_MS_MAX,
                        &request->deadline_ms, fault) != 0)
            return -1;
        return request_place(root, request, fault);
    case VG_GUEST_STATUS:
        return request_devices(root, request, fault);
    case VG_GUEST_PROXY:
        return request_proxy(root, request, fault);
    case VG_GUEST_CANCEL:
    case VG_GUEST_TYPE_MAX:
    default:
        return 0;
    }
}

int
vg_guest_request_parse(const char *text, size_t size, struct vg_guest_request *ret,
                       struct vg_guest_fault *ret_fault)
{
    struct vg_guest_request request = {0};

    *ret_fault = (struct vg_guest_fault){0};
    json_object *root = request_json(text, size, ret_fault);
    if (!root)
        return -1;
    int result = request_members(root, &request, ret_fault);
    json_object_put(root);
    if (result == 0)
        *ret = request;
    return result;
}
