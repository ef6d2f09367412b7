# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates of an authority, a server and its client, kept in Secrets and renewed in time.

RMD daemons and Kepler are such servers. All keys are RSA, because rmd-operator takes no others.
"""

from __future__ import annotations

import base64
import datetime
import typing as t
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..base import whole_files
from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.json_types import MutableObject
from ..base.libraries import cryptography_exceptions, hashes, rsa, serialization, x509
from ..base.manifests import MANAGED_BY_LABEL, MANAGER
from ..base.units import format_time
from .apply.work import apply
from .client import Kube

_MIN_RSA_BITS = 2048
_AUTHORITY_LIVES_LONGER = 10
_MAX_COMMON_NAME_LENGTH = 64
_CLOCK_SKEW = datetime.timedelta(minutes=5)

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "namespace": {"type": "str", "required": True},
            "authority_namespace": {"type": "str"},
            "authority_secret": {"type": "str", "no_log": False},
            "authority_name": {"type": "str", "default": "wattwise authority"},
            "server_secret": {"type": "str", "required": True, "no_log": False},
            "client_secret": {"type": "str", "required": True, "no_log": False},
            "server_names": {"type": "list", "elements": "str", "required": True},
            "client_name": {"type": "str", "default": "wattwise"},
            "client_unit": {"type": "str", "default": ""},
            "key_bits": {"type": "int", "default": 3072, "no_log": False},
            "valid_days": {"type": "int", "default": 365},
            "renew_days": {"type": "int", "default": 30},
            "issue": {"type": "bool", "default": True},
            "folder": {"type": "path"},
        },
        required_if=(("issue", True, ("authority_namespace", "authority_secret")),),
    )
)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class CertificateRequest:
    """Content of a certificate; ``names`` are host names, ``unit`` is the OU."""

    common_name: str
    names: tuple[str, ...] = ()
    unit: str = ""
    is_authority: bool = False


def _namespace_of(options: Parameters, name: str) -> str:
    """The authority's key is separate, because readers of servers' Secrets could issue with it."""
    return str(options["authority_namespace" if name == "authority" else "namespace"])


def keep_certificates(
    parameters: Parameters,
    context: Context = Context(),
    kube: Kube | None = None,
    labels: t.Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """Issue missing certificates, renew expiring or unsuitable ones, and keep the others.

    Written Secrets get these labels. Without ``issue`` existing certificates are only checked.
    Raises InvalidInput for keys that are too short, for invalid numbers of days, and for unusable
    certificates of others.
    """
    options = SPEC.complete(parameters)
    _require_sense(options)
    kube = kube or Kube.connect(options)
    maker = _Maker(options, context.now())
    if not options["issue"]:
        return _look(kube, maker, context)
    stored = _read(kube, options)
    authority_request = CertificateRequest(options["authority_name"], is_authority=True)
    authority = maker.keep("authority", stored["authority"], authority_request, None)
    pairs = {"authority": authority}
    for name, request in _requests(options).items():
        pairs[name] = maker.keep(name, stored[name], request, authority)
    for pair in pairs.values():
        context.protect(pair.key.decode())
    ca = base64.b64encode(authority.certificate).decode()
    if maker.made:
        _write(kube, options, {name: pairs[name] for name in maker.made}, ca, labels, context)
    written = _write_files(options["folder"], pairs, context) if options["folder"] else []
    certificates = [maker.shown(name, pair) for name, pair in pairs.items()]
    return {"changed": bool(maker.made or written), "certificates": certificates, "files": written}


def _requests(options: Parameters) -> dict[str, CertificateRequest]:
    names = tuple(options["server_names"])
    return {
        "server": CertificateRequest(names[0], names),
        "client": CertificateRequest(options["client_name"], unit=options["client_unit"]),
    }


def _look(kube: Kube, maker: _Maker, context: Context) -> Result:
    """The existing certificates of others, and the client's files."""
    options = maker.options
    pairs: dict[str, Pair] = {}
    for name, request in _requests(options).items():
        secret = options[f"{name}_secret"]
        found = kube.read_secret(options["namespace"], secret)
        if not found or not found[0].get("tls.crt"):
            continue  # cert-manager makes the Secret before its content
        data = found[0]
        pairs[name] = Pair(data["tls.crt"].encode(), data.get("tls.key", "").encode())
        problem = maker.unusable(pairs[name], request)
        if problem is not None:
            where = f"Secret {options['namespace']}/{secret}"
            raise InvalidInput(f"{where} cannot be used, because {problem}; correct it")
        context.protect(pairs[name].key.decode())
        if data.get("ca.crt"):
            pairs["authority"] = Pair(data["ca.crt"].encode(), b"")
    written = _write_files(options["folder"], pairs, context) if options["folder"] else []
    shown = [maker.shown(name, pair) for name, pair in pairs.items() if name != "authority"]
    return {"changed": bool(written), "certificates": shown, "files": written}


def _require_sense(options: Parameters) -> None:
    if options["key_bits"] < _MIN_RSA_BITS:
        raise InvalidInput(
            f"key_bits: {options['key_bits']} is too short; give at least {_MIN_RSA_BITS}"
        )
    if not 0 < options["renew_days"] < options["valid_days"]:
        raise InvalidInput("renew_days must be more than 0 and less than valid_days")
    if options["issue"] and options["authority_namespace"] == options["namespace"]:
        raise InvalidInput(
            f"authority_namespace: {options['namespace']} also holds the server's Secret; give "
            "the authority's key a namespace of its own"
        )
    if not options["server_names"]:
        raise InvalidInput("server_names: give at least one name")


def _read(kube: Kube, options: Parameters) -> dict[str, Pair | None]:
    pairs: dict[str, Pair | None] = {}
    for name in ("authority", "server", "client"):
        found = kube.read_secret(_namespace_of(options, name), options[f"{name}_secret"])
        data = found[0] if found else {}
        has_both = "tls.crt" in data and "tls.key" in data
        pairs[name] = Pair(data["tls.crt"].encode(), data["tls.key"].encode()) if has_both else None
    return pairs


@dataclass
class _Maker:
    """Checks and issues certificates; ``made`` names the new ones with reasons."""

    options: Parameters
    now: datetime.datetime

    def __post_init__(self) -> None:
        self.made: dict[str, str] = {}

    def keep(
        self, name: str, stored: Pair | None, request: CertificateRequest, authority: Pair | None
    ) -> Pair:
        """The stored pair, or a new one if it is no longer usable."""
        problem = "there was none" if stored is None else self._problem(stored, request, authority)
        if stored is not None and problem is None:
            return stored
        self.made[name] = str(problem)
        return self._make(request, authority)

    def shown(self, name: str, pair: Pair) -> MutableObject:
        """Public data of a certificate."""
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        return {
            "name": name,
            "secret": self.options[f"{name}_secret"],
            "sha256": certificate.fingerprint(hashes.SHA256()).hex(),
            "not_after": format_time(certificate.not_valid_after_utc),
            "action": "made" if name in self.made else "unchanged",
            "why": self.made.get(name, ""),
        }

    def _problem(
        self, pair: Pair, request: CertificateRequest, authority: Pair | None
    ) -> str | None:
        """Why the pair cannot be kept; None if it can."""
        problem = self.unusable(pair, request)
        if problem is not None:
            return problem
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        lasting = self.options["renew_days"] + (
            self.options["valid_days"] if request.is_authority else 0
        )
        if certificate.not_valid_after_utc - self.now < datetime.timedelta(days=lasting):
            return "it ends soon"
        if authority is not None and not self._is_issued_by(certificate, authority):
            return "another authority had issued it"
        return None

    def unusable(self, pair: Pair, request: CertificateRequest) -> str | None:
        """Why servers and clients cannot use the pair; None if they can."""
        try:
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            key = serialization.load_pem_private_key(pair.key, password=None)
        except ValueError:
            return "it could not be read"
        if key.public_key() != certificate.public_key():
            return "certificate and key did not belong together"
        if getattr(key, "key_size", 0) < _MIN_RSA_BITS:
            return "its key was too short"
        if not set(request.names) <= set(self._names(certificate)):
            return "it lacked a name"
        return None

    def _names(self, certificate: t.Any) -> list[str]:
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return []
        return list(found.value.get_values_for_type(x509.DNSName))

    def _is_issued_by(self, certificate: t.Any, authority: Pair) -> bool:
        issuer = x509.load_pem_x509_certificate(authority.certificate)
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, cryptography_exceptions.InvalidSignature):
            return False
        return True

    def _make(self, request: CertificateRequest, authority: Pair | None) -> Pair:
        key = rsa.generate_private_key(public_exponent=65537, key_size=self.options["key_bits"])
        subject = self._subject(request)
        issuer = subject
        signing_key: t.Any = key
        if authority is not None:
            issuer = x509.load_pem_x509_certificate(authority.certificate).subject
            signing_key = serialization.load_pem_private_key(authority.key, password=None)
        days = self.options["valid_days"] * (_AUTHORITY_LIVES_LONGER if request.is_authority else 1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - _CLOCK_SKEW)
            .not_valid_after(self.now + datetime.timedelta(days=days))
        )
        builder = self._extended(builder, request, signing_key.public_key())
        certificate = builder.sign(signing_key, hashes.SHA256())
        encoding = serialization.Encoding.PEM
        return Pair(
            certificate.public_bytes(encoding),
            key.private_bytes(
                encoding,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            ),
        )

    def _subject(self, request: CertificateRequest) -> t.Any:
        oid = x509.oid.NameOID
        # Limit of X.509. Clients verify the complete names of the extension.
        common_name = request.common_name[:_MAX_COMMON_NAME_LENGTH]
        parts = [x509.NameAttribute(oid.COMMON_NAME, common_name)]
        if request.unit:
            parts.append(x509.NameAttribute(oid.ORGANIZATIONAL_UNIT_NAME, request.unit))
        return x509.Name(parts)

    def _extended(self, builder: t.Any, request: CertificateRequest, issuer_key: t.Any) -> t.Any:
        """The builder with extensions; strict clients, as Python 3.13, need the identifiers."""
        constraints = x509.BasicConstraints(
            ca=request.is_authority, path_length=0 if request.is_authority else None
        )
        builder = builder.add_extension(constraints, critical=True)
        of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key)
        builder = builder.add_extension(of_issuer, critical=False)
        if request.is_authority:
            own = x509.SubjectKeyIdentifier.from_public_key(issuer_key)
            builder = builder.add_extension(own, critical=False)
            # keyCertSign and cRLSign.
            signs = x509.KeyUsage(*(False,) * 5, True, True, False, False)
            builder = builder.add_extension(signs, critical=True)
        if request.names:
            names = [x509.DNSName(name) for name in request.names]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if not request.is_authority:
            usages = x509.oid.ExtendedKeyUsageOID
            usage = usages.SERVER_AUTH if request.names else usages.CLIENT_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return builder


def _write(
    kube: Kube,
    options: Parameters,
    made: t.Mapping[str, Pair],
    ca: str,
    labels: t.Mapping[str, str],
    context: Context,
) -> None:
    secrets = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": options[f"{name}_secret"],
                "namespace": _namespace_of(options, name),
                "labels": {**labels, MANAGED_BY_LABEL: MANAGER},
            },
            "data": {
                "tls.crt": base64.b64encode(pair.certificate).decode(),
                "tls.key": base64.b64encode(pair.key).decode(),
                "ca.crt": ca,
            },
        }
        for name, pair in made.items()
    ]
    namespaces = {options["namespace"], options["authority_namespace"]}
    asked = {
        "secret_manifests": secrets,
        "force_conflicts": True,
        # In check mode the step before has not made it.
        "assume": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in sorted(namespaces)
        ],
    }
    apply(asked, context, kube)


def _write_files(folder: str, pairs: t.Mapping[str, Pair], context: Context) -> list[str]:
    """Write the client's files for local clients of the servers; return the changed paths."""
    contents = {}
    if "authority" in pairs:
        contents["ca.pem"] = pairs["authority"].certificate
    if "client" in pairs:
        contents |= {"cert.pem": pairs["client"].certificate, "key.pem": pairs["client"].key}
    try:
        return [
            str(path)
            for name, content in contents.items()
            if _write_file(path := Path(folder) / name, content, context)
        ]
    except OSError as error:
        raise InvalidInput(
            f"Cannot keep the client's certificate in {folder}: {error.strerror} "
            f"({error.filename}); it must be a folder that this user may make and write in"
        ) from error


def _write_file(path: Path, content: bytes, context: Context) -> bool:
    """Whether the file changed; it is replaced atomically, except in check mode."""
    if path.is_file() and path.read_bytes() == content:
        return False
    if not context.check_mode:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole_files.replace(path, content)
    return True
