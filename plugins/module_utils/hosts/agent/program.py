# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The host agent: the holder of a Provisioning's Lease reads BMCs, the others stand by.

The Lease has the name of the Deployment. An agent that ends releases it, and one that dies loses it
after 15 seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import sys
import threading
import typing as t
from dataclasses import dataclass

from ...base.context import Context, utc_now
from ...base.errors import WattwiseError
from ...base.texts import shown_text
from ...base.units import format_time
from ...kube.client import Kube
from ...kube.lease import Lease, LeaseLost, NotAlone
from ..deployment.agents import (
    HOST_NAMESPACES_VARIABLE,
    NAME_VARIABLE,
    NAMESPACE_VARIABLE,
    deployment_name,
)
from .refreshing import Rounds, Say

PERIOD_SECONDS = 300.0
# Less than the grace period of the pods, because a stop waits for running requests to BMCs.
TIMEOUT_SECONDS = 60.0
_LOOKS_AT_LEASE_SECONDS = (1.0, 3.0)
_JITTER = (0.9, 1.1)
_AFTER_ERROR_SECONDS = (5.0, 15.0)
_MAX_LINE_LENGTH = 2000


class _Stopped(Exception):
    """The program got a signal to end while it stood by."""


@dataclass(frozen=True)
class Agent:
    """One agent. ``period`` are the seconds between two rounds."""

    kube: Kube
    place: tuple[str, str]
    rounds: Rounds
    period: float
    say: Say

    def run(self, stop: threading.Event) -> None:
        """Stand by, work while the Lease is held, and stand by again, until ``stop`` is set."""
        namespace, name = self.place

        def pause(_seconds: float) -> None:
            if stop.wait(random.uniform(*_LOOKS_AT_LEASE_SECONDS)):
                raise _Stopped

        said = ""
        while not stop.is_set():
            try:
                lease_name = deployment_name(name)
                with Lease(self.kube, namespace, lease_name, math.inf, sleep=pause) as lease:
                    lease.acquire()
                    self.say(f"holds the Lease {namespace}/{lease_name} as {lease.holder}")
                    said = ""
                    self._work(lease, stop)
            except _Stopped:
                return
            except WattwiseError as error:
                if str(error) != said:
                    self.say(str(error))
                said = str(error)
                stop.wait(random.uniform(*_AFTER_ERROR_SECONDS))

    def _work(self, lease: Lease, stop: threading.Event) -> None:
        """Rounds until ``stop`` is set. Raises LeaseLost."""
        said = ""
        while not stop.is_set():
            lease.guard()
            try:
                self.rounds.run(lease.guard, stop)
                said = ""
            except (LeaseLost, NotAlone):
                raise
            except WattwiseError as error:
                if str(error) != said:
                    self.say(f"the round ended early: {error}")
                said = str(error)
            stop.wait(self.period * random.uniform(*_JITTER))


class _Log:
    """Lines on the standard output, without the secrets that were read."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def protect(self, secret: str) -> None:
        self._secrets.add(secret)

    def say(self, sentence: str) -> None:
        for secret in filter(None, list(self._secrets)):
            sentence = sentence.replace(secret, "********")
        line = f"{format_time(utc_now())} {shown_text(sentence, _MAX_LINE_LENGTH)}\n"
        sys.stdout.write(line)
        sys.stdout.flush()


def _seconds(least: float) -> t.Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not least <= value <= 86_400:
            raise ValueError(text)
        return value

    parse.__name__ = f"number of seconds from {least:g} to 86400"
    return parse


def main(
    arguments: t.Sequence[str] | None = None, environment: t.Mapping[str, str] | None = None
) -> int:
    """The container's program: 0 after a signal to end, 1 with one sentence if it fails.

    The kubeconfig in $WATTWISE_KUBECONFIG names the API server, else the pod's account does.
    """
    environment = os.environ if environment is None else environment
    title = str(__doc__).partition("\n")[0]
    parser = argparse.ArgumentParser(prog="host-agent", description=title)
    text = "seconds between two rounds (%(default)s)"
    parser.add_argument("--period", type=_seconds(1), default=PERIOD_SECONDS, help=text)
    text = "seconds for all requests to one BMC (%(default)s)"
    parser.add_argument("--timeout", type=_seconds(1), default=TIMEOUT_SECONDS, help=text)
    chosen = parser.parse_args(arguments)
    log, stop = _Log(), threading.Event()
    place = (environment.get(NAMESPACE_VARIABLE, ""), environment.get(NAME_VARIABLE, ""))
    if not all(place):
        log.say(f"${NAMESPACE_VARIABLE} and ${NAME_VARIABLE} must name a Provisioning; set them")
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        kube = Kube.of_program(environment)
        context = Context(warn=log.say, protect=log.protect)
        namespaces = environment.get(HOST_NAMESPACES_VARIABLE, "").split(",")
        wanted = [name.strip() for name in namespaces if name.strip()]
        rounds = Rounds(kube, place, wanted, context, log.say, chosen.timeout)
        log.say(f"stands by for Provisioning {'/'.join(place)} on {kube.host}")
        Agent(kube, place, rounds, chosen.period, log.say).run(stop)
    except WattwiseError as error:
        log.say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
