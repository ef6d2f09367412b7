# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write every form of an option from its table, see option_tables.py: `--check` only compares.

A comment `begin generated: TABLE` asks for a part of a file, up to `end generated`; names after the
table limit it to these options, and names with a hyphen leave options out. The file decides the
form: documentation of a module, or specification, defaults, limits or passed variables of a role.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import textwrap
import typing as t
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.spec_options import camel
from scripts.option_tables import Json, Option, Reference, Table, names, table

REPOSITORY = Path(__file__).resolve().parent.parent
FIELDS = REPOSITORY / "plugins" / "module_utils" / "powerfleet" / "fields.py"
FILES = (
    *("plugins/modules/*.py", "plugins/doc_fragments/*.py"),
    *(f"roles/*/{name}" for name in ("meta/argument_specs.yml", "meta/limits.yml")),
    *(f"roles/*/{name}" for name in ("defaults/main.yml", "vars/main.yml", "tasks/*.yml")),
)
WIDTH = 100
PART = re.compile(
    r"^(?P<begin>(?P<indent> *)# begin generated: (?P<request>[^\n]*)\n).*?(?P<end> *# end generated\n)",
    re.MULTILINE | re.DOTALL,
)
# REUSE-IgnoreStart: the header below is that of the written file
FIELDS_HEADER = '''# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Fields of a PowerFleet's spec by option, written by scripts/generate_options.py."""

from __future__ import annotations

# Options by group. The name in the spec follows a colon if it is another one than in camel case.
FIELDS: dict[str, str] = {
'''
# REUSE-IgnoreEnd


def scalar(value: t.Any) -> str:
    """A scalar, or a container of scalars, in YAML on one line; a scalar in double quotes if needed."""
    text = yaml.safe_dump(
        value, width=10**6, allow_unicode=True, default_flow_style=True, sort_keys=False
    )
    text = text.removesuffix("\n").removesuffix("\n...")
    return json.dumps(value, ensure_ascii=False) if text.startswith("'") else text


def block(
    value: t.Any, indent: int, short: t.Container[t.Any] = (), is_short: bool = False
) -> t.Iterator[str]:
    """Lines of a container that is not empty, in YAML's block style.

    Below the keys in ``short``, containers of scalars are on one line if they fit.
    """
    margin = " " * indent
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        start = f"{margin}{scalar(key)}:" if isinstance(value, dict) else f"{margin}-"
        below = is_short or key in short
        on_one_line = f"{start} {scalar(member)}"
        fits = below and is_flat(member) and len(on_one_line) <= WIDTH
        if isinstance(member, (dict, list)) and member and not fits:
            inner = list(block(member, indent + 2, short, below))
            if isinstance(value, list):
                inner[0] = f"{start} {inner[0].lstrip()}"
                yield from inner
            else:
                yield from (start, *inner)
        else:
            yield from textwrap.wrap(
                on_one_line,
                WIDTH,
                subsequent_indent=f"{margin}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def is_flat(value: t.Any) -> bool:
    """Whether a value is a container of scalars."""
    members = value.values() if isinstance(value, dict) else value
    return isinstance(value, (dict, list)) and not any(
        isinstance(one, (dict, list)) for one in members
    )


def selected(of: Table, wanted: list[str], surface: str) -> list[Option]:
    """The options of a request that a surface has."""
    without = {name[1:] for name in wanted if name.startswith("-")}
    only = [name for name in wanted if not name.startswith("-")] or list(of.options)
    if unknown := {*only, *without} - of.options.keys():
        raise ValueError(f"{of.name}: there is no option {', '.join(sorted(unknown))}")
    found = [of.options[name] for name in only if name not in without]
    return [option for option in found if option.of(surface) is not None]


def of_module(module: str, of: Table, options: list[Option]) -> Json:
    """Options of a module, or suboptions of one of its options."""

    def refer(reference: Reference) -> str:
        modules = table(reference.table).head.get("modules", {})
        if module not in modules:
            return f"C({reference.name}{reference.rest})"
        inside = f"{modules[module]}." if modules[module] else ""
        return f"O({inside}{reference.name}{reference.rest})"

    return {option.name: option.documentation("module", refer) for option in options}


def of_role(of: Table, options: list[Option], is_whole: bool) -> Json:
    """Variables of a role, in its argument specification."""

    def refer(reference: Reference) -> str:
        other = table(reference.table)
        option = other.options[reference.name]
        is_own = other.head["role"]["name"] == of.head["role"]["name"]
        letter = "O" if is_own and (is_whole or option in options) else "C"
        return f"{letter}({other.variable(option)}{reference.rest})"

    return {of.variable(option): option.documentation("role", refer) for option in options}


def defaults(of: Table, options: list[Option]) -> Json:
    """Defaults of a role's variables; a variable without one may be undefined."""
    found = {of.variable(option): option.role_default() for option in options}
    return {name: value for name, value in found.items() if value is not None}


def limits(of: Table, options: list[Option]) -> t.Iterator[str]:
    """Limits of a role's variables, in YAML."""
    for option in options:
        if option.limits:
            text = ", ".join(f"{key}: {scalar(value)}" for key, value in option.limits.items())
            yield f"{of.variable(option)}: {{{text}}}"


def passed(of: Table, options: list[Option]) -> t.Iterator[str]:
    """Options of the module with the role's variables, in YAML."""
    for option in options:
        differing = option.of("role") or {}
        name = of.variable(option)
        omitted = " | default(omit, true)" if option.is_omitted_if_empty else ""
        usual = f"{{{{ {name}{omitted} }}}}"
        yield f'{option.name}: "{differing.get("value", usual)}"'


def part(path: Path, match: re.Match[str]) -> str:
    """A generated part of a file, with its two comments."""
    name, *wanted = match["request"].split()
    of, indent = table(name), len(match["indent"])
    surface = "role" if "roles" in path.relative_to(REPOSITORY).parts else "module"
    options = selected(of, wanted, surface)
    is_whole = not wanted
    if surface == "module":
        lines = block(of_module(path.stem, of, options), indent, ("choices", "default"))
    elif path.name == "argument_specs.yml":
        lines = block(of_role(of, options, is_whole), indent)
    elif path.name == "limits.yml":
        lines = (match["indent"] + line for line in limits(of, options))
    elif path.parent.name == "defaults":
        lines = block(defaults(of, options), indent)
    else:
        lines = (match["indent"] + line for line in passed(of, options))
    return match["begin"] + "".join(f"{line}\n" for line in lines) + match["end"]


def field_of(option: Option) -> str:
    """An option with the name of its field, unless that is the option in camel case."""
    name, field = option.name, option.field_name()
    return name if camel(name) == field else f"{name}:{field}"


def fields() -> str:
    """The file of the names in a PowerFleet's spec."""
    text = FIELDS_HEADER
    for of in map(table, names()):
        if not of.head.get("is_of_power_fleet"):
            continue
        words = " ".join(map(field_of, selected(of, [], "field")))
        lines = textwrap.wrap(words, WIDTH - len('        " "'), break_on_hyphens=False)
        if len(lines) == 1 and len(f'    "{of.name}": "{words}",') <= WIDTH:
            text += f'    "{of.name}": "{words}",\n'
        else:
            parts = [f'        "{line} "\n' for line in lines[:-1]]
            text += f'    "{of.name}": (\n{"".join(parts)}        "{lines[-1]}"\n    ),\n'
    return text + "}\n"


def rendered() -> dict[Path, str]:
    """Expected contents of all files with generated parts."""
    found = {FIELDS: fields()}
    for pattern in FILES:
        for path in sorted(REPOSITORY.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            if "# begin generated:" in text:
                found[path], parts = PART.subn(functools.partial(part, path), text)
                # Without its end, a part would reach to the end of the next one.
                if parts != text.count("# begin generated:"):
                    raise ValueError(f"{path}: a generated part has no end")
    return found


def main() -> int:
    """Write the files, or fail if one is not current."""
    stale = {
        path: text
        for path, text in rendered().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        print(path.relative_to(REPOSITORY))
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
