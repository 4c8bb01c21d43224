/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/guest-programs.h"

#include "actuators/guest-words.h"
#include "base/json.h"

#define PROGRAMS_WORD_MAX 128
#define PROGRAMS_WHY_MAX  1024
/* The maximum number of a driver's known faults. */
#define PROGRAMS_FAULTS_MAX 16

static int64_t
programs_ms_of(json_object *object, const char *name)
{
    return MIN(vg_guest_words_number(object, name), VG_JSON_INT_MAX / 1000000) * 1000000;
}

static struct vg_guest_program *
programs_program_of(json_object *object)
{
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);

    program->by = vg_guest_words_text(object, "by", PROGRAMS_WORD_MAX);
    /* The first agents of version 1 support only CUDA. */
    if (!program->by)
        program->by = g_strdup("cuda");
    program->pid = vg_guest_words_number(object, "pid");
    program->comm = vg_guest_words_text(object, "comm", PROGRAMS_WORD_MAX);
    program->state = vg_guest_words_text(object, "state", PROGRAMS_WORD_MAX);
    program->movable = vg_guest_words_text(object, "movable", PROGRAMS_WORD_MAX);
    program->why = vg_guest_words_text(object, "why", PROGRAMS_WHY_MAX);
    program->at = vg_guest_words_text(object, "at", VG_MIGRATION_PLACE_MAX);
    program->gpu_bytes = vg_guest_words_number(object, "bytes");
    program->lock_ns = programs_ms_of(object, "lock_ms");
    program->checkpoint_ns = programs_ms_of(object, "checkpoint_ms");
    program->restore_ns = programs_ms_of(object, "restore_ms");
    program->unlock_ns = programs_ms_of(object, "unlock_ms");
    program->stop_ns = programs_ms_of(object, "stop_ms");
    program->held_threads = vg_guest_words_number(object, "held_threads");
    return program;
}

/* Reads the driver information from an agent's status. */
static void
programs_add_driver(json_object *driver, struct vg_guest_programs *programs)
{
    if (!json_object_is_type(driver, json_type_object))
        return;
    g_free(programs->driver);
    programs->driver = vg_guest_words_text(driver, "version", PROGRAMS_WORD_MAX);
    for (size_t i = 0; programs->driver_faults->len < PROGRAMS_FAULTS_MAX; i++) {
        json_object *fault = vg_guest_words_item(driver, "faults", i);
        if (!fault)
            break;
        g_autofree char *what = vg_guest_words_text(fault, "what", PROGRAMS_WHY_MAX);
        g_autofree char *source = vg_guest_words_text(fault, "source", PROGRAMS_WORD_MAX);
        g_autofree char *action = vg_guest_words_text(fault, "action", PROGRAMS_WORD_MAX);
        if (what)
            g_ptr_array_add(programs->driver_faults,
                            g_strdup_printf("%s: %s (%s)", action ? action : "note", what,
                                            source ? source : "no source"));
    }
}

void
vg_guest_programs_add(json_object *object, struct vg_guest_programs **ret_programs)
{
    json_object *told = json_object_object_get(object, "programs");
    const bool old = !told;

    if (old)
        told = json_object_object_get(object, "cuda");
    if (!json_object_is_type(told, json_type_object))
        return;
    if (!*ret_programs)
        *ret_programs = vg_record_new(&vg_guest_programs_record);
    struct vg_guest_programs *programs = *ret_programs;
    programs->total += vg_guest_words_number(told, old ? "processes_total" : "total");
    programs->gpu_bytes += vg_guest_words_number(told, "bytes");
    json_object *forked = json_object_object_get(told, "forked");
    if (json_object_is_type(forked, json_type_object)) {
        programs->forked += vg_guest_words_number(forked, "processes");
        programs->forked_descriptors += vg_guest_words_number(forked, "descriptors");
        programs->forked_maps += vg_guest_words_number(forked, "maps");
    }
    for (size_t i = 0; programs->programs->len < VG_GUEST_PROGRAMS_MAX; i++) {
        json_object *program = vg_guest_words_item(told, old ? "processes" : "list", i);
        if (!program)
            break;
        g_ptr_array_add(programs->programs, programs_program_of(program));
    }
    programs->total = MAX(programs->total, programs->programs->len);
    programs_add_driver(json_object_object_get(object, "driver"), programs);
}

void
vg_guest_programs_append(GString *text, const struct vg_guest_programs *programs)
{
    if (programs && programs->total > 0)
        g_string_append_printf(text, "; %lld program%s with %lld MiB of GPU memory",
                               (long long)programs->total, programs->total == 1 ? "" : "s",
                               (long long)(programs->gpu_bytes >> 20));
    if (programs && programs->forked > 0)
        g_string_append_printf(
            text, "; %lld forked child%s released %lld descriptor%s and %lld map%s",
            (long long)programs->forked, programs->forked == 1 ? "" : "ren",
            (long long)programs->forked_descriptors, programs->forked_descriptors == 1 ? "" : "s",
            (long long)programs->forked_maps, programs->forked_maps == 1 ? "" : "s");
}
