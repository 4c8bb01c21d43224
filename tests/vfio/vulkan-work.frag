/* SPDX-License-Identifier: Apache-2.0 */
#version 450
layout(push_constant) uniform Constants { uint columns; uint rounds; };
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;

void main()
{
    vec2 z = place;

    for (uint i = 0; i < rounds; i++)
        z = vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) * 0.5 + place * 0.25;
    color = vec4(fract(abs(z)), place.x * 0.5, 1);
}
