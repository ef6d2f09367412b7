# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's image as an OCI archive, built with buildah from the released files."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from lab import gotools
from lab.locks import file_lock
from lab.operator import ANSIBLE_OPERATOR
from scripts import build_image, containers
from scripts.release import archives
from scripts.release.source import ReleaseError, Source

LEFT_OUT = "repeat the command with ARGS='--without image' to release all but the image"


def build(source: Source, archive: Path) -> None:
    """Write the archive. Raises ReleaseError where no image can be built."""
    with file_lock(gotools.cache_folder() / "images.lock", print, "another build of images"):
        if problem := containers.problem():
            raise ReleaseError(f"The image cannot be built here: {problem}; {LEFT_OUT}")
        loaded = f"localhost/{build_image.TARGETS['operator']}:{source.version}"
        # Under another name, because this machine may have an image of that name.
        name = f"{loaded}-release"
        # Files and layers get the commit's time; no layer of another day's packages is used.
        engine = (*containers.BUILD[:-1], "--no-cache", f"--timestamp={source.time}")
        status = build_image.build(
            *(engine, "operator", name, containers.BASE),
            gotools.build(ANSIBLE_OPERATOR, print),
            pip_python=str(build_image.REPOSITORY / ".venvs" / "uv" / "bin" / "python"),
            context=source.tree,
            revision=source.commit,
        )
        if status != 0:
            raise ReleaseError(f"The image cannot be built; see the output above, or {LEFT_OUT}")
        with tempfile.TemporaryDirectory() as folder:
            push = ("buildah", "push", "--quiet", name, f"oci:{folder}:{loaded}")
            subprocess.run(push, check=True)
            subprocess.run(("buildah", "rmi", name), check=True, stdout=subprocess.DEVNULL)
            # An archive of buildah's own has the time of its making.
            layout = {
                path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
                for path in Path(folder).rglob("*")
            }
            archives.write(archive, layout, source.time)
