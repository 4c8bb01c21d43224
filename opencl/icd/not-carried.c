/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/not-carried.h"

#include "opencl/base/say.h"

cl_int CL_API_CALL
vg_cl_not_carried(void)
{
    vg_cl_say("the program called an extension function that is not supported");
    return CL_INVALID_OPERATION;
}

void *CL_API_CALL
vg_cl_none_carried(void)
{
    vg_cl_say("the program called an extension function that is not supported");
    return NULL;
}
