# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""operator/Dockerfile without a container engine: its instructions, and the files that it copies."""

from __future__ import annotations

import re
import shlex
import shutil
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "operator" / "Dockerfile"
# Root of the copied files in the image; all paths of the build start there.
HOME = "/opt/wattwise"


class Instruction(t.NamedTuple):
    """One instruction; `argument` has its line breaks joined."""

    word: str
    argument: str


@dataclass
class Stage:
    """The instructions between one FROM and the next."""

    name: str
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, word: str) -> list[str]:
        return [each.argument for each in self.instructions if each.word == word]

    def copies(self) -> list[tuple[list[str], str]]:
        """Sources from the context, and the target of each COPY."""
        parts = [shlex.split(argument) for argument in self.of("COPY")]
        return [(each[:-1], each[-1]) for each in parts if not each[0].startswith("--from")]

    def environment(self) -> dict[str, str]:
        pairs = [part.partition("=") for each in self.of("ENV") for part in shlex.split(each)]
        return {name: value for name, _equals, value in pairs}


def instructions() -> list[Instruction]:
    """All instructions in order, without comments."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Instruction(word, argument) for word, argument in found]


def stages() -> dict[str, Stage]:
    """The stages by name, in order."""
    found: list[Stage] = []
    for instruction in instructions():
        if instruction.word == "FROM":
            base, _as, name = instruction.argument.split()
            found.append(Stage(name, base))
        elif found:
            found[-1].instructions.append(instruction)
    return {stage.name: stage for stage in found}


def lay_out(folder: Path) -> Path:
    """Create in `folder` the tree that stage `build` copies, without its RUNs; return it."""
    home = folder / "image"
    home.mkdir()
    for sources, target in stages()["build"].copies():
        # An absolute path is of the build alone.
        for source in sources if not target.startswith("/") else ():
            place = home / target
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, place, dirs_exist_ok=True, ignore=ignored)
            else:
                place = place / Path(source).name if target.endswith("/") else place
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / source, place)
    return home


def environment(home: Path, folder: Path, programs: str) -> dict[str, str]:
    """Environment of the image's last stage, with `home` in place of the image's folder."""
    places = {HOME: str(home), "/tmp": str(folder), "/usr/local/bin": programs}
    pattern = re.compile("|".join(places))
    return {
        name: pattern.sub(lambda found: places[found.group()], value)
        for name, value in stages()["operator"].environment().items()
    }
