# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.document_schemas import SCHEMAS
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput

SCHEMA_FOLDER = Path(__file__).resolve().parents[3] / "schemas"
READINGS: dict[str, t.Any] = {
    "readings": {"n1": {"inlet_celsius": 21.5, "delta_p_pascal": None, "power_watts": 180}}
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_published_schema_is_the_one_that_is_checked(kind: str) -> None:
    assert json.loads((SCHEMA_FOLDER / f"{kind}.json").read_text()) == SCHEMAS[kind]


def test_no_schema_is_published_that_the_library_does_not_have() -> None:
    assert {path.stem for path in SCHEMA_FOLDER.iterdir()} == set(SCHEMAS)


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "readings.json"
    digest = documents.write(str(path), "readings", READINGS)
    read = documents.load(str(path), "readings")
    assert read["readings"] == READINGS["readings"]
    assert read["document"] == "wattwise.kube/readings/v1"
    assert len(digest) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["readings.json"]


def test_who_needs_little_of_a_document_says_so_for_each_object(tmp_path: Path) -> None:
    path = str(tmp_path / "snapshot.json")
    pod = {"metadata": {"name": "a"}, "spec": {"volumes": [{"name": "v"}]}}
    documents.write(path, "snapshot", {"cluster": {}, "nodes": [], "pods": [pod]})

    def shorten(value: dict[str, t.Any]) -> dict[str, t.Any]:
        return {key: member for key, member in value.items() if key != "volumes"}

    read = documents.load(path, "snapshot", shorten)
    assert read["pods"] == [{"metadata": {"name": "a"}, "spec": {}}]


def test_a_document_that_breaks_its_schema_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "readings.json"
    documents.write(str(path), "readings", READINGS)
    before = path.read_bytes()
    broken = {"readings": {"n1": {"inlet_celsius": "warm"}}}
    with pytest.raises(InvalidInput, match=r"readings\.readings"):
        documents.write(str(path), "readings", broken)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a readings document: its field `document` is None"),
        ('{"document": "wattwise.kube/plan/v1"}', "is 'wattwise.kube/plan/v1', not"),
        ('{"document": "wattwise.kube/readings/v1"}', "does not follow the schema"),
        (
            '{"document": "wattwise.kube/readings/v1", "time": "2026-01-31T12:00:00Z",'
            ' "readings": {"n1": {"inlet_celsius": true}}}',
            "must contain|must be number",
        ),
    ],
)
def test_a_file_that_is_not_the_document_is_named_with_the_remedy(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=message) as caught:
        documents.load(str(path), "readings")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 500])
def test_a_document_has_no_number_that_json_does_not_have(tmp_path: Path, number: str) -> None:
    path = tmp_path / "readings.json"
    body = {**READINGS, "odd": float("nan")}
    with pytest.raises(InvalidInput, match="cannot be written: .*not JSON compliant"):
        documents.write(str(path), "readings", body)
    assert not path.exists()
    documents.write(str(path), "readings", READINGS)
    path.write_text(path.read_text().replace('"readings":{', f'"odd":{number},"readings":{{', 1))
    with pytest.raises(InvalidInput, match="is not JSON"):
        documents.load(str(path), "readings")


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        documents.load(str(tmp_path / "none.json"), "plan")
    with pytest.raises(InvalidInput, match="make the folder"):
        documents.write(str(tmp_path / "none" / "x.json"), "readings", READINGS)


def test_a_kept_document_stays_as_it_was_when_a_later_run_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "readings.json"
    documents.write(str(path), "readings", READINGS)
    before = path.read_bytes()
    folder = tmp_path / "bound"
    missing = tmp_path / "curves.json"
    documents.keep([str(path), str(missing)], str(folder))
    documents.write(str(path), "readings", {"readings": {}})
    assert (folder / "readings.json").read_bytes() == before
    assert [entry.name for entry in folder.iterdir()] == ["readings.json"]
    documents.keep([str(path)], str(folder))
    assert (folder / "readings.json").read_bytes() == path.read_bytes()
    path.unlink()
    documents.keep([str(path)], str(folder))
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Cannot keep documents in .*none/bound"):
        documents.keep([], str(tmp_path / "none" / "bound"))


SNAPSHOT: dict[str, t.Any] = {"cluster": {}, "nodes": []}


def begun(folder: Path) -> tuple[str, documents.MadeFrom]:
    """The path of a new run's snapshot, and the documents made from it."""
    path = str(folder / "snapshot.json")
    documents.write(path, "snapshot", SNAPSHOT, documents.new_run())
    return path, documents.MadeFrom.read(path)


def test_what_is_made_from_documents_of_a_run_is_of_that_run(tmp_path: Path) -> None:
    snapshot, made_from = begun(tmp_path)
    readings = str(tmp_path / "readings.json")
    documents.write(readings, "readings", READINGS, made_from)
    assert documents.load(readings, "readings")["run"] == made_from.run != None  # noqa: E711
    assert documents.MadeFrom.read(snapshot, readings, None).run == made_from.run
    assert Path(readings).read_text().startswith('{"document":"wattwise.kube/readings/v1","run":"')


def test_documents_of_two_runs_are_never_used_together(tmp_path: Path) -> None:
    _snapshot, made_from = begun(tmp_path)
    readings = str(tmp_path / "readings.json")
    documents.write(readings, "readings", READINGS, made_from)
    snapshot, _later = begun(tmp_path)
    with pytest.raises(InvalidInput, match=r"snapshot\.json and .* are from different runs"):
        documents.MadeFrom.read(snapshot, readings)


def test_nothing_is_written_from_a_document_that_another_run_has_replaced(tmp_path: Path) -> None:
    _snapshot, made_from = begun(tmp_path)
    begun(tmp_path)
    readings = tmp_path / "readings.json"
    with pytest.raises(InvalidInput, match=r"Another run has replaced .*snapshot\.json"):
        documents.write(str(readings), "readings", READINGS, made_from)
    assert not readings.exists()


def test_documents_by_hand_say_nothing_of_a_run_and_go_with_all(tmp_path: Path) -> None:
    snapshot, made_from = begun(tmp_path)
    by_hand = tmp_path / "readings.json"
    by_hand.write_text(json.dumps(READINGS))
    assert documents.MadeFrom.read(snapshot, str(by_hand)) == documents.MadeFrom(
        (snapshot, str(by_hand)), made_from.run
    )
    assert documents.run_of(str(tmp_path / "none.json")) is None


def test_a_document_of_another_run_is_not_kept_beside_those_of_one(tmp_path: Path) -> None:
    snapshot, made_from = begun(tmp_path)
    folder = tmp_path / "bound"
    documents.keep([snapshot], str(folder), made_from.run)
    assert documents.run_of(str(folder / "snapshot.json")) == made_from.run
    begun(tmp_path)
    documents.keep([snapshot], str(folder), made_from.run)
    assert list(folder.iterdir()) == []
