# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab`: the command line of the lab."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

import yaml

from lab import demo, device_shapes, faults, lifecycle, releases
from lab.controlplane.programs import build_programs
from lab.errors import LabError
from lab.operator import demo as operator_demo
from lab.state import LabSettings, LabState

DESCRIPTION = "A Kubernetes cluster of simulated machines on this computer; see lab/README.md."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; each known error of the lab is one message on standard error."""
    chosen = _parser().parse_args(arguments)
    # Also SIGINT, which shells ignore in background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        return int(chosen.command(chosen))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; what this command started was stopped", file=sys.stderr)
        return 128 + signal.SIGINT


class _Progress:
    """Print each step with the seconds since the command began."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:5.1f} s] {text}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--state",
        metavar="DIR",
        help="folder of the lab ($LAB_STATE, else lab/.state; operator-demo: lab/.state-operator)",
    )

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[shared], help=text, description=text)
        command.set_defaults(command=function)
        return command

    up = add("up", _up, "start the lab and return when it is ready")
    _add_size(up)
    _add_kubernetes(up)
    _add_contents(up)
    text = "start a lab, place pods by the default scheduler and by wattwise"
    _add_size(add("demo", _demo, text))
    text = "start a lab and the operator, let a day pass, check all, stop both"
    _add_day(add("operator-demo", _operator_demo, text))
    add("down", _down, "stop the lab and remove its folder")
    status = add("status", _status, "show the services; exit code 1 unless all are ready")
    status.add_argument("--json", action="store_true", help="a list of objects instead of a table")
    add("reset", _reset, "empty the cluster and clear all faults")
    text = "build the control plane's programs into the cache, start nothing"
    _add_kubernetes(add("build", _build, text))
    faults.add_arguments(add("fault", _fault, "break one thing"))
    devices = add("devices", _devices, "print pools of devices in one of the prototype's shapes")
    devices.add_argument("--shape", required=True, choices=device_shapes.SHAPES)
    devices.add_argument("--nodes", type=int, default=device_shapes.DEFAULT_NODES)
    return parser


def _add_size(
    command: argparse.ArgumentParser,
    nodes: int = LabSettings.nodes,
    racks: int = LabSettings.racks,
) -> None:
    command.add_argument("--nodes", type=int, default=nodes, help="machines (%(default)s)")
    command.add_argument("--racks", type=int, default=racks, help="racks (%(default)s)")
    seed = LabSettings.seed
    command.add_argument("--seed", type=int, default=seed, help="of all chance (%(default)s)")


def _add_contents(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--only",
        action="append",
        choices=lifecycle.ALL_PARTS,
        metavar="PART",
        help=f"start only this part; may be repeated: {', '.join(lifecycle.ALL_PARTS)}",
    )
    command.add_argument(
        "--bare-metal-hosts",
        type=int,
        default=LabSettings.bare_metal_hosts,
        metavar="COUNT",
        help="machines with a BareMetalHost; the others are known by their BMCs (%(default)s)",
    )
    command.add_argument(
        "--power-time-factor",
        type=float,
        default=LabSettings.power_time_factor,
        metavar="FACTOR",
        help="of real boot and shutdown times (%(default)s)",
    )


def _add_day(command: argparse.ArgumentParser) -> None:
    _add_size(command, operator_demo.NODES, operator_demo.RACKS)
    command.add_argument(
        "--unchanged-runs",
        type=int,
        default=operator_demo.UNCHANGED_RUNS,
        help="runs that must write nothing (%(default)s)",
    )


def _add_kubernetes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kubernetes",
        metavar="VERSION",
        choices=tuple(releases.RELEASES),
        default=releases.asked(),
        help=f"of the control plane: {', '.join(releases.RELEASES)} (${releases.VARIABLE}, else"
        f" an installed one, else {releases.CURRENT.minor})",
    )


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _up(chosen: argparse.Namespace) -> int:
    parts = tuple(part for part in lifecycle.ALL_PARTS if part in (chosen.only or lifecycle.PARTS))
    asked = LabSettings(
        chosen.nodes,
        chosen.racks,
        chosen.seed,
        parts=parts,
        kubernetes=chosen.kubernetes,
        bare_metal_hosts=chosen.bare_metal_hosts,
        power_time_factor=chosen.power_time_factor,
    )
    lifecycle.up(LabState.chosen(chosen.state), asked, _Progress())
    return 0


def _demo(chosen: argparse.Namespace) -> int:
    state = LabState.chosen(chosen.state)
    asked = LabSettings(chosen.nodes, chosen.racks, chosen.seed, parts=lifecycle.PARTS)
    result = demo.demo(state, asked, _Progress())
    print(f"\n{demo.ending(result)}")
    return 0


def _operator_demo(chosen: argparse.Namespace) -> int:
    state = LabState.chosen(chosen.state or os.environ.get("LAB_STATE") or operator_demo.ROOT)
    asked = LabSettings(chosen.nodes, chosen.racks, chosen.seed, parts=lifecycle.PARTS)
    shown = operator_demo.demo(state, asked, _Progress(), chosen.unchanged_runs)
    print("\n".join(["", *operator_demo.ending(shown)]))
    return 0


def _down(chosen: argparse.Namespace) -> int:
    lifecycle.down(LabState.chosen(chosen.state), _Progress())
    return 0


def _reset(chosen: argparse.Namespace) -> int:
    lifecycle.reset(LabState.chosen(chosen.state), _Progress())
    return 0


def _build(chosen: argparse.Namespace) -> int:
    build_programs(_Progress(), chosen.kubernetes)
    return 0


def _fault(chosen: argparse.Namespace) -> int:
    return faults.run(chosen, LabState.chosen(chosen.state))


def _devices(chosen: argparse.Namespace) -> int:
    pools = device_shapes.device_pools(chosen.shape, chosen.nodes)
    print(yaml.safe_dump_all(pools, sort_keys=False), end="")
    return 0


def _status(chosen: argparse.Namespace) -> int:
    found = lifecycle.status(LabState.chosen(chosen.state))
    if chosen.json:
        print(json.dumps([dataclasses.asdict(service) for service in found], indent=2))
    else:
        print(f"{'SERVICE':<26}{'PID':>8}{'PORT':>7}  READY")
        for service in found:
            ready = "yes" if service.ready else "no"
            print(f"{service.service:<26}{service.pid or '-':>8}{service.port or '-':>7}  {ready}")
    return 0 if all(service.ready for service in found) else 1


if __name__ == "__main__":
    sys.exit(main())
