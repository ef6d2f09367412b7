# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mutual_tls_certificates on a real API server, and its certificates before a simulated daemon."""

from __future__ import annotations

import datetime
import ssl
import stat
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.certificates import (
    keep_certificates,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube

NOW = datetime.datetime.now(datetime.UTC)
NAMES = ("authority", "server", "client")


class Keeper:
    """Calls of the module's function in one namespace, at any time."""

    def __init__(self, kube: Kube, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.kube, self.folder = kube, folder
        self.given: MutableObject = {
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "authority_namespace": f"{namespace}-authority",
            "authority_secret": "rmd-authority",
            "server_secret": "rmd-server",
            "client_secret": "rmd-client",
            "server_names": ["rmd-nameserver"],
            "client_unit": "Admin",
            "key_bits": 2048,
        }
        self.secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self.authority = f"/api/v1/namespaces/{namespace}-authority/secrets/rmd-authority"

    def keep(self, days_later: int = 0, check: bool = False, **options: t.Any) -> MutableObject:
        moment = NOW + datetime.timedelta(days=days_later)
        context = Context(check_mode=check, now=lambda: moment)
        return keep_certificates({**self.given, "folder": str(self.folder), **options}, context)

    def versions(self) -> dict[str, str]:
        return {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"]
            for path in (self.secrets, self.authority.rpartition("/")[0])
            for item in self.kube.list(path)
        }


@pytest.fixture
def keeper(kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[Keeper]:
    made = {"kind": "Namespace", "metadata": {"name": f"{namespace}-authority"}}
    apply({"kubeconfig": kubeconfig, "manifests": [{"apiVersion": "v1", **made}]})
    yield Keeper(kube, kubeconfig, namespace, tmp_path / "client")
    kube.request("DELETE", f"/api/v1/namespaces/{namespace}-authority")


def actions(result: MutableObject) -> list[str]:
    return [each["action"] for each in result["certificates"]]


def why(result: MutableObject) -> dict[str, str]:
    return {each["name"]: each["why"] for each in result["certificates"] if each["why"]}


def test_a_second_run_leaves_everything_as_it_is(keeper: Keeper) -> None:
    check = keeper.keep(check=True)
    assert (check["changed"], keeper.versions(), keeper.folder.exists()) == (True, {}, False)
    assert actions(keeper.keep()) == ["made"] * 3
    versions = keeper.versions()
    assert sorted(versions) == ["rmd-authority", "rmd-client", "rmd-server"]
    again = keeper.keep()
    assert (again["changed"], actions(again), keeper.versions()) == (
        False, ["unchanged"] * 3, versions,
    )  # fmt: skip
    modes = {stat.S_IMODE(path.stat().st_mode) for path in keeper.folder.iterdir()}
    assert (modes, stat.S_IMODE(keeper.folder.stat().st_mode)) == ({0o600}, 0o700)


def test_certificates_are_renewed_before_they_end_and_the_authority_stays(keeper: Keeper) -> None:
    keeper.keep()
    assert actions(keeper.keep(days_later=334)) == ["unchanged"] * 3
    result = keeper.keep(days_later=336)
    assert why(result) == {"server": "it ends soon", "client": "it ends soon"}
    assert len(result["files"]) == 2, "the authority's file is the same"


def test_a_new_authority_issues_everything_anew(keeper: Keeper) -> None:
    keeper.keep()
    keeper.kube.request("DELETE", keeper.authority)
    assert why(keeper.keep()) == {
        "authority": "there was none",
        "server": "another authority had issued it",
        "client": "another authority had issued it",
    }


def test_what_cannot_be_used_is_replaced_and_nothing_else(keeper: Keeper) -> None:
    keeper.keep()
    body = {"data": {"tls.crt": "bm9uZQ=="}}
    keeper.kube.request(
        "PATCH", f"{keeper.secrets}/rmd-client", body, "application/merge-patch+json"
    )
    assert why(keeper.keep()) == {"client": "it could not be read"}
    assert why(keeper.keep(server_names=["rmd-nameserver", "rmd.example"])) == {
        "server": "it lacked a name"
    }


def test_client_and_server_believe_each_other(keeper: Keeper, tmp_path: Path) -> None:
    keeper.keep()
    found = keeper.kube.read_secret(keeper.given["namespace"], "rmd-server")
    assert found is not None
    served = tmp_path / "server.pem"
    served.write_text(found[0]["tls.crt"] + found[0]["tls.key"])
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=found[0]["ca.crt"])
    server.load_cert_chain(served)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(keeper.folder / "ca.pem"))
    client.load_cert_chain(keeper.folder / "cert.pem", keeper.folder / "key.pem")
    # The default of Python 3.13, which the image has.
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="rmd-nameserver")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    _shake_hands(asking, answering)
    peer = answering.getpeercert()
    assert peer is not None
    assert (("organizationalUnitName", "Admin"),) in t.cast("tuple[t.Any, ...]", peer["subject"])


def _shake_hands(*sides: ssl.SSLObject) -> None:
    """Complete a TLS handshake in memory between both sides."""
    waiting = list(sides)
    for _round in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key_bits": 1024}, "key_bits: 1024 is too short; give at least 2048"),
        ({"renew_days": 400}, "renew_days must be"),
        ({"server_names": []}, "server_names: give at least one"),
        ({"authority_namespace": "default", "namespace": "default"}, "a namespace of its own"),
    ],
)
def test_what_makes_no_sense_is_refused(keeper: Keeper, options: MutableObject, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        keeper.keep(**options)
    assert keeper.versions() == {}


def test_what_others_keep_is_looked_at_and_never_made(keeper: Keeper, tmp_path: Path) -> None:
    assert keeper.keep(issue=False) == {"changed": False, "certificates": [], "files": []}
    made = keeper.keep()
    versions = keeper.versions()
    elsewhere = str(tmp_path / "elsewhere")
    found = keeper.keep(issue=False, folder=elsewhere)
    assert keeper.versions() == versions
    assert found["certificates"] == [
        {**each, "action": "unchanged", "why": ""}
        for each in made["certificates"]
        if each["name"] != "authority"
    ]
    for path in keeper.folder.iterdir():
        assert (tmp_path / "elsewhere" / path.name).read_bytes() == path.read_bytes()
    assert keeper.keep(issue=False, folder=elsewhere)["changed"] is False


def test_what_others_keep_and_cannot_be_used_is_refused(keeper: Keeper) -> None:
    keeper.keep()
    with pytest.raises(InvalidInput, match="rmd-server cannot be used, because it lacked a name"):
        keeper.keep(issue=False, server_names=["rmd.example"])


def test_the_key_that_signs_stands_apart_from_those_of_daemons(keeper: Keeper) -> None:
    keeper.keep()
    names = [item["metadata"]["name"] for item in keeper.kube.list(keeper.secrets)]
    assert sorted(names) == ["rmd-client", "rmd-server"]
    signing = keeper.kube.get(keeper.authority)["data"]
    beside = [item["data"] for item in keeper.kube.list(keeper.secrets)]
    assert signing["tls.key"] not in str(beside)
    assert {each["ca.crt"] for each in beside} == {signing["tls.crt"]}


def test_no_key_is_shown(keeper: Keeper) -> None:
    assert "PRIVATE" not in str(keeper.keep())
