# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Go programs: built once, found again. A script replaces the compiler."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest

from lab.controlplane import programs
from lab.errors import LabError
from lab.gotools import GoTools, build
from lab.releases import CURRENT, OLDEST, RELEASES, Release

FAKE_GO = """#!/bin/sh
set -e
if [ "$1" = env ]; then echo {version}; exit; fi
if [ "$1" = list ]; then dirname "$0"; exit; fi
echo "$*" >> {log}
[ "$CGO_ENABLED" = 0 ]
while [ "$1" != -o ]; do shift; done
folder=$2
shift 2
for package; do
  echo "compiled $package"
  {then}
  # As Go names a program: by its package, without the major version.
  case $package in */v[0-9]) name=${{package%/v[0-9]}} ;; *) name=$package ;; esac
  echo "$package" > "$folder/${{name##*/}}"
  chmod +x "$folder/${{name##*/}}"
done
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    install(monkeypatch, tmp_path / "tools")
    for path in programs.KWOK_STAGES.values():
        stage = tmp_path / "tools" / path
        stage.parent.mkdir(parents=True, exist_ok=True)
        stage.write_text(stage.name)
    return tmp_path / "cache" / "wattwise"


@pytest.fixture
def tools(tmp_path: Path) -> GoTools:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module lab\n\ngo 1.24.0\n")
    (module / "go.sum").write_text("")
    return GoTools(
        "demo", module, {"one": "example.org/one", "two": "example.org/second/v3"}, "a day"
    )


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, version: str = "go1.26.1", then: str = ":"
) -> None:
    """Put a compiler into PATH that writes its package's name instead of a program."""
    script = FAKE_GO.format(version=version, log=folder / "log", then=then)
    executable(folder / "go", script)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def executable(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def compiled(tmp_path: Path) -> list[str]:
    """The packages of each command, in their order."""
    log = tmp_path / "tools" / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [word for line in lines for word in line.split() if word.startswith("example.org/")]


def test_programs_are_built_once_and_the_user_is_told(
    cache: Path, tools: GoTools, tmp_path: Path
) -> None:
    said: list[str] = []
    folder = build(tools, said.append)
    assert folder.parent == cache
    assert (folder / "two").read_text() == "example.org/second/v3\n"
    assert said[0] == "building one, two (about a day the first time)"
    said.clear()
    assert build(tools, said.append) == folder
    assert not said
    assert compiled(tmp_path) == ["example.org/one", "example.org/second/v3"]


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_another_pin_is_another_build(cache: Path, tools: GoTools, file: str) -> None:
    before = build(tools, print)
    with (tools.module / file).open("a") as text:
        text.write("// changed\n")
    assert build(tools, print) != before


def test_build_tags_reach_the_compiler_and_are_another_build(
    cache: Path, tools: GoTools, tmp_path: Path
) -> None:
    before = build(tools, print)
    tagged = dataclasses.replace(tools, build_tags=("small", "quick"))
    assert build(tagged, print) != before
    commands = (tmp_path / "tools" / "log").read_text().splitlines()
    assert [" -tags=small,quick " in command for command in commands] == [False, True]


def test_two_builds_at_once_compile_once(cache: Path, tools: GoTools, tmp_path: Path) -> None:
    said: list[str] = []
    threads = [threading.Thread(target=build, args=(tools, said.append)) for _index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled(tmp_path) == ["example.org/one", "example.org/second/v3"]


def test_a_failed_build_shows_the_compiler_and_leaves_nothing_to_be_found(
    cache: Path, tools: GoTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "broken", then="echo 'cannot find module' >&2; exit 1")
    with pytest.raises(LabError, match=r"Cannot build one, two from .*go.mod") as caught:
        build(tools, print)
    assert str(caught.value).splitlines()[1:] == ["compiled example.org/one", "cannot find module"]
    install(monkeypatch, tmp_path / "tools")
    assert (build(tools, print) / "one").exists()


def test_an_installed_control_plane_is_used_without_a_build_of_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set(programs.kubernetes(CURRENT).programs)
    for name in (*names, "kwok"):
        executable(tmp_path / "tools" / name)
    executable(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    said: list[str] = []
    found = programs.find_programs(said.append)
    assert found.pop("etcd") == tmp_path / "assets" / "etcd"
    # An installed KWOK lacks its stages.
    kwok = found.pop("kwok")
    assert kwok.is_relative_to(cache)
    assert {path.name for path in kwok.parent.iterdir()} == {"kwok", *programs.KWOK_STAGES}
    assert (kwok.parent / "pod-ready.yaml").read_text() == "pod-ready.yaml"
    assert found == {name: tmp_path / "tools" / name for name in names - {"etcd"}}
    assert f"using the installed etcd: {tmp_path / 'assets' / 'etcd'}" in said


def test_what_is_not_installed_is_built(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        executable(tmp_path / "assets" / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    found = programs.find_programs(print)
    assert found["etcd"].parent == found["kube-apiserver"].parent == tmp_path / "assets"
    assert found["kube-scheduler"].is_relative_to(cache)
    assert found["kwok"].read_text() == "sigs.k8s.io/kwok/cmd/kwok\n"


def test_an_api_server_without_its_store_is_not_used(cache: Path, tmp_path: Path) -> None:
    for name in ("kube-apiserver", "kube-scheduler"):
        executable(tmp_path / "tools" / name)
    found = programs.find_programs(print)
    assert all(path.is_relative_to(cache) for path in found.values())


def test_installed_programs_are_not_used_where_a_version_is_asked_for(
    cache: Path, tmp_path: Path
) -> None:
    for name in ("etcd", "kube-apiserver"):
        executable(tmp_path / "tools" / name)
    found = programs.find_programs(print, "1.34")
    assert found["etcd"].is_relative_to(cache)
    assert found["etcd"].parent == build(programs.kubernetes(OLDEST), print)


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_the_pins_agree_with_the_version_that_the_server_reports(release: Release) -> None:
    tools = programs.kubernetes(release)
    module = (tools.module / "go.mod").read_text()
    assert f"k8s.io/kubernetes {release.version} " in module
    assert f".gitVersion={release.version} " in tools.linker_flags
    staging = release.version.replace("v1.", "v0.")
    replaced = [line.split()[-1] for line in module.splitlines() if "=>" in line]
    assert len(replaced) > 25
    assert set(replaced) == {staging}
    for package in tools.programs.values():
        assert f"\t{package}\n" in module


def test_every_pinned_control_plane_is_a_release() -> None:
    pinned = {path.parent.name for path in (programs.LAB / "controlplane").glob("*/go.mod")}
    assert pinned == {f"v{minor}" for minor in RELEASES}
