/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the reason of a kvm_exit is found by a BPF program. The raw tracepoint does not carry it on
 * newer kernels, so it is read out of the vCPU, where the KVM module of the machine's processor
 * keeps it. That place is told by the BTF of the module.
 */
#ifndef VG_COLLECTORS_KVM_EXIT_H
#define VG_COLLECTORS_KVM_EXIT_H

#include <stdbool.h>
#include <stdint.h>

struct btf; /* of libbpf */

struct vg_kvm_exit_place {
    uint32_t isa;      /* 1 VMX, 2 SVM */
    bool in_arguments; /* the tracepoint's first argument is the reason, as before 5.17 */
    uint32_t
        pointer_offset; /* in struct kvm_vcpu, of a pointer to what holds it; 0: the vCPU does */
    uint32_t offset;    /* of the reason in there; 32 bits */
};

/* kernel: its type information; that of modules is loaded for the while. false: there is no KVM
 * module, or none that is understood. */
bool vg_kvm_exit_find(struct btf *kernel, struct vg_kvm_exit_place *ret);

#endif
