# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options with one definition each: the library's specification and a table in scripts/options.

The specification has what a run needs: name, type, default, choices and suboptions. The table has
the rest: sentences, unit and range (`kind`, one of kinds.yaml), the variable of a role and the
field of a custom resource. Variables that are no option of a module have their specification in the
table. generate_options.py and generate_crds.py write all other forms.
"""

from __future__ import annotations

import functools
import importlib
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent / "options"
LIBRARY = "ansible_collections.wattwise.kube.plugins.module_utils"

Json = dict[str, t.Any]
Entry = t.Mapping[str, t.Any]

_REFERENCE = re.compile(r"\bO\(([^)]+)\)")
_MARKUP = re.compile(r"\b(?:[CVEBIU]|RV)\(([^)]+)\)")
_PLUGIN = re.compile(r"\b(?:M|P)\(wattwise\.kube\.(\w+)(?:#(\w+))?\)")
_TYPES: t.Mapping[str, Json] = {
    "bool": {"type": "boolean"},
    "dict": {"type": "object"},
    "float": {"type": "number"},
    "int": {"type": "integer", "format": "int32"},
    "list": {"type": "array"},
    "path": {"type": "string"},
    "str": {"type": "string"},
}


@dataclass(frozen=True)
class Reference:
    """An option that a sentence names: ``table:name.suboption=value``, the table only if another.

    ``rest`` is everything after the name.
    """

    table: str
    name: str
    rest: str


@dataclass(frozen=True)
class Option:
    """One option of a table, or a suboption of one."""

    name: str
    table: str
    spec: Entry
    entry: Entry
    options: tuple[Option, ...]

    @property
    def kind(self) -> Entry:
        """Limits, schema and unit of the option's kind."""
        return _kinds()[self.entry["kind"]] if "kind" in self.entry else {}

    @property
    def limits(self) -> Json:
        """Range or kind of the values, as roles check them."""
        return {**self.kind.get("limits", {}), **self.entry.get("limits", {})}

    def of(self, surface: str) -> Entry | None:
        """The differences on a surface: ``role``, ``field`` or ``module``; None if left out there."""
        found = self.entry.get(surface, {})
        return None if found is False else t.cast("Entry", found)

    def sentences(self, surface: str, refer: t.Callable[[Reference], str]) -> list[str]:
        """The description for a surface; ``refer`` renders an option that it names."""
        given = (self.of(surface) or {}).get("description", self.entry["description"])
        words = table(self.table).words

        # Options of other plugins, and variables that are no option of a module, stay as they are.
        role = table(self.table).head.get("role", {}).get("name")
        others = ("wattwise.kube.", f"{role}_")

        def replaced(match: re.Match[str]) -> str:
            text = match.group(1)
            return match.group() if text.startswith(others) else refer(self._reference(text))

        return [
            _REFERENCE.sub(replaced, functools.reduce(_with_word, words.items(), text))
            for text in ([given] if isinstance(given, str) else given)
        ]

    def _reference(self, text: str) -> Reference:
        owner, _, path = text.rpartition(":")
        match = re.fullmatch(r"(\w+)(.*)", path)
        if match is None or match.group(1) not in table(owner or self.table).options:
            raise ValueError(f"{self.table}.{self.name}: there is no option {text}")
        return Reference(owner or self.table, match.group(1), match.group(2))

    # --- documentation of modules and specifications of roles ---

    def documentation(
        self, surface: str, refer: t.Callable[[Reference], str], is_member: bool = False
    ) -> Json:
        """The option as modules document it, or as the argument specification of a role."""
        differing, spec = self.of(surface) or {}, self.spec
        sentences = self.sentences(surface, refer)
        is_short = surface == "module" and len(sentences) == 1
        found: Json = {
            "description": sentences[0] if is_short else sentences,
            "type": spec["type"],
        }
        if "elements" in spec:
            found["elements"] = spec["elements"]
        if differing.get("required", spec.get("required")):
            found["required"] = True
        default = differing.get("default", spec.get("default"))
        if surface == "role" and not is_member:
            default = self.role_default()
        if default is not None and not is_template(default):
            found["default"] = default
        if "choices" in spec:
            found["choices"] = list(spec["choices"])
        members = [option for option in self.options if option.of(surface) is not None]
        if members:
            found["options" if surface == "role" else "suboptions"] = {
                option.name: option.documentation(surface, refer, is_member=True)
                for option in members
            }
        return found

    @property
    def is_omitted_if_empty(self) -> bool:
        """Whether the module gets no option from an empty variable of a role."""
        spec = self.spec
        no_default = spec.get("default") is None and not spec.get("required")
        return no_default and spec["type"] in ("str", "path")

    def role_default(self) -> t.Any:
        """The default of the role's variable."""
        differing = self.of("role") or {}
        usual = "" if self.is_omitted_if_empty else self.spec.get("default")
        return differing.get("default", usual)

    # --- fields of custom resources ---

    def field_name(self) -> str:
        """The name in the spec of a custom resource: camelCase, with the unit of a duration."""
        given = (self.of("field") or {}).get("name")
        if given:
            return str(given)
        name = re.sub("_([a-z])", lambda match: match.group(1).upper(), self.name)
        suffix = str(self.kind.get("suffix", ""))
        return name if name.endswith(suffix) else name + suffix

    def schema(self) -> Json:
        """The OpenAPI schema of the field."""
        spec, found = self.spec, {**_TYPES[self.spec["type"]]}
        choices = {"enum": list(spec["choices"])} if "choices" in spec else {}
        if spec["type"] == "list":
            found["items"] = {**_TYPES.get(spec["elements"], {}), **choices}
        else:
            found.update(choices)
        members = self.properties()
        if members and spec["type"] == "list":
            found["items"].update(members)
        else:
            found.update(members)
        for more in (self.kind.get("schema", {}), self.entry.get("schema", {})):
            items = {**found.get("items", {}), **more.get("items", {})}
            found = {**found, **more, **({"items": items} if items else {})}
        if "default" not in found and spec.get("default") is not None:
            found["default"] = _number((self.of("field") or {}).get("default", spec["default"]))
        found["description"] = plain(self.sentences("field", self._field_of)[0])
        return found

    def properties(self) -> Json:
        """Schemas of the suboptions, by field; nothing without suboptions."""
        members = [option for option in self.options if option.of("field") is not None]
        required = [option.field_name() for option in members if option.spec.get("required")]
        found: Json = {"required": required} if required else {}
        if members:
            found["properties"] = {option.field_name(): option.schema() for option in members}
        return found

    def _field_of(self, reference: Reference) -> str:
        option = table(reference.table).options[reference.name]
        return option.field_name() + reference.rest


@dataclass(frozen=True)
class Table:
    """The options of one file, with the surfaces that its head names."""

    name: str
    head: Entry
    options: t.Mapping[str, Option]

    @property
    def words(self) -> t.Mapping[str, str]:
        """Words of sentences that several tables share, by placeholder."""
        return t.cast("t.Mapping[str, str]", self.head.get("words", {}))

    def variable(self, option: Option) -> str:
        """The name of the role's variable."""
        name = (option.of("role") or {}).get("name", option.name)
        return f"{self.head['role']['prefix']}{name}"


@functools.cache
def _kinds() -> t.Mapping[str, Entry]:
    return _read("kinds")


def _read(name: str) -> Json:
    loaded: Json = yaml.safe_load(_paths()[name].read_text(encoding="utf-8"))
    return loaded


@functools.cache
def _paths() -> t.Mapping[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.rglob("*.yaml"))}


def names() -> list[str]:
    """All tables."""
    return sorted(_paths().keys() - {"kinds"})


@functools.cache
def table(name: str) -> Table:
    """A table with the library's specification of its options. Raises ValueError."""
    head = _read(name)
    entries = head["options"]
    specs = (
        _library(head["library"])
        if "library" in head
        else {option: entry["spec"] for option, entry in entries.items()}
    )
    if head.get("is_partial"):
        specs = {option: spec for option, spec in specs.items() if option in entries}
    return Table(name, head, dict(_options(name, entries, specs)))


def _library(place: str) -> Entry:
    """Options of the library: a module, and the path of a value in it."""
    module, *path = re.split(r"[:/]", place)
    found: t.Any = importlib.import_module(f"{LIBRARY}.{module}")
    for part in path:
        found = found[part] if isinstance(found, t.Mapping) else getattr(found, part)
    return t.cast("Entry", getattr(found, "options", found))


def _options(owner: str, entries: Entry, specs: Entry) -> t.Iterator[tuple[str, Option]]:
    differing = entries.keys() ^ specs.keys()
    if differing:
        raise ValueError(
            f"{owner}: not in both the table and the library: {', '.join(sorted(differing))}"
        )
    for name, given in entries.items():
        entry = given
        if "from" in given:
            entry = {**_read(given["from"])["options"][name], **given}
        members = dict(
            _options(f"{owner}.{name}", entry.get("options", {}), specs[name].get("options", {}))
        )
        of = owner.partition(".")[0]
        yield name, Option(name, of, specs[name], entry, tuple(members.values()))


def _with_word(text: str, word: tuple[str, str]) -> str:
    return text.replace(f"<{word[0]}>", word[1])


def _number(value: t.Any) -> t.Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_template(value: t.Any) -> bool:
    """Whether Ansible renders the value, or a member of it."""
    if isinstance(value, list):
        return any(map(is_template, value))
    return isinstance(value, str) and "{{" in value


def plain(text: str) -> str:
    """A sentence without Ansible's markup."""
    text = _PLUGIN.sub(lambda match: f"{match.group(2) or 'module'} {match.group(1)}", text)
    return _MARKUP.sub(r"\1", text)
