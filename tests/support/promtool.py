# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prometheus' own verdict on metrics, rules and queries, by promtool."""

from __future__ import annotations

import subprocess
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.prometheus import find_promtool

Series = dict[str, float]


@dataclass(frozen=True)
class Expectation:
    """A query and the values of all its results, regardless of labels."""

    query: str
    values: t.Sequence[float]


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool, built first if necessary; both output streams are joined."""
    return subprocess.run(
        [str(find_promtool(print)), *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def lint(textfile: str) -> str:
    """promtool's complaints about the names, units and form of metrics; empty if none."""
    done = promtool("check", "metrics", given=textfile)
    return done.stdout or (f"exit status {done.returncode}" if done.returncode else "")


def samples(textfile: str) -> Series:
    """Value by series, as in the text."""
    lines = [line for line in textfile.splitlines() if line and not line.startswith("#")]
    return {series: float(value) for series, _space, value in (x.rpartition(" ") for x in lines)}


def unmet(
    series: Series, expected: t.Iterable[Expectation], folder: Path, *rule_files: Path
) -> str:
    """promtool's contradictions to the expectations, with series constant for two hours."""
    rules = {
        "rule_files": [str(path) for path in rule_files],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": f"{value!r}x120"} for name, value in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": item.query,
                        "eval_time": "2h",
                        "exp_samples": [{"labels": "{}", "value": value} for value in item.values],
                    }
                    for item in expected
                ],
            }
        ],
    }
    path = folder / "queries.test.yml"
    path.write_text(yaml.safe_dump(rules))
    done = promtool("test", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout
