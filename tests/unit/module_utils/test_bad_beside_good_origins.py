# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever URLs NodeConfigs and machines contain, a password reaches only servers that may have it.

Real servers on loopback record credentials with their senders. Machines are asked for their models,
and models for predictions. The oracle knows for which server each URL was made, and parses none.
"""

from __future__ import annotations

import base64
import datetime
import functools
import random
import typing as t
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.models import read_models
from support.examples import generated, seeds
from support.https_server import SHARED_CERTIFICATE, Document, HttpsServer, Reply
from support.odd_values import bounded
from support.predictions import predict_nodes
from support.redfish_trees import ROOT, collection
from support.snapshots import with_targets
from support.wao import node, node_config

# A stopped clock, so that results with their times can be compared.
AT_NOON = Context(now=lambda: datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC))
READING = {"inlet_celsius": 22.0, "delta_p_pascal": 8.0}
SYSTEM = f"{ROOT}/Systems/1"
MODEL_PATH = "/v2/models/m/infer"
ANSWER = {"outputs": [{"data": [100.0] * 21}]}
ALLOWED, OTHERS = "wao-system", ("tenant", "neighbour")
SECRETS = ("bmc", "model")
# Redirects and references to a server that the NodeConfig does not name, by base path.
LEADING_AWAY = ("/redirect", "/member", "/next", "/slashes")

Server = int
Granted = set[tuple[str, Server]]


class Spelling(t.NamedTuple):
    """A URL, and the one server that may get a password by it, if there is any."""

    url: str
    server: Server | None


@pytest.fixture(scope="module")
def servers() -> Iterator[list[HttpsServer]]:
    kinds: list[dict[str, t.Any]] = [
        {},
        {},
        {"certificate": None},
        {"host": "::1"},
        {"host": "127.0.0.2", "certificate": None},
    ]
    with ExitStack() as stack:
        yield [stack.enter_context(HttpsServer({}, **kind)) for kind in kinds]


def canonical(servers: list[HttpsServer], server: Server) -> Spelling:
    return Spelling(servers[server].endpoint, server)


def spelled(source: random.Random, servers: list[HttpsServer], server: Server) -> Spelling:
    """One of the ways to name, or seem to name, the server."""
    url, port = servers[server].endpoint, servers[server].port
    scheme, _separator, host = url.partition("://")
    host = host.rpartition(":")[0]
    v4 = ":" not in host
    name = "localhost" if host == "127.0.0.1" else host
    means = [
        url.upper(),
        f" {url}/ ",
        f"{scheme}://{name}:{port}",
        f"{scheme}://{name}.:{port}" if v4 else url,
        f"{scheme}://{name.upper()}:0{port}",
        f"{scheme}://{host}\t:{port}/",
        f"{scheme}://{host}:{port}\n",
        f"{scheme}://{host.replace('.', '%2e')}:{port}",
        f"{scheme}://{host.replace('127.0.0.', '127.')}:{port}",
        f"{scheme}://{host.replace('127.0.0.1', '0x7f000001')}:{port}",
        f"{scheme}://[::ffff:{host}]:{port}" if v4 else f"{scheme}://[0:0::1]:{port}",
        f"{scheme}://[::1%25lo]:{port}" if not v4 else url,
        f"{'http' if scheme == 'https' else 'https'}://{host}:{port}",
        *(f"{url}{way}" for way in (*LEADING_AWAY, "?x=1", "#@good.example", "//", "/a/../b")),
    ]
    means_nothing = [
        f"{scheme}://user:word@{host}:{port}",
        f"{scheme}://good.example@{host}:{port}",
        f"{scheme}://good.example\\@{host}:{port}",
        f"{scheme}://good.example:443%40{host}:{port}",
        f"{scheme}://@{host}:{port}",
        f"{scheme}://{host.replace('.', '。')}x:{port}",
        f"{scheme}://{host.translate({ord('1'): '１'})}:{port}" if v4 else "",
        f"//{host}:{port}",
        f"{scheme}:{host}:{port}",
        f"ftp://{host}:{port}",
        f"{scheme}://{host}:99999",
        f"{scheme}://{host}:-{port}",
        f"{scheme}:///{host}:{port}",
        "",
    ]
    if source.random() < 0.7:
        return Spelling(source.choice(means), server)
    return Spelling(source.choice(means_nothing), None)


@dataclass
class Example:
    """NodeConfigs, their machines' answers, and the passwords that each server may get."""

    source: random.Random
    servers: list[HttpsServer]
    allow_plain_http: bool
    origins: list[Server]
    # The server of the model that each server's machine reports.
    reported: list[Server | None]
    nodes: list[MutableObject] = field(default_factory=list)
    configs: list[MutableObject] = field(default_factory=list)
    granted: Granted = field(default_factory=set)
    # Together named by a NodeConfig of the Secret's namespace, which is what a machine may name as
    # well.
    together: Granted = field(default_factory=set)
    # The Secret of each node's model, with the server that its NodeConfig or its machine names.
    by_config: dict[str, tuple[str, Server | None]] = field(default_factory=dict)
    by_machine: dict[str, tuple[str, Server | None]] = field(default_factory=dict)

    def add(self, name: str, spell: Callable[[Server], Spelling]) -> None:
        """A node whose machine or whose NodeConfig names its model."""
        source = self.source
        namespace = source.choice((ALLOWED, *OTHERS))
        predictor: MutableObject = {}
        if source.random() < 0.7:
            bmc, secret = spell(self._any()), source.choice((None, *SECRETS))
            predictor["powerConsumptionEndpointProvider"] = _term("Redfish", bmc.url, secret)
            self._grant(self.granted, namespace, secret, bmc.server)
            reported = None if bmc.server is None else self.reported[bmc.server]
        else:
            reported = None
        named, secret = spell(self._any()), source.choice((None, *SECRETS))
        is_direct = source.random() < 0.6
        if is_direct or "powerConsumptionEndpointProvider" in predictor:
            kind = "V2InferenceProtocol" if is_direct else ""
            url = named.url + MODEL_PATH if is_direct else ""
            predictor["powerConsumption"] = _term(kind, url, secret)
            if secret:
                self.by_machine[name] = (f"{namespace}/{secret}", reported)
            if is_direct and secret:
                self.by_config[name] = (f"{namespace}/{secret}", named.server)
                self._grant(self.together, namespace, secret, named.server)
            if secret:
                for origin in self.origins:
                    self._grant(self.together, namespace, secret, origin)
        config = node_config(f"c-{name}", name, namespace=namespace)
        config["spec"]["predictor"] = predictor
        self.configs.append(config)
        added = node(name)
        added["status"]["capacity"] = {"cpu": "8"}
        self.nodes.append(added)

    def _any(self) -> Server:
        return self.source.randrange(len(self.servers))

    def _grant(
        self, granted: Granted, namespace: str, secret: str | None, server: Server | None
    ) -> None:
        if server is None or not (self.servers[server].certificate or self.allow_plain_http):
            return
        if secret is not None:
            granted.add((f"{namespace}/{secret}", server))
        elif namespace == ALLOWED:
            granted.add(("default", server))


def _term(kind: str, url: str, secret: str | None) -> MutableObject:
    return {"type": kind, "endpoint": url, "basicAuthSecret": {"name": secret or ""}}


def tree(source: random.Random, servers: list[HttpsServer], reported: str) -> dict[str, Document]:
    """Content of a server: a machine with a model at that URL, redirects elsewhere, a model."""
    away = servers[source.randrange(len(servers))].endpoint
    model = {"Name": "m", "Url": reported, "Type": "V2InferenceProtocol", "Version": ""}
    plain = {
        f"{ROOT}/Systems": collection(SYSTEM),
        f"{SYSTEM}/MachineLearningModel": {"PowerConsumptionModel": model},
    }
    beside = away.partition("://")[2]
    found: dict[str, Document] = {**plain, MODEL_PATH: ANSWER}
    redirect = Reply(307, headers={"Location": f"{away}{ROOT}/Systems"})
    found |= {f"/redirect{ROOT}/Systems": redirect, f"/redirect{MODEL_PATH}": redirect}
    found[f"/member{ROOT}/Systems"] = collection(f"{away}{SYSTEM}")
    found[f"/next{ROOT}/Systems"] = {
        **collection(SYSTEM),
        "Members@odata.nextLink": f"{away}{ROOT}/Systems",
    }
    found[f"/slashes{ROOT}/Systems"] = collection(f"//{beside}{SYSTEM}", f"/\\{beside}{SYSTEM}")
    return found


def run(example: Example, names: set[str], folder: Path) -> tuple[MutableObject, dict[str, t.Any]]:
    """Passwords sent to each server, and each node's result, only for these nodes."""
    for server in example.servers:
        server.forget()
    configs = [item for item in example.configs if item["spec"]["nodeName"] in names]
    nodes = [item for item in example.nodes if item["metadata"]["name"] in names]
    snapshot = str(folder / "snapshot.json")
    body = with_targets({"cluster": {}, "nodes": nodes, "node_configs": configs})
    documents.write(snapshot, "snapshot", body)
    readings = {name: dict(READING) for name in names}
    keys = [f"{namespace}/{secret}" for namespace in (ALLOWED, *OTHERS) for secret in SECRETS]
    shared: dict[str, t.Any] = {
        "credentials": {key: {"username": "u", "password": key} for key in ["default", *keys]},
        "tls_fingerprint": [SHARED_CERTIFICATE.fingerprint],
        "allow_plain_http": example.allow_plain_http,
        "timeout": 5.0,
    }
    read = read_models(
        {**shared, "snapshot": snapshot, "default_credential_namespaces": [ALLOWED]}, AT_NOON
    )
    told_machines = told(example)
    for server in example.servers:
        server.forget()
    origins = [example.servers[origin].endpoint for origin in example.origins]
    predicted = predict_nodes(body, readings, read["models"], model_origins=origins, **shared)
    results = {
        name: [
            [item for item in result[part] if item["name"] == name]
            for result, part in (
                *((read, part) for part in ("models", "errors")),
                *((predicted, part) for part in ("predictions", "errors")),
            )
        ]
        for name in names
    }
    return {"machines": told_machines, "models": told(example)}, results


def may_be_helped(example: Example, name: str, odd: set[str]) -> bool:
    """Whether an odd NodeConfig names the server of the machine's model with the model's Secret."""
    found = example.by_machine.get(name)
    others = [example.by_config.get(each) for each in odd]
    return found is not None and found[1] is not None and found in others


def lacks_origin(result: list[list[MutableObject]]) -> bool:
    """Whether no NodeConfig and no option allows the server that the machine names."""
    return ["model_origins" in error["detail"] for error in result[-1]] == [True]


def told(example: Example) -> Granted:
    return {
        (base64.b64decode(header.split()[1]).decode().partition(":")[2], number)
        for number, server in enumerate(example.servers)
        for header in server.seen.authorizations
        if header
    }


@generated
@pytest.mark.parametrize("part", range(4))
def test_a_password_reaches_only_servers_that_may_have_it(
    servers: list[HttpsServer], tmp_path: Path, part: int
) -> None:
    arrived, tried = 0, seeds(40)[part::4]
    for seed in tried:
        source = random.Random(seed)
        reported = []
        for server in servers:
            model = spelled(source, servers, source.randrange(len(servers)))
            reported.append(model.server)
            server.documents = tree(source, servers, model.url)
        origins = source.sample(range(len(servers)), source.choice((0, 0, 1)))
        example = Example(source, servers, source.random() < 0.5, origins, reported)
        good, odd = {"good-0", "good-1"}, {"odd-0", "odd-1", "odd-2", "odd-3"}
        for name in sorted(good):
            example.add(name, functools.partial(canonical, servers))
        for name in sorted(odd):
            example.add(name, functools.partial(spelled, source, servers))
        with bounded():
            received, results = run(example, good | odd, tmp_path)
            assert received["machines"] <= example.granted, f"seed {seed}"
            assert received["models"] <= example.together, f"seed {seed}"
            alone, expected = run(example, good, tmp_path)
        arrived += len(alone["machines"]) + len(alone["models"])
        assert alone["machines"] <= received["machines"], f"seed {seed}"
        for name in good:
            is_helped = (
                may_be_helped(example, name, odd)
                and lacks_origin(expected[name])
                and not lacks_origin(results[name])
            )
            # Only the prediction of a helped node differs; its machine is read as without the odd.
            compared = slice(2) if is_helped else slice(None)
            assert results[name][compared] == expected[name][compared], f"seed {seed}"
    assert arrived > len(tried) // 2
