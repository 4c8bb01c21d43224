/* SPDX-License-Identifier: Apache-2.0 */
#version 450
/* Without floating point, which an emulated CPU computes a hundred times as slowly. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Numbers { uint numbers[]; };
layout(push_constant) uniform Constants { uint rounds; };

void main()
{
    uint x = numbers[gl_GlobalInvocationID.x];

    for (uint i = 0; i < rounds; i++)
        x = x * 1664525u + 1013904223u;
    numbers[gl_GlobalInvocationID.x] = x;
}
