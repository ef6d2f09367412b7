# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module report_publication: destinations of a report, and destinations that refuse it."""

from __future__ import annotations

import json
import os
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report import building, publication
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply
from support.report_documents import write

SIGNATURE = "X-Amz-Signature=5ecre7"
CHECK = Context(check_mode=True)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a report."""
    folder = write(tmp_path_factory.mktemp("runs") / "hall-1")
    building.write({"run_dir": str(folder), "title": "hall-1"})
    return folder


def publish(run_dir: Path, context: Context = Context(), **options: t.Any) -> dict[str, t.Any]:
    return publication.publish({"run_dir": str(run_dir), **options}, context)


def refusal(run_dir: Path, **options: t.Any) -> WattwiseError:
    with pytest.raises(WattwiseError) as raised:
        publish(run_dir, **options)
    return raised.value


# Uploads


@pytest.fixture(scope="module")
def ca_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    path.write_text(SHARED_CERTIFICATE.pem)
    return str(path)


def test_each_document_goes_to_its_url_with_the_headers_that_are_given(
    run_dir: Path, ca_path: str
) -> None:
    documents: dict[str, Document] = {
        "/page": Reply(200),
        "/summary": [Reply(503), Reply(201)],
    }
    with HttpsServer(documents) as server:
        uploads = [
            {"url": f"{server.endpoint}/page?{SIGNATURE}"},
            {
                "url": f"{server.endpoint}/summary",
                "document": "summary",
                "headers": {"Authorization": "Bearer 5ecre7"},
            },
        ]
        done = publish(run_dir, uploads=uploads, ca_path=ca_path)
        assert server.requests == {f"/page?{SIGNATURE}": 1, "/summary": 2}
        assert sorted(set(server.seen.contents)) == sorted(
            (run_dir / name).read_bytes() for name in ("report.html", "summary.json")
        )
        assert server.seen.authorizations.count("Bearer 5ecre7") == 2
        places = [f"{server.endpoint}/page", f"{server.endpoint}/summary"]
        assert [each["place"] for each in done["published"]] == places
        assert done["changed"]
        assert publish(run_dir, CHECK, uploads=uploads, ca_path=ca_path)["changed"]
        assert server.total == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(403), "HTTP 403: the server does not take the file; a signature expires"),
        (Reply(307, headers={"Location": "https://127.0.0.1:1/x"}), "HTTP 307: the server points"),
        (Reply(200, delay_seconds=30), "no answer to PUT /page within 0.5 s"),
        (Reply(404), "HTTP 404: the server does not take the file"),
    ],
)
def test_an_upload_that_fails_is_one_sentence_without_its_signature(
    run_dir: Path, ca_path: str, reply: Reply, words: str
) -> None:
    with HttpsServer({"/page": reply, "/summary": Reply(200)}) as server:
        uploads = [
            {"url": f"{server.endpoint}/page?{SIGNATURE}"},
            {"url": f"{server.endpoint}/summary", "document": "summary"},
        ]
        seconds = 0.5 if reply.delay_seconds else 30.0
        error = refusal(run_dir, uploads=uploads, ca_path=ca_path, timeout=seconds)
        assert f"Cannot upload to {server.endpoint}/page (uploads[0]): {words}" in str(error)
        assert "5ecre7" not in str(error) + str(error.fields)
        assert [each["place"] for each in error.fields["published"]] == [
            f"{server.endpoint}/summary"
        ]


def test_an_unknown_certificate_gets_no_file(run_dir: Path) -> None:
    with HttpsServer({"/page": Reply(200)}) as server:
        error = refusal(run_dir, uploads=[{"url": f"{server.endpoint}/page"}])
        assert "its certificate is not trusted" in str(error)
        assert server.total == 0


@pytest.mark.parametrize(
    ("upload", "words"),
    [
        ({"url": f"objects/page?{SIGNATURE}"}, "uploads[0]: its url is not a URL"),
        ({"url": f"https://u:p@h.example/?{SIGNATURE}"}, "uploads[0]: its url is not a URL"),
        ({"url": f"http://h.example/page?{SIGNATURE}"}, "http://h.example/page is plain HTTP"),
        (
            {"url": "https://h.example/", "headers": {"Host": "5ecre7"}},
            "uploads[0]: a header has a name",
        ),
        (
            {"url": "https://h.example/", "headers": {"A": "5ecre7\r\nB: c"}},
            "uploads[0]: the value of header A has line breaks",
        ),
    ],
)
def test_an_upload_that_cannot_be_right_stops_before_the_first_publication(
    run_dir: Path, tmp_path: Path, upload: dict[str, t.Any], words: str
) -> None:
    error = refusal(run_dir, uploads=[upload], web_folder=str(tmp_path))
    assert isinstance(error, InvalidInput) and words in str(error)
    assert "5ecre7" not in str(error)
    assert list(tmp_path.iterdir()) == []


# A folder of a web server


def test_a_web_folder_has_an_index_of_all_clusters(run_dir: Path, tmp_path: Path) -> None:
    assert publish(run_dir, CHECK, web_folder=str(tmp_path))["changed"]
    assert list(tmp_path.iterdir()) == []
    assert publish(run_dir, web_folder=str(tmp_path))["changed"]
    assert publish(run_dir, web_folder=str(tmp_path), name="hall-2")["changed"]
    names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    files = ["hall-1.html", "hall-1.summary.json", "hall-2.html", "hall-2.summary.json"]
    assert names == dict.fromkeys([*files, "index.html"], 0o644)
    assert (tmp_path / "hall-1.html").read_bytes() == (run_dir / "report.html").read_bytes()
    index = (tmp_path / "index.html").read_text()
    summary = json.loads((run_dir / "summary.json").read_text())
    assert index.count('<a href="hall-') == 2
    assert index.count(f">{summary['failing']}</td>") >= 2
    assert not publish(run_dir, web_folder=str(tmp_path))["changed"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"document": "wattwise.kube/summary/v1"}'])
def test_a_bad_summary_beside_good_ones_keeps_its_link_alone(
    run_dir: Path, tmp_path: Path, content: bytes
) -> None:
    publish(run_dir, web_folder=str(tmp_path))
    alone = (tmp_path / "index.html").read_text()
    (tmp_path / "bad.summary.json").write_bytes(content)
    (tmp_path / "javascript:<x>.summary.json").write_bytes((run_dir / "summary.json").read_bytes())
    publish(run_dir, web_folder=str(tmp_path))
    index = (tmp_path / "index.html").read_text()
    assert '<a href="bad.html">bad</a>' in index and "javascript" not in index
    row = alone[alone.index('<a href="hall-1.html">') : alone.index("</tr></tbody>")]
    assert row in index


@pytest.mark.parametrize("name", ["index", "Index", "../hall", "a/b", ".hidden"])
def test_a_name_that_is_no_file_of_the_folder_is_refused(
    run_dir: Path, tmp_path: Path, name: str
) -> None:
    error = refusal(run_dir, web_folder=str(tmp_path), name=name)
    assert "is not a name for a file in a web folder" in str(error)
    assert list(tmp_path.iterdir()) == []


def test_a_web_folder_that_is_missing_or_closed_is_told(run_dir: Path, tmp_path: Path) -> None:
    error = refusal(run_dir, web_folder=str(tmp_path / "none"))
    assert f"Cannot write to the web folder {tmp_path / 'none'}: No such file" in str(error)
    (tmp_path / "file").write_text("")
    error = refusal(run_dir, web_folder=str(tmp_path / "file"))
    assert "Not a directory; make the folder, and let this user write there" in str(error)
    if os.getuid():
        tmp_path.chmod(0o500)
        assert "Permission denied" in str(refusal(run_dir, web_folder=str(tmp_path)))


@pytest.mark.parametrize("place", ["report", "Monitoring/report", "a/b/c", "/", "../a"])
def test_a_config_map_has_a_namespace_and_a_name(run_dir: Path, place: str) -> None:
    error = refusal(run_dir, config_map=place, kubeconfig={})
    assert "is no <namespace>/<name> of a ConfigMap" in str(error)


def test_a_page_that_is_no_text_is_told(run_dir: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(b"\xff\xfe")
    error = refusal(run_dir, path=str(page), config_map="monitoring/report", kubeconfig={})
    assert "the page is not UTF-8 text" in str(error)


def test_a_run_folder_without_a_report_is_told(tmp_path: Path) -> None:
    error = refusal(tmp_path, web_folder=str(tmp_path))
    assert "No such file or directory; make the report with fleet_report first" in str(error)
