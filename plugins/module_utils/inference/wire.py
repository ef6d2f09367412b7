# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The Open Inference Protocol V2 over HTTP, as far as a power model needs it.

https://github.com/kserve/open-inference-protocol. A row is one point to predict, in order CPU use,
inlet temperature in °C and differential pressure in Pa, already as JSON text.
"""

from __future__ import annotations

import math
import re
import struct
import typing as t
from decimal import ROUND_UP, Context, Decimal

from ..base.errors import InvalidInput, TargetFailure
from ..base.fields.lenient import member, objects
from ..fleet.urls import origin_text, parse_endpoint

# A larger reading is in another unit; the largest servers draw about 15 kW.
MAXIMUM_WATTS = 100_000.0

_MODEL_PATH = re.compile(
    r"(?P<base>.*)/v2/models/(?P<model>[^/]+)(?:/versions(?:/(?P<version>[^/]*))??)?(?:/infer)?"
)


def infer_url(endpoint: str) -> str:
    """The URL to POST to for an endpoint that names a model, with or without version and /infer.

    A base path before /v2 is kept. Raises TargetFailure.
    """
    address = parse_endpoint(endpoint)
    match = _MODEL_PATH.fullmatch(address.base_path)
    if match is None or "?" in endpoint or "#" in endpoint:
        raise TargetFailure(
            "malformed",
            f"the endpoint {endpoint!r} names no model; write it like"
            " http(s)://host[:port][/base]/v2/models/<model>[/versions/<version>][/infer]",
        )
    server = origin_text(address.origin) + match["base"]
    return model_url(server, match["model"], match["version"])


def model_url(server: str, model: str, version: str | None) -> str:
    """The URL to POST to for a model of a server; an empty version means the server's choice."""
    versions = f"/versions/{version}" if version else ""
    return f"{server.rstrip('/')}/v2/models/{model}{versions}/infer"


def float32_text(value: float) -> str:
    """The shortest decimal that denotes the float32 nearest to ``value``, as JSON.

    The form is that of Go's encoding/json: an exponent only below 1e-6 and from 1e21.
    Raises InvalidInput if the value is not finite as float32.
    """
    nearest = _float32(value)
    if not math.isfinite(nearest):
        raise InvalidInput(f"{value!r} is not a finite number of 32 bits")
    if nearest == 0:
        return "0"
    shortest = _shortest_decimal(nearest)
    if _float32(1e-6) <= abs(nearest) < _float32(1e21):
        return f"{shortest:f}"
    mantissa, exponent = f"{shortest:e}".split("e")
    return f"{mantissa}e{int(exponent):+d}"


def _shortest_decimal(nearest: float) -> Decimal:
    """The shortest decimal that rounds to this float32."""
    texts = (f"{nearest:.{digits}e}" for digits in range(9))
    found = Decimal(next(text for text in texts if _float32(float(text)) == nearest))
    digits = len(found.as_tuple().digits)
    if abs(math.frexp(nearest)[0]) == 0.5 and digits > 1:
        # Above a power of two the gap is twice that below, so a farther, shorter decimal may fit.
        shorter = Context(prec=digits - 1, rounding=ROUND_UP).create_decimal_from_float(nearest)
        if _float32(float(shorter)) == nearest:
            return shorter
    return found


def _float32(value: float) -> float:
    try:
        (nearest,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(nearest)


def rows(
    cpu_usage: t.Iterable[float], inlet_celsius: float, delta_p_pascal: float
) -> tuple[str, ...]:
    """Points to predict, as JSON text; equal texts are equal points to the server.

    Raises InvalidInput for a number that float32 cannot hold.
    """
    room = f"{float32_text(inlet_celsius)},{float32_text(delta_p_pascal)}"
    return tuple(f"[{float32_text(usage)},{room}]" for usage in cpu_usage)


def request_body(points: t.Sequence[str]) -> bytes:
    """The JSON request for these rows; keys are in upstream's order."""
    data = ",".join(points)
    return (
        f'{{"inputs":[{{"name":"predict-prob","shape":[{len(points)},3],"datatype":"FP32",'
        f'"data":[{data}]}}]}}'
    ).encode()


def read_outputs(document: t.Any, count: int) -> list[t.Any]:
    """The values of the first output, one for each row, flat or as lists of one; unchecked.

    Raises TargetFailure("malformed") if they are missing, or not ``count``.
    """
    outputs = objects(member(document, "outputs"))
    data = outputs[0].get("data") if outputs else None
    if not isinstance(data, list):
        raise TargetFailure(
            "malformed", "the answer has no list outputs[0].data; check that a V2 model is served"
        )
    if len(data) != count:
        raise TargetFailure(
            "malformed", f"the answer has {len(data)} values for {count} rows; check the model"
        )
    return [value[0] if isinstance(value, list) and len(value) == 1 else value for value in data]


def check_watts(value: t.Any) -> float:
    """A predicted value as watts. Raises TargetFailure("malformed" or "implausible")."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        shown = "null" if value is None else type(value).__name__
        raise TargetFailure("malformed", f"the model predicted {shown} instead of a number")
    try:
        watts = float(value)
    except OverflowError:
        watts = math.inf
    if not 0 <= watts <= MAXIMUM_WATTS:
        raise TargetFailure("implausible", f"the model predicted {watts:.6g} W")
    return watts
