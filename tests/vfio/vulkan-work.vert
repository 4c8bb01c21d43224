/* SPDX-License-Identifier: Apache-2.0 */
#version 450
layout(push_constant) uniform Constants { uint columns; };
layout(location = 0) out vec2 place;

/* Triangles in a grid of columns x columns; one of 1 x 1 covers all. */
void main()
{
    const vec2 corners[3] = vec2[](vec2(0, 0), vec2(2, 0), vec2(0, 2));
    uint triangle = gl_VertexIndex / 3;
    vec2 cell = vec2(triangle % columns, triangle / columns);
    float size = columns == 1u ? 1.0 : 0.45;

    place = corners[gl_VertexIndex % 3];
    gl_Position = vec4((cell + place * size) / float(columns) * 2.0 - 1.0, 0.5, 1);
}
