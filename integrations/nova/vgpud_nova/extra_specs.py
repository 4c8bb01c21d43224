# SPDX-License-Identifier: Apache-2.0
"""Tells nova-api which extra specs of flavors start with `vgpud:`, and what they may be."""
from nova.api.validation.extra_specs import base

from vgpud_nova import request

EXTRA_SPEC_VALIDATORS = [
    base.ExtraSpecValidator(
        name="vgpud:class",
        description="What instances of this flavor mostly wait for. Where it is not given, vgpud goes "
                    "by what it has measured of the instance, or by its size.",
        value={"type": str, "enum": list(request.CLASSES)},
    ),
    base.ExtraSpecValidator(
        name="vgpud:gpu_type",
        description="The type of mediated device that instances of this flavor need, like nvidia-63.",
        value={"type": str, "pattern": request.GPU_TYPE.pattern},
    ),
]


def register():
    return EXTRA_SPEC_VALIDATORS
