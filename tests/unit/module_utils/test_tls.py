# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pinned certificates and keys: a server with another one gets no request."""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.tls import (
    ClientCertificate,
    certificate_fingerprint,
    key_fingerprint,
    normal_fingerprint,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Client,
    Credential,
    FleetOptions,
    Target,
    Trust,
    visit,
)
from support.certificates import PrivateKey, self_signed
from support.https_server import HttpsServer, Reply
from support.recording_server import RecordingServer

OLD = self_signed(common_name="bmc-1")
NEW = self_signed(common_name="bmc-1")
RENEWED = self_signed(common_name="bmc-1", key=OLD.key)


async def read_x(client: Client, target: Target) -> t.Any:
    return (await client.get_json("/x")).body


def read(endpoint: str, *fingerprints: str) -> t.Any:
    target = Target(
        "node-1", endpoint, Credential("admin", "s3cr3t"), Trust(fingerprints=fingerprints)
    )
    return visit([target], read_x)[0]


@pytest.mark.parametrize("pin", [OLD.fingerprint, OLD.key_fingerprint], ids=["whole", "key"])
def test_a_pinned_machine_is_read_although_nobody_vouches_for_it(pin: str) -> None:
    with HttpsServer({"/x": {"v": 1}}, certificate=OLD) as server:
        assert read(server.endpoint, "0" * 64, pin) == {"v": 1}


def test_a_pinned_key_survives_a_renewed_certificate() -> None:
    with HttpsServer({"/x": {"v": 1}}, certificate=RENEWED) as server:
        assert read(server.endpoint, OLD.key_fingerprint) == {"v": 1}
        assert read(server.endpoint, OLD.fingerprint).reason == "tls"
        assert server.total == 1


def test_a_machine_with_a_changed_certificate_is_sent_nothing() -> None:
    with RecordingServer(NEW) as server:
        error = read(server.endpoint, OLD.fingerprint)
    assert isinstance(error, TargetError)
    assert error.reason == "tls"
    assert NEW.fingerprint in error.detail
    assert "nothing was sent" in error.detail
    assert server.received == [b""]


def test_a_machine_with_the_right_certificate_is_sent_the_request() -> None:
    with RecordingServer(OLD) as server:
        target = Target("n", server.endpoint, trust=Trust(fingerprints=(OLD.fingerprint,)))
        visit([target], read_x, FleetOptions(timeout=0.3))
    assert server.received[0].startswith(b"GET /x HTTP/1.1\r\n")


KEYS: dict[str, Callable[[], PrivateKey]] = {
    "ec-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ec-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "rsa-1024": lambda: rsa.generate_private_key(65537, 1024),
    "rsa-2048": lambda: rsa.generate_private_key(65537, 2048),
}


@pytest.mark.parametrize("kind", KEYS)
def test_fingerprints_of_all_kinds_of_keys(kind: str) -> None:
    certificate = self_signed(common_name="x" * 60, key=KEYS[kind]())
    assert certificate_fingerprint(certificate.der) == certificate.fingerprint
    assert key_fingerprint(certificate.der) == certificate.key_fingerprint


@given(
    st.binary(min_size=32, max_size=32), st.booleans(), st.sampled_from(["", "sha256:", "SHA-256="])
)
def test_fingerprints_may_be_written_in_any_usual_way(
    digest: bytes, upper: bool, prefix: str
) -> None:
    written = prefix + digest.hex(":")
    assert normal_fingerprint(written.upper() if upper else written) == digest.hex()


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "a" * 63, "a" * 40])
def test_what_is_no_fingerprint_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a SHA-256 fingerprint"):
        Trust(fingerprints=(text,))


def test_pinned_machines_of_one_visit_are_each_held_to_their_own_pin() -> None:
    with (
        HttpsServer({"/x": {"v": 1}}, certificate=OLD) as old,
        HttpsServer({"/x": {"v": 2}}, certificate=NEW) as new,
    ):
        pairs = [(old, OLD), (new, NEW), (old, NEW), (new, OLD)]
        targets = [
            Target("n", server.endpoint, trust=Trust(fingerprints=(pin.fingerprint,)))
            for server, pin in pairs
        ]
        first, second, *swapped = visit(targets, read_x)
        assert (first, second) == ({"v": 1}, {"v": 2})
        assert [getattr(each, "reason", None) for each in swapped] == ["tls", "tls"]
        assert (old.total, new.total) == (1, 1)


def test_a_pin_holds_for_every_connection_of_a_visit_and_for_none_of_the_next() -> None:
    closing = Reply(200, {"v": 1}, {"Connection": "close"})

    async def read_thrice(client: Client, target: Target) -> t.Any:
        found = [await client.get_json("/x")]
        found += await asyncio.gather(*(client.get_json("/x") for _ in range(2)))
        if target.name == "broken":
            raise RuntimeError(target.name)
        return [each.body for each in found]

    with HttpsServer({"/x": closing}, certificate=OLD) as server:
        pins = [("good", OLD), ("broken", OLD), ("swapped", NEW), ("good", OLD)]
        targets = [
            Target(name, server.endpoint, trust=Trust(fingerprints=(pin.fingerprint,)))
            for name, pin in pins
        ]
        found = visit(targets, read_thrice, FleetOptions(concurrency=1))
        assert found[0] == found[3] == [{"v": 1}] * 3
        assert [each.reason for each in found[1:3]] == ["malformed", "tls"]
        assert server.total == 9 and len(server.seen.peers) == 9


def test_pinned_machines_share_a_context_and_others_do_not() -> None:
    pinned = Trust(fingerprints=(OLD.fingerprint,)).of_context
    assert pinned == Trust(fingerprints=(NEW.fingerprint,), server_name="a").of_context
    others = [
        Trust(),
        Trust(validate_certs=False),
        Trust(ca_path="/ca.pem"),
        Trust(client=ClientCertificate("/c.pem")),
        Trust(fingerprints=(OLD.fingerprint,), client=ClientCertificate("/c.pem")),
    ]
    assert len({pinned, *(each.of_context for each in others)}) == 6


def test_the_same_pins_are_the_same_trust() -> None:
    pins = (OLD.fingerprint, NEW.fingerprint)
    assert Trust(fingerprints=pins) == Trust(fingerprints=tuple(reversed(pins)))
    assert Trust(fingerprints=(OLD.fingerprint.upper(),)) == Trust(fingerprints=(OLD.fingerprint,))
