# SPDX-License-Identifier: Apache-2.0
"""A library of OpenCL that is called by the table of its platform, so that no loader is needed."""
import ctypes

# Places in the table of functions that each platform begins with (CL/cl_icd.h).
AT = {"GetDeviceIDs": 2, "CreateContext": 4, "ReleaseContext": 7, "CreateCommandQueue": 9, "ReleaseCommandQueue": 11,
      "CreateBuffer": 14, "ReleaseMemObject": 18, "Finish": 47, "ReadBuffer": 48, "WriteBuffer": 49, "MapBuffer": 56,
      "UnmapMemObject": 58}
POINTER, SIZE, MASK, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int
READS, WRITES, INVALIDATES = 1, 2, 4  # of CL_MAP_*
READ_WRITE, USE_HOST = 1, 8           # of CL_MEM_*


class Vendor:
    def __init__(self, library):
        address = ctypes.CDLL(library).clGetExtensionFunctionAddress
        address.restype = POINTER
        platforms = ctypes.CFUNCTYPE(INT, ctypes.c_uint, POINTER, POINTER)(address(b"clIcdGetPlatformIDsKHR"))
        self.platform = POINTER()
        self.must(platforms(1, ctypes.byref(self.platform), None))
        self.table = ctypes.cast(ctypes.cast(self.platform, ctypes.POINTER(POINTER))[0], ctypes.POINTER(POINTER))
        self.device = POINTER()
        self.must(self.call("GetDeviceIDs", self.platform, MASK(0xFFFFFFFF), 1, ctypes.byref(self.device), None))

    @staticmethod
    def must(error):
        if error:
            raise RuntimeError(f"OpenCL's error {error}")

    def call(self, name, *arguments):
        return ctypes.CFUNCTYPE(INT)(self.table[AT[name]])(*arguments)

    def make(self, name, *arguments):
        error = INT()
        made = ctypes.CFUNCTYPE(POINTER)(self.table[AT[name]])(*arguments, ctypes.byref(error))
        self.must(error.value)
        return POINTER(made)
