/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where a BPF program finds the reason of a kvm_exit. The raw tracepoint does not carry it on
 * newer kernels, so it is read out of the vCPU, where the KVM module of the machine's processor
 * keeps it; the BTF of the module tells the place.
 */
#ifndef VG_COLLECTORS_KVM_EXIT_H
#define VG_COLLECTORS_KVM_EXIT_H

#include <stdbool.h>
#include <stdint.h>

struct btf; /* of libbpf */

struct vg_kvm_exit_place {
    uint32_t isa;            /* 1 VMX, 2 SVM */
    bool in_arguments;       /* the tracepoint's first argument is the reason, as before 5.17 */
    uint32_t pointer_offset; /* offset in struct kvm_vcpu of a pointer to the structure with the
                              * reason; 0: the vCPU itself */
    uint32_t offset;         /* offset of the reason in there; 32 bits */
};

/* Finds the place. kernel: its type information; that of modules is loaded meanwhile. false: there
 * is no KVM module, or none that is understood. */
bool vg_kvm_exit_find(struct btf *kernel, struct vg_kvm_exit_place *ret);

#endif
