/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/adapter.h"

#include <string.h>

/* The thread that wrote the record: a tracer's context, or perf's own payload fields. */
static const struct {
    enum vg_slot slot;
    enum vg_field_scope scope;
    const char *name;
} contexts[] = {
    {VG_SLOT_CONTEXT_TID, VG_SCOPE_CONTEXT, "tid"},
    {VG_SLOT_CONTEXT_TID, VG_SCOPE_PAYLOAD, "perf_tid"},
    {VG_SLOT_CONTEXT_PID, VG_SCOPE_CONTEXT, "pid"},
    {VG_SLOT_CONTEXT_PID, VG_SCOPE_PAYLOAD, "perf_pid"},
    {VG_SLOT_CONTEXT_COMM, VG_SCOPE_CONTEXT, "procname"},
    {VG_SLOT_CONTEXT_COMM, VG_SCOPE_CONTEXT, "comm"},
};

static int
find_field(const struct vg_field_reader *reader, void *event_class,
           const struct vg_adapter_field *field, const struct vg_alias *alias)
{
    int handle = -1;

    for (size_t i = 0; handle < 0 && i < sizeof(field->names) / sizeof(field->names[0]); i++) {
        if (!field->names[i])
            break;
        const char *other = vg_alias_field(alias, field->names[i]);
        handle = reader->find(event_class, VG_SCOPE_PAYLOAD, other ? other : field->names[i]);
    }
    return handle;
}

void
vg_binding_init(struct vg_binding *binding, const char *event_name, const vg_aliases *aliases,
                const struct vg_field_reader *reader, void *event_class)
{
    const struct vg_alias *alias = vg_aliases_find(aliases, vg_event_without_system(event_name));

    binding->reader = reader;
    binding->adapter = vg_adapter_find(alias ? vg_alias_event(alias) : event_name);
    binding->is_perf_record =
        strncmp(event_name, "perf_", 5) == 0 || strncmp(event_name, "PERF_RECORD_", 12) == 0;
    for (size_t i = 0; i < VG_SLOT_MAX; i++)
        binding->handle[i] = -1;
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        int *handle = &binding->handle[contexts[i].slot];
        if (*handle < 0)
            *handle = reader->find(event_class, contexts[i].scope, contexts[i].name);
    }
    if (!binding->adapter)
        return;
    for (const struct vg_adapter_field *f = binding->adapter->fields; f->names[0]; f++) {
        binding->handle[f->slot] = find_field(reader, event_class, f, alias);
        if (f->required && binding->handle[f->slot] < 0) {
            binding->adapter = NULL;
            return;
        }
    }
}

void
vg_adapt_env_init(struct vg_adapt_env *env, const char *release, vg_names *names)
{
    *env = (struct vg_adapt_env){
        .names = names,
        .state_max_bit = vg_state_max_bit(release),
        .state_shift = vg_state_may_be_shifted(release) ? VG_SHIFT_UNKNOWN : VG_SHIFT_NONE,
    };
}

/* -1 in a context means unknown (perf, for an exiting thread). Any other invalid thread id means
 * that the record is not what it seems. */
static bool
read_context(const struct vg_binding *binding, enum vg_slot slot, const void *record,
             int32_t *ret_tid)
{
    int64_t value;

    *ret_tid = VG_NONE;
    if (!vg_binding_int(binding, slot, record, &value) || value == VG_NONE)
        return true;
    if (value < 0 || value > VG_TID_LIMIT)
        return false;
    *ret_tid = (int32_t)value;
    return true;
}

const char *
vg_binding_read(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                struct vg_event *event)
{
    if (!read_context(binding, VG_SLOT_CONTEXT_TID, record, &event->tid) ||
        !read_context(binding, VG_SLOT_CONTEXT_PID, record, &event->pid))
        return "invalid thread or process ID in the context";
    if (!binding->adapter) {
        event->type = VG_EVENT_OTHER;
        return NULL;
    }
    event->type = (uint16_t)binding->adapter->type;
    return binding->adapter->read(binding, env, record, event);
}
