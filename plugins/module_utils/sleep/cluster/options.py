# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Options of the step ``sleep``: the operator's rules, times of switching, and the mode."""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from ...base.argspec import ArgumentSpec
from ...base.context import Parameters
from ...base.errors import InvalidInput
from ...base.label_selector import LabelSelector, parse_selector_text
from ..machine import Switching
from ..rules import SleepRules
from .lifecycle import Patience

Mode = t.Literal["off", "dry_run", "with_approval", "on"]
MODES: tuple[Mode, ...] = ("off", "dry_run", "with_approval", "on")

_TYPES: t.Mapping[type, str] = {int: "int", float: "float", str: "str"}


def _spec_of(values: t.Any, *left_out: str) -> dict[str, t.Any]:
    """Options from the defaults of a dataclass."""
    found: dict[str, t.Any] = {}
    for field in dataclasses.fields(values):
        if field.name in left_out:
            continue
        value = getattr(values, field.name)
        if isinstance(value, t.Mapping):
            found[field.name] = {"type": "dict", "default": dict(value)}
        else:
            found[field.name] = {"type": _TYPES[type(value)], "default": value}
    return found


OPTIONS = ArgumentSpec(
    {
        "mode": {"type": "str", "choices": [*MODES], "default": "dry_run"},
        **_spec_of(SleepRules()),
        **_spec_of(Switching()),
        **_spec_of(Patience()),
        "wait_timeout": {"type": "float", "default": 0.0},
        "max_readings_age": {"type": "float", "default": 900.0},
    }
)


@dataclass(frozen=True)
class SleepOptions:
    """The checked options of one run."""

    mode: Mode
    rules: SleepRules
    switching: Switching
    patience: Patience
    wait_timeout: float
    max_readings_age: float
    selector: LabelSelector | None

    @classmethod
    def of(cls, options: Parameters) -> SleepOptions:
        """Raises InvalidInput."""

        def values(kind: t.Any) -> dict[str, t.Any]:
            return {field.name: options[field.name] for field in dataclasses.fields(kind)}

        given = values(SleepRules)
        defaults = SleepRules()
        unknown = sorted(given["eviction_joules"].keys() - defaults.eviction_joules.keys())
        if unknown:
            raise InvalidInput(
                f"sleep: eviction_joules of {unknown[0]}: the classes are "
                f"{', '.join(defaults.eviction_joules)}"
            )
        given["eviction_joules"] = {**defaults.eviction_joules, **given["eviction_joules"]}
        for name in ("wait_timeout", "max_readings_age"):
            if not 0 <= options[name] <= 86400:
                raise InvalidInput(
                    f"sleep: {name} is {options[name]}; give seconds from 0 to 86400"
                )
        select = given["select"]
        return cls(
            options["mode"],
            SleepRules(**given),
            Switching(**values(Switching)),
            Patience(**values(Patience)),
            options["wait_timeout"],
            options["max_readings_age"],
            parse_selector_text(select, "sleep.select") if select else None,
        )

    def selects(self, labels: t.Any) -> bool:
        """Whether the rule select matches these labels; an empty rule matches none."""
        return (
            self.selector is not None and isinstance(labels, dict) and self.selector.matches(labels)
        )
