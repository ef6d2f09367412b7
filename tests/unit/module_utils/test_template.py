# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates: the same results as Go's text/template with sprig, and clear refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.functions import (
    FUNCTIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.parser import parse
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.tree import Struct

VARIABLES = Struct(
    Hostname="worker-07",
    Name="worker-07.example.com",
    IPv4=Struct(Address="10.0.3.17", Octet1="10", Octet2="0", Octet3="3", Octet4="17"),
    Labels={"rack": "r2", "wattwise.github.io/slot": "12", "n": "08"},
    Annotations={"bmc": "https://10.9.9.9"},
)


def rendered(text: str) -> str:
    return parse(text).render(VARIABLES)


# Results of Go's text/template with sprig v3.2.3, from a Go program with these variables.
SYNTAX = [
    ("no action", "no action"),
    ("}}", "}}"),
    ("{ { .Hostname } }", "{ { .Hostname } }"),
    ("https://10.0.100.{{.IPv4.Octet4}}", "https://10.0.100.17"),
    ("a {{- .Hostname -}} b", "aworker-07b"),
    ("a  {{- /* c */ -}}  b", "ab"),
    ("x{{/* c }} */}}y", "xy"),
    ("{{- 3}}", "3"),
    ("{{-3}}", "-3"),
    ("{{3  -}}  x", "3x"),
    ("{{ .Hostname\n| upper }}", "WORKER-07"),
    ("{{ .Labels.rack|upper }}", "R2"),
    ("{{ (.IPv4).Octet1 }}", "10"),
    ('{{ (split "-" .Hostname)._1 }}', "07"),
    ('{{ .Hostname | trimPrefix "worker-" | atoi | add 100 }}', "107"),
    ("{{ ((add 1 1)) }}{{ add (1)}}", "21"),
    ('{{ "a}}b" }}{{ `a}}b` }}', "a}}ba}}b"),
    (r'{{ "\u00e9\t\"\\\U0001F600" }}', 'é\t"\\😀'),
    ("{{ `a\r\n\\n` }}", "a\n\\n"),
    ("{{ true }}{{ false }}", "truefalse"),
    ("{{ 0x1f }} {{ +5 }} {{ -5 }} {{ -0x10 }}", "31 5 -5 -16"),
    ("{{ .5 }} {{ 5. }} {{ -0.0 }} {{ 0.0 }}", "0.5 5 -0 0"),
    ("{{ 1000000.0 }} {{ 100000.0 }} {{ 0.00001 }} {{ 0.0001 }}", "1e+06 100000 1e-05 0.0001"),
    ("{{ 1.25e22}} {{ -1234567.5 }} {{ 1.5 }}", "1.25e+22 -1.2345675e+06 1.5"),
]
FUNCTION_RESULTS = [
    ('{{ trimPrefix "worker-" .Hostname }}', "07"),
    # The example of upstream's README, with its arguments in the wrong order.
    ('{{ trimPrefix .Hostname "worker-" }}', "worker-"),
    ('{{ trimSuffix ".example.com" .Name }}{{ trimSuffix "" "a" }}', "worker-07a"),
    ('{{ trim " \t a " }}{{ nospace " a b " }}', "aab"),
    ('{{ trimAll "-w" .Hostname }}{{ trimAll "" " a" }}', "orker-07 a"),
    ('{{ upper "aßé" }} {{ lower "ÀİΣ" }}', "AßÉ àiσ"),
    ('{{ replace "." "-" .IPv4.Address }} {{ replace "" "-" "ab" }}', "10-0-3-17 -a-b-"),
    ("{{ substr 0 3 .Hostname }} {{ substr -1 3 .Hostname }}", "wor wor"),
    ("{{ substr 3 -1 .Hostname }} {{ substr 7 100 .Hostname }}", "ker-07 07"),
    ('{{ substr 0 2 "éa" }}{{ len "éa" }}', "é3"),
    ("{{ trunc 3 .Hostname }} {{ trunc -2 .Hostname }}", "wor 07"),
    ("{{ trunc -20 .Hostname }}{{ trunc 0 .Hostname }}", "worker-07"),
    ('{{ repeat 3 "ab" }}{{ toString 5 | repeat 2 }}', "ababab55"),
    ('{{ contains "k" .Hostname }} {{ hasPrefix "w" .Hostname }}', "true true"),
    ('{{ hasSuffix "6" .Hostname }}', "false"),
    ('{{ quote 1 "a" true 1.5 }}', '"1" "a" "true" "1.5"'),
    ('{{ quote "a\\t\\"é" }}', '"a\\t\\"é"'),
    ('{{ index (splitList "-" .Hostname) 1 }}', "07"),
    ('{{ first (splitList "." .IPv4.Address) }}', "10"),
    ('{{ last (splitList "." .IPv4.Address) }}', "17"),
    ('{{ splitList "" "abc" | len }}{{ split "-" "" | len}}', "31"),
    ("{{ add .IPv4.Octet3 10 }}", "13"),
    ('{{ add1 "4" }} {{ sub 1 2 }} {{ mul 2 3 4 }} {{ add }}', "5 -1 24 0"),
    ("{{ div 7 -2 }} {{ mod -7 2 }} {{ mod 7 -2 }} {{ div -7 2 }}", "-3 -1 1 -3"),
    ('{{ max 1 "5" 3 }} {{ min 4 2 }}', "5 2"),
    ('{{ int "5" }} {{ int64 3.9 }} {{ int true }} {{ add "0x10" 1 }}', "5 3 1 17"),
    ('{{ atoi "08" }} {{ atoi "-7" }}', "8 -7"),
    ('{{ default "d" }} {{ default "d" 0 }} {{ default "d" .Labels.zz }}', "d d d"),
    ('{{ default "d" .Hostname }}', "worker-07"),
    ('{{ coalesce "" 0 "x" }} {{ empty "" }} {{ empty "a" }}', "x true false"),
    ('{{ ternary "a" "b" (eq .Hostname "worker-07") }}', "a"),
    ('{{ true | ternary "a" "b" }}{{ ternary "a" "b" false }}', "ab"),
    ('{{ and 1 0 2 }} {{ or 0 "" 3 }} {{ or 0 "" }} {{ not "" }}', "0 3  true"),
    ('{{ eq "a" "b" "a" }} {{ ne 1 2 }} {{ eq true false }}', "true true false"),
    ('{{ lt 1 2 }} {{ ge "b" "a" }} {{ le 2 2 }} {{ gt 1.5 2.5 }}', "true true true false"),
    ('{{ index .Labels "rack" }}{{ index .Labels "zz" }}', "r2"),
    ('{{ index .Labels "wattwise.github.io/slot" | add 1 }}', "13"),
    ("{{ len .Labels }}", "3"),
]
PRINTF = [
    ('{{ printf "%03d" 7 }}', "007"),
    ('{{ printf "%-5d|%+d|% d|%x|%X" 7 7 7 255 255 }}', "7    |+7| 7|ff|FF"),
    ('{{ printf "%05d|%-05d|%+05d" -7 7 7 }}', "-0007|7    |+0007"),
    ('{{ printf "%5s|%-5s|%05s|%.2s" "abc" "abc" "abc" "abc" }}', "  abc|abc  |00abc|ab"),
    ('{{ printf "%5.1s|%.s|" "abc" "abc" }}', "    a||"),
    ('{{ printf "%q|%5q|%05q" "a" "a" "a" }}', '"a"|  "a"|00"a"'),
    ('{{ printf "%q" "\\u00a0\\u200b\\a\\U000e0001" }}', '"\\u00a0\\u200b\\a\\U000e0001"'),
    ('{{ printf "%v %v %v %v %%" "x" 3 1.5 true }}', "x 3 1.5 true %"),
    ('{{ printf "%5v|%05v|%-5v|%5t|%05t" 3 3 3 true true }}', "    3|00003|3    | true|0true"),
    ('{{ printf "%03s" .IPv4.Octet4 }}', "017"),
    ('{{ printf "52:54:%02x:%02X" (atoi .IPv4.Octet3) (atoi .IPv4.Octet4) }}', "52:54:03:11"),
]


@pytest.mark.parametrize(("text", "expected"), [*SYNTAX, *FUNCTION_RESULTS, *PRINTF])
def test_the_result_is_that_of_go_and_sprig(text: str, expected: str) -> None:
    assert rendered(text) == expected


def test_every_function_is_in_a_vector() -> None:
    texts = " ".join(text for text, _expected in [*FUNCTION_RESULTS, *PRINTF])
    assert [name for name in FUNCTIONS if f"{name} " not in texts] == []


REFUSED_SYNTAX = {
    "{{ .Hostname": (1, "this action has no end; write }}"),
    "ab{{": (3, "this action has no end; write }}"),
    "{{ }}": (4, "a value is missing before }}"),
    "{{ .Hostname | }}": (16, "a value is missing before }}"),
    '{{ "a }}': (4, "this text has no end"),
    "{{ `a }}": (4, "this text has no end"),
    "{{ /* c */ }}": (4, "a comment must fill its action"),
    "{{/* c */ x */}}": (3, "a comment must fill its action"),
    '{{ "a""b" }}': (7, 'a space is missing before "b"'),
    "{{ add(1) }}": (7, "a space is missing before ("),
    "{{ (add 1 2 }}": (4, "this parenthesis has no counterpart"),
    "{{ add 1 2) }}": (11, "')' has no counterpart"),
    '{{ .Hostname "x" }}': (4, ".Hostname is not a function"),
    '{{ "x" | "y" }}': (10, '"y" is not a function'),
    '{{ "x" | .Hostname }}': (10, ".Hostname is not a function"),
    "{{ . }}": (4, "the dot alone has no text"),
    "{{ $x := 1 }}": (4, "variables of the template's own, with $, are not supported"),
    "{{ 'a' }}": (4, '"\'" is not understood here'),
    "{{ 010 }}": (4, "would be octal in Go"),
    "{{ 1e400 }}": (4, "not a number of 64 bits"),
    "{{ 9223372036854775808 }}": (4, "not a number of 64 bits"),
    "{{ 99999999999999999999 }}": (4, "not a number of 64 bits"),
    "{{ 3abc }}": (4, "not a number of 64 bits"),
    r'{{ "\x41" }}': (5, r"the escape \x is not supported"),
    r'{{ "\ud800" }}': (5, r"the escape \ud800 is not supported"),
    "{{ nil }}": (4, "nil is not supported"),
    "{{ if true }}x{{ end }}": (4, "if is not supported"),
    "{{ range .Labels }}{{ end }}": (4, "range is not supported"),
    '{{ define "x" }}{{ end }}': (4, "define is not supported"),
    '{{ env "HOME" }}': (4, "the function env is not supported; there are trim, "),
    '{{ "a" | b64enc }}': (10, "the function b64enc is not supported"),
    "{{ regexFind `a` .Hostname }}": (4, "the function regexFind is not supported"),
    "{{ " + "(" * 60 + "1" + ")" * 60 + " }}": (54, "more than 50 calls"),
    "{{ 1 " + "| add 1" * 60 + " }}": (358, "more than 50 calls"),
    "{{ .Labels" + ".a" * 60 + " }}": (111, "more than 50 calls"),
}
REFUSED_VALUES = {
    "{{ .Unknown }}": (4, "there is no .Unknown here; there are .Annotations, .Hostname, .IPv4"),
    "{{ .IPv4.Octet5 }}": (9, "there is no .Octet5 here; there are .Address, .Octet1"),
    "{{ .Hostname.Short }}": (13, "the text 'worker-07' has no member .Short"),
    "{{ .Labels.zz }}": (1, "has no value to write; give one with default"),
    "{{ .Labels.zz.a }}": (14, "no value has no member .a"),
    "{{ .Labels }}": (1, "cannot write a map into the text; take a member with index"),
    '{{ splitList "." .Hostname }}': (1, "cannot write a list into the text"),
    '{{ coalesce "" }}': (1, "has no value to write"),
    '{{ trimPrefix "a" }}': (4, "trimPrefix takes 2 arguments, not 1"),
    "{{ lower }}": (4, "lower takes 1 argument, not 0"),
    "{{ trimPrefix lower .Name }}": (15, "lower takes 1 argument, not 0"),
    "{{ max }}": (4, "max takes at least 1 argument, not 0"),
    "{{ lower 5 }}": (4, "lower takes text, not the number 5; write toString"),
    '{{ repeat "3" "a" }}': (4, "repeat takes a whole number, not the text '3'; write int"),
    "{{ repeat 2.0 `a` }}": (4, "repeat takes a whole number, not the number 2.0"),
    '{{ repeat -1 "a" }}': (4, "cannot repeat the text 'a' -1 times"),
    '{{ repeat 5000 "a" }}': (4, "cannot repeat the text 'a' 5000 times"),
    '{{ replace "" (repeat 99 "a") (repeat 99 "b") }}': (4, "more than 4096 characters"),
    '{{ add "08" 1 }}': (4, "not the text '08'; write atoi where zeros lead"),
    "{{ add .Hostname 1 }}": (4, "add takes whole numbers, not the text 'worker-07'"),
    "{{ add .Labels 1 }}": (4, "add takes whole numbers, not a map"),
    '{{ atoi "x" }}': (4, "atoi takes a whole number in decimal, not the text 'x'"),
    "{{ add 9223372036854775807 1 }}": (4, "64 bits cannot hold"),
    "{{ div 1 0 }}": (4, "div cannot divide by 0"),
    "{{ mod 1 0 }}": (4, "mod cannot divide by 0"),
    '{{ ternary "a" "b" "x" }}': (4, "ternary takes a truth value, not the text 'x'"),
    "{{ eq 1 1.0 }}": (4, "eq cannot compare the number 1 with the number 1.0"),
    "{{ eq .Labels .Labels }}": (4, "eq cannot compare a map with a map"),
    "{{ lt true false }}": (4, "lt cannot order truth values"),
    "{{ lt true 1 }}": (4, "lt cannot compare the truth value true with the number 1"),
    '{{ substr 20 30 "short" }}': (4, "substr cannot cut from 20 to 5"),
    '{{ trunc 1 "é" }}': (4, "trunc would cut a character in two"),
    '{{ index (splitList "-" "a-b") 5 }}': (4, "index has no member 5: the list has 2"),
    "{{ index .Labels 1 }}": (4, "index takes text, not the number 1"),
    "{{ index .Hostname 1 }}": (4, "index takes a map or a list, not the text 'worker-07'"),
    "{{ len 1 }}": (4, "len takes text, a list or a map, not the number 1"),
    "{{ first .Hostname }}": (4, "first takes a list, not the text 'worker-07'"),
    '{{ printf "%d" .IPv4.Octet4 }}': (4, "printf takes a whole number, not the text '17'"),
    '{{ printf "%s" 5 }}': (4, "printf takes text, not the number 5"),
    '{{ printf "%t" 5 }}': (4, "printf takes a truth value, not the number 5"),
    '{{ printf "%s" }}': (4, "printf has no argument for %s"),
    '{{ printf "a" 1 }}': (4, "printf has 1 more arguments than verbs"),
    '{{ printf "%f" 1.5 }}': (4, "printf has no verb %f"),
    '{{ printf "%.2d" 1 }}': (4, "printf has no verb %.2d"),
    '{{ printf "100%" }}': (4, "printf has no verb %"),
    '{{ printf "%99999d" 1 }}': (4, "more than 4096 characters"),
}


@pytest.mark.parametrize("text", [*REFUSED_SYNTAX, *REFUSED_VALUES])
def test_what_does_not_render_is_refused_by_column_and_reason(text: str) -> None:
    column, reason = {**REFUSED_SYNTAX, **REFUSED_VALUES}[text]
    with pytest.raises(InvalidInput) as caught:
        rendered(text)
    assert reason in str(caught.value)
    assert caught.value.fields["column"] == column
    assert f"column {column}: " in str(caught.value)


@pytest.mark.parametrize("text", REFUSED_SYNTAX)
def test_bad_syntax_is_found_before_there_is_a_node(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse(text)


def test_a_long_template_is_shortened_in_the_message() -> None:
    with pytest.raises(InvalidInput, match=r"the template 'x+\.\.\.', column 1004: ") as caught:
        rendered("x" * 1000 + "{{ .Unknown }}")
    assert len(str(caught.value)) < 350


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{{ .IPv4.Octet4 }}", ("IPv4", "Octet4"), True),
        ("{{ .IPv4.Octet4 }}", ("IPv4",), True),
        ("{{ (.IPv4).Octet4 }}", ("IPv4", "Octet4"), True),
        ('a {{ "x" | printf "%s%s" (add 1 .IPv4.Octet4 | toString) }}', ("IPv4", "Octet4"), True),
        ('{{ (split "." .IPv4.Octet4)._0 }}', ("IPv4", "Octet4"), True),
        ("{{ .IPv4.Address }} .IPv4.Octet4", ("IPv4", "Octet4"), False),
        ('{{ "IPv4" }}', ("IPv4",), False),
    ],
)
def test_a_template_tells_which_variables_it_mentions(
    text: str, path: tuple[str, ...], expected: bool
) -> None:
    assert parse(text).mentions(*path) is expected


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_actions_stays_as_it_is(text: str) -> None:
    assert rendered(text) == text


SIGNS = [*'{}()|.-+ "`\\/*$aA_019\n,:=%', "{{", "}}", "{{- ", " -}}", ".Hostname", ".Labels"]
WORDS = ['"x"', "`y`", "1.5", "-7", "true", *(f"{name} " for name in FUNCTIONS)]
PIECES = st.sampled_from([*SIGNS, *WORDS])

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=20).map("".join)))
def test_nothing_but_invalid_input_is_ever_raised(text: str) -> None:
    try:
        rendered("{{ " + text + " }}")
        rendered(text)
    except InvalidInput as error:
        assert error.fields["column"] >= 1


@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(
        st.one_of(st.text(), st.integers(), FINITE, st.booleans(), st.none(), st.just(["a", "b"])),
        max_size=4,
    ),
)
def test_functions_take_any_value_or_refuse_it(name: str, values: list[object]) -> None:
    variables = Struct(**{f"v{index}": value for index, value in enumerate(values)})
    arguments = " ".join(f".v{index}" for index in range(len(values)))
    try:
        parse(f"{{{{ {name} {arguments} }}}}").render(variables)
    except InvalidInput as error:
        assert error.fields["column"] >= 1
