/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl vm set: changes the settings of a VM.
 */
#ifndef VG_CLI_VM_SET_H
#define VG_CLI_VM_SET_H

/* Parses the arguments from "set" on, and returns the exit code. */
int vg_vm_set(int argc, char **argv);

#endif
