# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the Dockerfile with hadolint and the manifests, also rendered ones, with kube-score.

scripts/manifests/exceptions.yml names each accepted finding by check and objects, with the reason. A finding without
an exception fails, and so does an exception without a finding.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.gotools import build
from scripts.manifests import rendered
from scripts.manifests.programs import PROGRAMS

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
EXCEPTIONS = FOLDER / "exceptions.yml"
DOCKERFILE = "operator/Dockerfile"
OVERLAYS = "operator/config/overlays"
FILES = ("docs/rbac", "docs/examples/kubernetes")
KUBERNETES = "v1.34"
# kube-score's grades below it are warnings and errors.
GOOD_GRADE = 7


@dataclass(frozen=True)
class Finding:
    """What a check says about an object: a file, or `Kind/namespace/name`."""

    check: str
    name: str
    message: str
    place: str


def overlays(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / OVERLAYS).glob("*/kustomization.yaml"))


def files(root: Path) -> list[Path]:
    return sorted(path for folder in FILES for path in (root / folder).glob("*.yaml"))


def judge_dockerfile(path: Path) -> Iterator[Finding]:
    command = ("hadolint", "--config", "/dev/null", "--no-fail", "--format=json", str(path))
    for each in json.loads(_run(command)):
        yield Finding(each["code"], DOCKERFILE, each["message"], f"line {each['line']}")


def judge_manifests(text: str, place: str, kube_score: Path) -> Iterator[Finding]:
    """Findings of the objects in the text. Raises CalledProcessError for unreadable text."""
    command = (
        *(str(kube_score), "score", f"--kubernetes-version={KUBERNETES}"),
        *("--output-format=json", "--output-version=v2", "--exit-one-on-warning=false", "-"),
    )
    # kube-score exits with 1 for findings, as for text that it cannot read; that has no output.
    for item in json.loads(_run(command, text, allowed=(0, 1))) or ():
        metadata = item["object_meta"]
        namespace = metadata.get("namespace", "")
        name = f"{item['type_meta']['kind']}/{namespace}/{metadata['name']}"
        for check in item["checks"]:
            if not check["skipped"] and check["grade"] < GOOD_GRADE:
                for comment in check["comments"] or [{"summary": check["check"]["name"]}]:
                    path = comment.get("path")
                    message = f"{path}: {comment['summary']}" if path else comment["summary"]
                    yield Finding(check["check"]["id"], name, message, place)


def complaints(findings: Iterable[Finding], exceptions: Sequence[dict[str, str]]) -> list[str]:
    """Sentences about findings without exception and exceptions without finding or reason."""
    accepted = {(each["check"], each["object"]): each["reason"].strip() for each in exceptions}
    said = [
        f"exceptions.yml gives no reason for {check} of {name}"
        for (check, name), reason in accepted.items()
        if not reason
    ]
    if len(accepted) < len(exceptions):
        said.append("exceptions.yml names a check of an object twice")
    unused = set(accepted)
    for finding in findings:
        key = finding.check, finding.name
        unused.discard(key)
        if key not in accepted:
            said.append(f"{finding.place}: {finding.name}: {finding.check}: {finding.message}")
    return said + [
        f"exceptions.yml excepts {name} from {check}, which finds nothing there; remove it"
        for check, name in sorted(unused)
    ]


def all_findings(root: Path, programs: Path) -> Iterator[Finding]:
    yield from judge_dockerfile(root / DOCKERFILE)
    kube_score = programs / "kube-score"
    for overlay in overlays(root):
        text = _run((str(programs / "kustomize"), "build", str(overlay)))
        yield from judge_manifests(text, str(overlay.relative_to(root)), kube_score)
    text = yaml.safe_dump_all(rendered.all_manifests())
    yield from judge_manifests(text, "rendered at run time", kube_score)
    for path in files(root):
        yield from judge_manifests(path.read_text(), str(path.relative_to(root)), kube_score)


def _run(command: Sequence[str], given: str = "", allowed: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode not in allowed or not done.stdout.strip():
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


def main() -> int:
    """0 without complaints."""
    programs = build(PROGRAMS, print)
    exceptions = [
        {**each, "object": name}
        for each in yaml.safe_load(EXCEPTIONS.read_text())
        for name in each["objects"]
    ]
    try:
        said = complaints(all_findings(ROOT, programs), exceptions)
    except subprocess.CalledProcessError as error:
        said = [f"{' '.join(error.cmd)}: {error.stderr.strip()}"]
    print(*said, sep="\n", end="\n" if said else "")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
