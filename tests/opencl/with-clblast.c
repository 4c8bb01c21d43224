/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies matrices and vectors of whole numbers with CLBlast, and compares with loops of its
 * own: sums stay exact, so that the order of additions does not matter. Prints a sum of each
 * result. Needs libclblast-dev.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <stdio.h>
#include <stdlib.h>

#include <clblast_c.h>

#define N     48
#define TIMES 20

static cl_command_queue queue;

static cl_mem
fill(cl_context context, float *to, unsigned seed)
{
    for (unsigned i = 0; i < N * N; i++)
        to[i] = (float)((i * 7 + seed * 13 + i / N) % 17) - 8;
    return clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(float) * N * N,
                          to, NULL);
}

/* Reads what was computed; 1 if it differs from what is expected. */
static int
check(const char *name, cl_mem memory, const float *expected, size_t n)
{
    float got[N * N], sum = 0;
    int wrong = 0;

    if (clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, n * sizeof *got, got, 0, NULL, NULL) !=
        CL_SUCCESS)
        return 1;
    for (size_t i = 0; i < n; i++) {
        wrong |= got[i] != expected[i];
        sum += got[i];
    }
    printf("%s %.0f %s\n", name, (double)sum, wrong ? "wrong" : "right");
    return wrong;
}

int
main(void)
{
    static float a[N * N], b[N * N], c[N * N], product[N * N], vector[N];
    cl_platform_id platform;
    cl_device_id device;
    int wrong = 0;

    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return 2;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_mem left = fill(context, a, 1), right = fill(context, b, 2), out = fill(context, c, 3);
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned k = 0; k < N; k++)
                product[i * N + j] += a[i * N + k] * b[k * N + j];
    for (unsigned t = 0; t < TIMES && !wrong; t++) {
        wrong |=
            CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, N, N, N, 1,
                         left, 0, N, right, 0, N, 0, out, 0, N, &queue, NULL) != CLBlastSuccess;
        wrong |= check("gemm", out, product, (size_t)N * N);
    }
    for (unsigned i = 0; i < N; i++)
        for (unsigned k = 0; k < N; k++)
            vector[i] += a[i * N + k] * b[k];
    wrong |= CLBlastSgemv(CLBlastLayoutRowMajor, CLBlastTransposeNo, N, N, 1, left, 0, N, right, 0,
                          1, 0, out, 0, 1, &queue, NULL) != CLBlastSuccess;
    wrong |= check("gemv", out, vector, N);
    for (unsigned i = 0; i < N; i++)
        vector[i] += 3 * a[i];
    wrong |= CLBlastSaxpy(N, 3, left, 0, 1, out, 0, 1, &queue, NULL) != CLBlastSuccess;
    wrong |= check("axpy", out, vector, N);
    return wrong;
}
