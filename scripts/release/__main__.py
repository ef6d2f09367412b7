# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make all files of a release from the current commit: `make release VERSION=…`."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.gotools import build
from scripts.release import archives, chart, collection, image, olm, overlays, programs, sbom
from scripts.release.source import ReleaseError, Source, stage

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CHECKSUMS = "SHA256SUMS"


def release(source: Source, folder: Path, image_name: str, without: Sequence[str]) -> None:
    """Write the files of the release to the folder. Raises ReleaseError."""
    version, tree = source.version, source.tree
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # First, because it may be impossible.
    if "image" not in without:
        image.build(source, folder / f"wattwise-operator-{version}.oci.tar")
    archive = collection.build(source, folder)
    prefix = f"wattwise-kube-{version}"
    shutil.copyfile(tree / "requirements.txt", folder / f"{prefix}-requirements.txt")
    shutil.copyfile(tree / sbom.LOCK, folder / f"{prefix}-requirements-locked.txt")
    (folder / f"{prefix}.spdx.json").write_text(sbom.document(source, archive), encoding="utf-8")
    for name, paths in {
        "image-context": (".dockerignore", *_image_context(tree)),
        "kustomize": ("LICENSE", overlays.CONFIG, "roles/crds/files"),
    }.items():
        to = f"{prefix}-{name}"
        archives.write_folders(folder / f"{to}.tar.gz", tree, paths, to, source.time)
    archives.write(folder / f"{chart.NAME}-{version}.tgz", chart.files(source), source.time)
    bundle = olm.files(source, f"{image_name or overlays.image(tree)}:{version}")
    validate_bundle(bundle, source.tree.parents[2] / "bundle")
    to = f"{olm.NAME}-bundle-{version}"
    files = {f"{to}/{name}": content for name, content in bundle.items()}
    archives.write(folder / f"{to}.tar.gz", files, source.time)
    _write_checksums(folder)


def _image_context(tree: Path) -> list[str]:
    """The paths that .dockerignore lets the builder have."""
    lines = (tree / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line[1:] for line in lines if line.startswith("!")]


def validate_bundle(bundle: dict[str, bytes], folder: Path) -> None:
    """Judge the bundle as `operator-sdk bundle validate` does. Raises ReleaseError."""
    for name, content in bundle.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    program = build(programs.VERIFY, print) / "operator-verify"
    command = [str(program), "manifests", "--object_validate", str(folder / "manifests")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0 or "Error" in said:
        raise ReleaseError(f"OLM's validator refuses the bundle:\n{said}")


def _write_checksums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """0 if all files were made."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version", help="the version in galaxy.yml")
    parser.add_argument(
        "--without", action="append", choices=["image"], default=[], help="leave this out"
    )
    parser.add_argument(
        "--image", default="", help="name of the image in OLM's bundle, without tag"
    )
    parser.add_argument("--output", type=Path, help="folder of the files; build/release/VERSION")
    chosen = parser.parse_args(arguments)
    folder = chosen.output or REPOSITORY / "build" / "release" / chosen.version
    # Programs of the release write the commit's time where they write one.
    try:
        source = stage(REPOSITORY, chosen.version, REPOSITORY / "build" / "release-source")
        os.environ["SOURCE_DATE_EPOCH"] = str(source.time)
        release(source, folder, chosen.image, chosen.without)
    except ReleaseError as problem:
        print(problem, file=sys.stderr)
        return 1
    print((folder / CHECKSUMS).read_text(encoding="utf-8"), end="")
    print(f"The files of release {source.version} are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
