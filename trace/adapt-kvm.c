/* SPDX-License-Identifier: Apache-2.0
 *
 * KVM tracepoints: `kvm_x86_*` in LTTng since 2.8, `kvm_*` before and in all other tracers. vcpu_id
 * is never read, because LTTng's kvm_x86_entry has half a pointer there on newer kernels. A vCPU is
 * therefore identified by the thread that recorded the event. Text traces print the exit reason as
 * a word. On arm64, kvm_exit has an exception and, for a trap, its class.
 */
#include "config.h"

#include <string.h>

#include "model/exit-class.h"
#include "model/figures.h"
#include "trace/adapter.h"

static const char *
read_entry(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
           struct vg_event *event)
{
    (void)env;
    event->kvm.reason = UINT32_MAX;
    event->kvm.exit_class = VG_EXIT_OTHER;
    vg_binding_str(binding, VG_SLOT_CONTEXT_COMM, record, event->kvm.comm, VG_COMM_LEN);
    return NULL;
}

static void
read_arm_exit(const struct vg_binding *binding, const void *record, uint32_t exception_class,
              struct vg_event *event)
{
    int64_t code;
    char word[64];

    if (vg_binding_int(binding, VG_SLOT_EXCEPTION, record, &code)) {
        event->kvm.reason = vg_exit_reason_of_arm((uint32_t)code, exception_class);
    } else if (vg_binding_str(binding, VG_SLOT_EXCEPTION, record, word, sizeof(word)) &&
               strcmp(word, "TRAP") != 0) {
        event->kvm.exit_class = (uint8_t)vg_exit_class_of_name(word);
        return;
    } else {
        event->kvm.reason = exception_class;
    }
    event->kvm.exit_class = (uint8_t)vg_exit_class_of(VG_EXIT_ISA_ARM, event->kvm.reason);
}

static const char *
read_exit(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
          struct vg_event *event)
{
    int64_t reason, isa = 0;
    char word[64];

    read_entry(binding, env, record, event);
    if (vg_binding_int(binding, VG_SLOT_EXCEPTION_CLASS, record, &reason)) {
        read_arm_exit(binding, record, (uint32_t)reason, event);
        return NULL;
    }
    vg_binding_int(binding, VG_SLOT_ISA, record, &isa);
    if (vg_binding_int(binding, VG_SLOT_REASON, record, &reason)) {
        event->kvm.reason = (uint32_t)reason;
        event->kvm.exit_class = (uint8_t)vg_exit_class_of((uint32_t)isa, event->kvm.reason);
    } else if (vg_binding_str(binding, VG_SLOT_REASON, record, word, sizeof(word))) {
        event->kvm.exit_class = (uint8_t)vg_exit_class_of_name(word);
    }
    return NULL;
}

static const struct vg_adapter_field entry_fields[] = {
    {.names = {NULL}},
};

static const struct vg_adapter_field exit_fields[] = {
    {VG_SLOT_REASON, false, {"exit_reason", "reason"}},
    {VG_SLOT_ISA, false, {"isa"}},
    {VG_SLOT_EXCEPTION, false, {"ret"}},
    {VG_SLOT_EXCEPTION_CLASS, false, {"esr_ec"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_kvm[] = {
    {{"kvm_x86_entry", "kvm_entry"}, VG_EVENT_KVM_ENTRY, entry_fields, read_entry, 0, 0},
    {{"kvm_x86_exit", "kvm_exit"}, VG_EVENT_KVM_EXIT, exit_fields, read_exit, 0, 0},
    {.names = {NULL}},
};

const struct vg_adapter_need vg_adapt_kvm_needs[] = {
    {.event = "kvm_entry",
     .types = VG_SEEN_TYPE(VG_EVENT_KVM_ENTRY),
     .lack = VG_CPU_NO_ENTRIES,
     .with = VG_SEEN_TYPE(VG_EVENT_KVM_EXIT),
     .beside = "kvm_exit"},
    {.event = "kvm_exit",
     .types = VG_SEEN_TYPE(VG_EVENT_KVM_EXIT),
     .lack = VG_CPU_NO_EXITS,
     .with = VG_SEEN_TYPE(VG_EVENT_KVM_ENTRY),
     .beside = "kvm_entry"},
    {0},
};
