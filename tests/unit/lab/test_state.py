# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.releases import CURRENT, OLDEST, release_of
from lab.state import DEFAULT_ROOT, LabSettings, LabState


def test_a_lab_keeps_everything_in_its_folder(tmp_path: Path) -> None:
    state = LabState(tmp_path / "lab")
    places = [value for name in dir(LabState) if isinstance(value := getattr(state, name), Path)]
    assert len(places) >= 9
    assert all(place.is_relative_to(state.root) for place in places)


def test_only_the_owner_may_look_into_the_folder(tmp_path: Path) -> None:
    state = LabState(tmp_path / "deep" / "lab")
    state.create()
    state.create()
    for folder in (state.root, state.logs, state.pids, state.pki, state.run):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("here", "there", "here"),
        (None, "there", "there"),
        ("", "", None),
        (None, None, None),
    ],
)
def test_option_then_environment_then_default_choose_the_folder(
    given: str | None,
    environment: str | None,
    expected: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAB_STATE", raising=False)
    if environment is not None:
        monkeypatch.setenv("LAB_STATE", environment)
    assert LabState.chosen(given).root == (tmp_path / expected if expected else DEFAULT_ROOT)


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    settings = LabSettings(
        *(7, 2, 3, {"etcd": 2379}, ("controlplane", "bmc")),
        existing_cluster=True,
        kubernetes="1.34",
    )
    state = LabState(tmp_path)
    state.write_settings(settings)
    assert state.read_settings() == settings


def test_the_environment_chooses_the_version_of_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KUBERNETES", raising=False)
    assert release_of(LabSettings().kubernetes) == CURRENT
    monkeypatch.setenv("LAB_KUBERNETES", "1.34")
    assert release_of(LabSettings().kubernetes) == OLDEST
    monkeypatch.setenv("LAB_KUBERNETES", "1.12")
    with pytest.raises(LabError, match=r"The lab has no Kubernetes 1\.12; choose 1\.37 or 1\.34"):
        release_of(LabSettings().kubernetes)


def test_without_a_lab_the_message_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=f"No lab was started in {tmp_path}; start one with `python"):
        LabState(tmp_path).read_settings()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"unknown": 1}', '{"parts": 1}'])
def test_broken_settings_name_their_file(text: str, tmp_path: Path) -> None:
    state = LabState(tmp_path)
    state.settings_file.write_text(text)
    with pytest.raises(LabError, match=f"{state.settings_file} cannot be read"):
        state.read_settings()
