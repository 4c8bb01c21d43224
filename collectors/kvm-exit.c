/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/kvm-exit.h"

#include <string.h>

#include <bpf/btf.h>

#include "collectors/bpf-shared.h"

static const struct btf_type *
resolve(const struct btf *btf, uint32_t id)
{
    const struct btf_type *type = btf__type_by_id(btf, id);

    while (type && (btf_is_mod(type) || btf_is_typedef(type)))
        type = btf__type_by_id(btf, type->type);
    return type;
}

/* Adds the member's offset to *offset, and sets *type to the member's type. Also searches unnamed
 * members. */
static bool
step(const struct btf *btf, const struct btf_type **type, const char *name, uint32_t *offset)
{
    if (!*type || !btf_is_composite(*type))
        return false;
    const struct btf_type *whole = *type;
    const struct btf_member *member = btf_members(whole);
    for (unsigned i = 0; i < btf_vlen(whole); i++, member++) {
        const char *its = btf__name_by_offset(btf, member->name_off);
        uint32_t at = btf_member_bit_offset(whole, i) / 8;
        const struct btf_type *inner = resolve(btf, member->type);
        if (its && strcmp(its, name) == 0) {
            *offset += at;
            *type = inner;
            return true;
        }
        if (its && its[0] == '\0') {
            uint32_t below = 0;
            if (step(btf, &inner, name, &below)) {
                *offset += at + below;
                *type = inner;
                return true;
            }
        }
    }
    return false;
}

static const struct btf_type *
find_struct(const struct btf *btf, const char *name)
{
    int32_t id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

    return id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
}

static bool
find_svm(const struct btf *btf, struct vg_kvm_exit_place *ret)
{
    const struct btf_type *type = find_struct(btf, "vcpu_svm");
    struct vg_kvm_exit_place place = {.isa = 2};

    if (!step(btf, &type, "vmcb", &place.pointer_offset) || !btf_is_ptr(type))
        return false;
    type = resolve(btf, type->type);
    if (!step(btf, &type, "control", &place.offset) ||
        !step(btf, &type, "exit_code", &place.offset))
        return false;
    *ret = place;
    return true;
}

/* Finds the reason on VMX. It is a union of flags and `full`, since 6.16 in a part that is shared
 * with TDX. */
static bool
find_vmx(const struct btf *btf, struct vg_kvm_exit_place *ret)
{
    static const char *const ways[][3] = {{"exit_reason"}, {"vt", "exit_reason"}};

    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const struct btf_type *type = find_struct(btf, "vcpu_vmx");
        struct vg_kvm_exit_place place = {.isa = 1};
        bool found = type != NULL;
        for (unsigned k = 0; found && ways[i][k]; k++)
            found = step(btf, &type, ways[i][k], &place.offset);
        if (!found)
            continue;
        *ret = place;
        return true;
    }
    return false;
}

/* Returns whether the probe's argument at this position, counted from 1, is a number. */
static bool
kvm_exit_has_number(const struct btf *btf, unsigned at)
{
    int32_t id = btf__find_by_name_kind(btf, "btf_trace_kvm_exit", BTF_KIND_TYPEDEF);
    const struct btf_type *type = id > 0 ? resolve(btf, (uint32_t)id) : NULL;

    if (type && btf_is_ptr(type))
        type = resolve(btf, type->type);
    if (!type || !btf_is_func_proto(type) || btf_vlen(type) <= at)
        return false;
    const struct btf_type *argument = resolve(btf, btf_params(type)[at].type);
    return argument && !btf_is_ptr(argument);
}

/* Returns whether the probe's prototype has the reason before the vCPU. The newer prototype has no
 * reason: (void *, struct kvm_vcpu *, u32 isa). */
static bool
has_reason(const struct btf *btf)
{
    return kvm_exit_has_number(btf, 1);
}

/* Returns whether the prototype is that of arm64: (void *, int ret, unsigned int esr_ec, unsigned
 * long vcpu_pc). There, KVM is never a module. */
static bool
kvm_exit_is_arm(const struct btf *kernel)
{
    return kvm_exit_has_number(kernel, 1) && kvm_exit_has_number(kernel, 2);
}

/* Returns whether the kernel is older than 5.14, where the task state has another name. */
static bool
is_older_than_5_14(const struct btf *kernel)
{
    const struct btf_type *new_task = find_struct(kernel, "task_struct"), *task = new_task;
    uint32_t offset = 0;

    return !step(kernel, &new_task, "__state", &offset) && step(kernel, &task, "state", &offset);
}

static bool
kvm_exit_is_intel(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

bool
vg_kvm_exit_find(struct btf *kernel, struct vg_kvm_exit_place *ret)
{
    if (kvm_exit_is_arm(kernel)) {
        *ret = (struct vg_kvm_exit_place){.isa = VG_BPF_ISA_ARM, .in_arguments = true};
        return true;
    }
    bool is_intel = kvm_exit_is_intel();
    bool (*find)(const struct btf *, struct vg_kvm_exit_place *) = is_intel ? find_vmx : find_svm;
    struct btf *kvm = btf__load_module_btf("kvm", kernel);
    struct btf *module = btf__load_module_btf(is_intel ? "kvm_intel" : "kvm_amd", kernel);
    /* If KVM is built in, the kernel's type information may contain the structs of both. */
    bool found = find(module ? module : kernel, ret);
    if (found) {
        ret->in_arguments = has_reason(kvm ? kvm : kernel);
    } else if (is_older_than_5_14(kernel)) {
        /* Modules have type information since 5.11. The reason is an argument, which needs none. */
        *ret = (struct vg_kvm_exit_place){.isa = is_intel ? 1 : 2, .in_arguments = true};
        found = true;
    }
    btf__free(module);
    btf__free(kvm);
    return found;
}
