# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pass pip's settings on to tools that do not read them.

A mirror or proxy for pip is set by file or environment. uv reads neither pip's files nor pip's
variables, and ansible-test starts pip with a bare environment. As a command: run the arguments with
the variables that give uv the same settings.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping

UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
}
FALLBACKS = {
    "cert": ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"),
    "proxy": ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"),
}


def read_pip_settings(pip_python: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The effective settings of that interpreter's pip; its variables win over its files."""
    listing = subprocess.run(
        [pip_python, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        check=True,
        capture_output=True,
        text=True,
        env=dict(environment),
    ).stdout
    settings: dict[str, str] = {}
    for section in ("global.", "install.", ":env:."):
        for line in listing.splitlines():
            if line.startswith(section):
                name, _separator, literal = line.removeprefix(section).partition("=")
                settings[name] = str(ast.literal_eval(literal))
    for name, variables in FALLBACKS.items():
        found = [environment[variable] for variable in variables if environment.get(variable)]
        if found:
            settings.setdefault(name, found[0])
    return settings


def pip_configuration(settings: Mapping[str, str]) -> str:
    """The settings as the text of a pip.conf."""
    lines = [
        f"{name} = {' '.join(value.split())}"
        for name, value in sorted(settings.items())
        if name in UV_VARIABLES or name in ("proxy", "quiet")
    ]
    return "\n".join(["[global]", *lines, ""])


def uv_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as variables for uv."""
    return {
        UV_VARIABLES[name]: " ".join(value.split())
        for name, value in settings.items()
        if name in UV_VARIABLES
    }


def main(command: list[str]) -> None:
    """Replace this process by the command; variables that are already set win."""
    settings = read_pip_settings(sys.executable, os.environ)
    os.execvpe(command[0], command, {**uv_environment(settings), **os.environ})


if __name__ == "__main__":
    main(sys.argv[1:])
