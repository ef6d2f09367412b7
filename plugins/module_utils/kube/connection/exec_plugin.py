# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Credentials from exec plugins, such as those of cloud providers and of OpenID Connect.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import threading
import typing as t
from pathlib import Path

from ...base.context import utc_now
from ...base.errors import InvalidInput
from ...base.json_types import Object
from ...base.texts import shown_text
from ...base.units import parse_time
from .access import Credential, bearer

_TIMEOUT_SECONDS = 60.0
# Margin before the expiry of a token, so that requests with it arrive in time.
_RENEWAL = datetime.timedelta(seconds=30)
_MAX_STDERR_LENGTH = 300


class ExecPlugin:
    """The member ``exec`` of a user in a kubeconfig. Thread-safe.

    The plugin runs at the first use of its credential, and again after the expiry.
    """

    def __init__(
        self,
        settings: Object,
        folder: Path,
        cluster: Object,
        now: t.Callable[[], datetime.datetime] = utc_now,
    ) -> None:
        self._command = str(settings["command"])
        if os.sep in self._command:  # relative to the kubeconfig; other commands are found by PATH
            self._command = str(folder / self._command)
        self._arguments = [str(argument) for argument in settings.get("args") or []]
        self._variables = {item["name"]: item["value"] for item in settings.get("env") or []}
        self._hint = settings.get("installHint") or "install it there, or correct the kubeconfig"
        specification: dict[str, t.Any] = {"interactive": False}
        if settings.get("provideClusterInfo"):
            specification["cluster"] = cluster
        self._asked: Object = {
            "apiVersion": settings["apiVersion"],
            "kind": "ExecCredential",
            "spec": specification,
        }
        self._now = now
        self._lock = threading.Lock()
        self._credential: Credential | None = None
        self._end: datetime.datetime | None = None

    def __call__(self) -> Credential:
        """The current credential. Raises InvalidInput."""
        with self._lock:
            if self._credential is None or (self._end and self._now() >= self._end - _RENEWAL):
                self._credential, self._end = self._read(self._run())
            return self._credential

    def _run(self) -> str:
        environment = {
            **os.environ,
            **self._variables,
            "KUBERNETES_EXEC_INFO": json.dumps(self._asked),
        }
        try:
            # The library works without Ansible, so there is no run_command.
            done = subprocess.run(  # pylint: disable=ansible-bad-function
                [self._command, *self._arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
                env=environment,
                timeout=_TIMEOUT_SECONDS,
            )
        except FileNotFoundError as error:
            raise self._failure(f"is not installed on this host; {self._hint}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = getattr(error, "strerror", None) or f"no end within {_TIMEOUT_SECONDS:g} s"
            raise self._failure(f"cannot be run ({reason}); run it by hand") from error
        if done.returncode:
            said = shown_text(done.stderr.strip(), _MAX_STDERR_LENGTH)
            raise self._failure(f"ended with status {done.returncode} ({said}); run it by hand")
        return done.stdout

    def _read(self, text: str) -> tuple[Credential, datetime.datetime | None]:
        try:
            answer = json.loads(text)
            if any(answer[name] != self._asked[name] for name in ("apiVersion", "kind")):
                raise self._failure(
                    f"answers with another apiVersion or kind than {self._asked['apiVersion']} "
                    "ExecCredential; correct apiVersion in the kubeconfig"
                )
            status = answer["status"]
            token, end = status.get("token"), status.get("expirationTimestamp")
            credential = Credential(
                bearer(token) if token else None,
                status.get("clientCertificateData"),
                status.get("clientKeyData"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The answer contains secrets and is not quoted.
            raise self._failure("prints no ExecCredential; run it by hand") from error
        if (credential.certificate is None) != (credential.key is None) or not (
            credential.authorization or credential.certificate
        ):
            raise self._failure("gives neither a token nor a certificate with its key")
        return credential, parse_time(end, "expirationTimestamp") if end else None

    def _failure(self, problem: str) -> InvalidInput:
        return InvalidInput(f"The exec plugin {self._command} of the kubeconfig {problem}")
