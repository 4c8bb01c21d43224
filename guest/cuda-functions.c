/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-functions.h"

/* Memory from a pool (cuMemAllocAsync) is missing on purpose: it is restored, unless another GPU
 * may access the pool. Watch files refer to positions in this list, so append new functions. */
const struct vg_cuda_function vg_cuda_functions[] = {
    {"cuIpcOpenMemHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_IMPORT},
    {"cuIpcOpenMemHandle_v2", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_IMPORT},
    {"cuMemImportFromShareableHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_IMPORT},
    {"cuMemPoolImportFromShareableHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_IMPORT},
    {"cuMemPoolImportPointer", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_IMPORT},
    {"cuIpcOpenEventHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EVENT},
    {"cuMulticastCreate", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_MULTICAST},
    {"cuMulticastBindMem", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_MULTICAST},
    {"cuMulticastBindAddr", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_MULTICAST},
    {"cuImportExternalMemory", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EXTERNAL},
    {"cuImportExternalSemaphore", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EXTERNAL},
    {"cuMemAllocManaged", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_MANAGED},
    {"cuIpcGetMemHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EXPORT},
    {"cuMemExportToShareableHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EXPORT},
    {"cuMemPoolExportToShareableHandle", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_EXPORT},
    {"cuMemAlloc_v2", VG_CUDA_SAYS_BYTES, 0},
    {"cuMemAllocPitch_v2", VG_CUDA_SAYS_ROWS, 0},
    {"cuArrayCreate_v2", VG_CUDA_SAYS_FLAT, 0},
    {"cuArray3DCreate_v2", VG_CUDA_SAYS_ARRAY, 0},
    {"cuMipmappedArrayCreate", VG_CUDA_SAYS_ARRAY, 0},
    {"cuMemCreate", VG_CUDA_SAYS_CREATE, 0},
    {"cuMemSetAccess", VG_CUDA_SAYS_ACCESS, 0},
    {"cuCtxEnablePeerAccess", VG_CUDA_SAYS_ENABLE, 0},
    {"cuCtxDisablePeerAccess", VG_CUDA_SAYS_DISABLE, 0},
    {"cuMemPoolSetAccess", VG_CUDA_SAYS_TIE, VG_CUDA_TIE_POOL},
};
const size_t vg_cuda_functions_n = sizeof vg_cuda_functions / sizeof *vg_cuda_functions;

const char *
vg_cuda_function_values(const struct vg_cuda_function *function)
{
    static const char *const values[] = {
        [VG_CUDA_SAYS_TIE] = "caller",
        [VG_CUDA_SAYS_BYTES] = "caller arg1",
        [VG_CUDA_SAYS_ROWS] = "caller arg2 arg3",
        /* CUDA_ARRAY_DESCRIPTOR: Width, Height, Format and NumChannels. */
        [VG_CUDA_SAYS_FLAT] = "caller +0(arg1) +8(arg1) +16(arg1)",
        /* CUDA_ARRAY3D_DESCRIPTOR: Width, Height, Depth, Format and NumChannels. */
        [VG_CUDA_SAYS_ARRAY] = "caller +0(arg1) +8(arg1) +16(arg1) +24(arg1)",
        /* CUmemAllocationProp: the location follows two 32-bit numbers. */
        [VG_CUDA_SAYS_CREATE] = "caller arg1 +8(arg2)",
        /* CUmemAccessDesc: a location and flags, 12 bytes. */
        [VG_CUDA_SAYS_ACCESS] = "caller arg3 +0(arg2) +12(arg2)",
        [VG_CUDA_SAYS_ENABLE] = "caller arg0",
        [VG_CUDA_SAYS_DISABLE] = "caller arg0",
    };

    return values[function->says];
}

bool
vg_cuda_function_is_sized(const struct vg_cuda_function *function)
{
    return function->says == VG_CUDA_SAYS_BYTES || function->says == VG_CUDA_SAYS_CREATE;
}
