/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where a BPF program can read the reason of a kvm_exit. The raw tracepoint of x86 does not
 * have it on newer kernels, so it is read from the vCPU, where the processor's KVM module stores
 * it. The module's BTF contains the position. On arm64 the tracepoint has it.
 */
#ifndef VG_COLLECTORS_KVM_EXIT_H
#define VG_COLLECTORS_KVM_EXIT_H

#include <stdbool.h>
#include <stdint.h>

struct btf; /* defined by libbpf */

struct vg_kvm_exit_place {
    uint32_t isa;            /* 1 VMX, 2 SVM, VG_BPF_ISA_ARM */
    bool in_arguments;       /* the tracepoint's first argument is the reason, as before 5.17; on
                                arm64 the first two are */
    uint32_t pointer_offset; /* offset in struct kvm_vcpu of a pointer to the structure with the
                                reason; 0 for the vCPU itself */
    uint32_t offset;         /* offset of the reason in there; 32 bits */
};

/* Finds the position. kernel is the kernel's type information; the modules' is loaded here.
 * Returns false if no KVM module is loaded, none is supported, or a kernel since 5.14 has no type
 * information of its modules. */
bool vg_kvm_exit_find(struct btf *kernel, struct vg_kvm_exit_place *ret);

#endif
