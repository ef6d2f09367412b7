# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of processors and servers by their makers' schemes."""

from __future__ import annotations

import random

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.published.curves import rows_of, table
from ansible_collections.wattwise.kube.plugins.module_utils.published.processors import (
    is_model,
    maker_of,
    processor_name,
    series_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.published.servers import (
    series_of_server,
)
from support.examples import each_seed

# Generations of Xeon by E5 v1 (1) to Xeon 6 (10), and of EPYC by Zen.
PROCESSORS = [
    *[
        (f"AMD EPYC 7{code} 64-Core Processor", "EPYC", 1)
        for code in ("601", "351P", "251", "551P")
    ],
    *[
        (f"AMD EPYC 7{code} 64-Core Processor", "EPYC", 2)
        for code in ("V12", "F52", "F72", "F32", "H12", "B12", "R32", "K62", "742", "702P", "C42")
    ],
    *[
        (f"AMD EPYC 7{code} 64-Core Processor", "EPYC", 3)
        for code in ("763", "713P", "773X", "5F3", "3F3", "2F3", "V13", "V73X", "B13", "J13", "R13")
    ],
    *[
        (f"AMD EPYC {code} 96-Core Processor", "EPYC", 4)
        for code in ("9654", "9174F", "9684X", "9754S", "8534PN", "9R14", "9V74", "9V33X", "9B14")
    ],
    *[
        (f"AMD EPYC {code} 128-Core Processor", "EPYC", 5)
        for code in ("9755", "9575F", "9965", "9R45", "9V45", "9655P", "4585PX", "9135")
    ],
    ("AMD EPYC Embedded 7292P 16-Core Processor", "EPYC", 2),
    ("EPYC7742", "EPYC", 2),
    *[
        (f"Intel(R) Xeon(R) CPU {code} @ 2.60GHz", "Xeon", generation)
        for code, generation in (
            *(("E5-2670 0", 1), ("E5-2650L 0", 1), ("E5-4650 0", 1), ("E5-2697 v2", 2)),
            *(("E5-2698 v3", 3), ("E5-2686 v4", 4), ("E7- 4870 ", 1), ("E7-8890 v3", 3)),
        )
    ],
    *[
        (f"Intel(R) Xeon(R) {code} CPU @ 2.10GHz", "Xeon", generation)
        for code, generation in (
            *(("Platinum 8175M", 5), ("Gold 5117", 5), ("Silver 4114", 5), ("Bronze 3106", 5)),
            *(("Platinum 8259CL", 6), ("Gold 6230R", 6), ("Gold 6252N", 6), ("Silver 4210", 6)),
            *(("Platinum 8375C", 7), ("Gold 6338N", 7), ("Gold 6314U", 7), ("8380HL", 7)),
            *(("Platinum 8480+", 8), ("Gold 6438Y+", 8), ("Max 9480", 8), ("8481C", 8)),
            *(("Gold 6554S", 9), ("Platinum 8592+", 9), ("Silver 4514Y", 9), ("6548Y+", 9)),
            *(("W-2145", 5), ("W-3275M", 6), ("W-3375", 7), ("w9-3495X", 8), ("w7-2595X", 9)),
        )
    ],
    *[
        (f"Intel(R) Xeon(R) {code}", "Xeon", 10)
        for code in (
            *("6972P", "6780E", "6960P", "6731E-B", "6740P-B", "6 6787P", "6 Processor 6747P"),
            *("6990E+", "6505P", "6726P-B"),
        )
    ],
    *[
        (f"Intel(R) Xeon(R) {code}", "Xeon E", 1)
        for code in ("CPU E3-1270 v5 @ 3.60GHz", "E-2388G", "E-2488", "6369P", "W-1290P")
    ],
    ("Intel(R) Xeon(R) CPU D-1541 @ 2.10GHz", "Xeon D", 1),
    ("Intel(R) Xeon(R) D-2146NT CPU @ 2.30GHz", "Xeon D", 2),
    ("Intel Xeon D-2776NT", "Xeon D", 3),
    ("Intel(R) Xeon(R) D-2899NT", "Xeon D", 4),
    ("Ampere(R) Altra(R) Processor Q80-30", "Arm", 1),
    ("AmpereOne A192-32X", "Arm", 2),
]


@pytest.mark.parametrize(("name", "line", "generation"), PROCESSORS)
def test_processors(name: str, line: str, generation: int) -> None:
    found = series_of(processor_name(name))
    assert found is not None
    assert (found.line, found.generation) == (line, generation)


@each_seed(40)
def test_firmware_s_decoration_changes_nothing(seed: int) -> None:
    chance = random.Random(seed)
    name, line, generation = chance.choice(PROCESSORS)
    plain = name.replace("(R)", "").replace(" CPU", "")
    variants = (name.upper(), name.lower(), f"  {name}   ", plain, name.replace("(R)", "®"))
    found = series_of(processor_name(chance.choice(variants)))
    assert found is not None
    assert (found.line, found.generation) == (line, generation)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "intel_xeon_e5_2670"),
        ("Xeon E5-2660 v2", "intel_xeon_e5_2660v2"),
        ("EPYC 7742", "amd_epyc_7742"),
        ("2 x AMD EPYC 7742 64 Cores 2.25 GHz", "amd_epyc_7742"),
        ("AMD EPYC 9654 96-Core Processor", "amd_epyc_9654"),
        ("Intel(R) Xeon(R) 8480+", "intel_xeon_8480+"),
        ("Intel Xeon Platinum 8380 40C 270W 2.3GHz Processor", "intel_xeon_platinum_8380"),
        ("Intel Xeon-Platinum 8380 (2.3GHz/40-core/270W) Processor", "intel_xeon_platinum_8380"),
        ("AMD EPYC 7742 64C 225W 2.25GHz", "amd_epyc_7742"),
    ],
)
def test_measured_processors_are_found(name: str, row: str) -> None:
    assert {one.processor for one in rows_of(name)} == {row}


def test_every_row_is_found_by_its_own_name() -> None:
    for row in table():
        if is_model(row.processor):
            assert row in rows_of(row.processor)


@pytest.mark.parametrize(
    ("name", "maker", "tells_a_model"),
    [
        ("Intel Xeon 5120", "Intel", True),
        # Of 2010, as the table has it.
        ("Intel Xeon 5675", "Intel", True),
        ("Hygon C86 7185 32-core Processor", "another", True),
        ("NVIDIA Grace CPU Superchip", "another", False),
        ("AMD Eng Sample: 100-000000053-04_32/20_N", "AMD", False),
        ("Genuine Intel(R) CPU 0000%@", "Intel", False),
        ("Intel(R) Xeon(R) Processor", "Intel", False),
        # Its number is not of the Scalable scheme.
        ("Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz", "Intel", True),
        ("Central Processor", "", False),
    ],
)
def test_names_without_a_series(name: str, maker: str, tells_a_model: bool) -> None:
    found = processor_name(name)
    assert series_of(found) is None
    assert (maker_of(found), is_model(found)) == (maker, tells_a_model)


# Generations of processors by manufacturer, line and model.
SERVERS: list[tuple[str, str, str, tuple[int, ...]]] = [
    *[
        ("HPE", f"ProLiant {model} Gen10", "Xeon", (5, 6))
        for model in ("XL170r", "DL380", "BL460c")
    ],
    *[("HPE", f"ProLiant {model} Gen10", "Xeon", (5, 6)) for model in ("XL230k", "ML350", "DL560")],
    ("HP", "ProLiant DL380p Gen8", "Xeon", (1, 2)),
    ("HP", "ProLiant DL360e Gen8", "Xeon", (1, 2)),
    ("HPE", "ProLiant XL450 Gen9", "Xeon", (3, 4)),
    ("HPE", "Synergy 480 Gen9", "Xeon", (3, 4)),
    ("HPE", "Synergy 480 Gen10", "Xeon", (5, 6)),
    ("HPE", "Synergy 480 Gen10 Plus", "Xeon", (7,)),
    ("HPE", "ProLiant DL380 Gen10+", "Xeon", (7,)),
    ("HPE", "ProLiant XL225n Gen10 Plus", "EPYC", (2, 3)),
    ("HPE", "ProLiant DL380a Gen11", "Xeon", (8, 9)),
    ("HPE", "ProLiant Compute DL380 Gen12", "Xeon", (10,)),
    ("HPE", "ProLiant RL300 Gen11", "Arm", (1,)),
    ("HPE", "ProLiant DL20 Gen10", "Xeon E", (1,)),
    *[("Dell Inc.", f"PowerEdge {model}", "Xeon", (5, 6)) for model in ("FC640", "M640", "MX740c")],
    *[
        ("Dell Inc.", f"PowerEdge {model}", "Xeon", (5, 6))
        for model in ("C6420", "R740xd2", "T640")
    ],
    ("Dell Inc.", "PowerEdge FC630", "Xeon", (3, 4)),
    ("Dell Inc.", "R720", "Xeon", (1, 2)),
    ("Dell Inc.", "PowerEdge R750xs", "Xeon", (7,)),
    ("Dell Inc.", "PowerEdge XE9680", "Xeon", (8, 9)),
    ("Dell Inc.", "PowerEdge R6525", "EPYC", (2, 3)),
    ("Dell Inc.", "PowerEdge R7725", "EPYC", (5,)),
    ("Dell Inc.", "PowerEdge R340", "Xeon E", (1,)),
    ("Lenovo", "ThinkSystem SR650", "Xeon", (5, 6)),
    ("LENOVO", "ThinkSystem SR650V3", "Xeon", (8, 9)),
    ("Lenovo", "ThinkSystem SD650-N V2", "Xeon", (7,)),
    ("Lenovo", "ThinkSystem SR685a V3", "EPYC", (4, 5)),
    ("Lenovo", "ThinkSystem SR250", "Xeon E", (1,)),
    ("LENOVO", "System x3650 M5: -[8871AC1]-", "Xeon", (3, 4)),
    ("Supermicro", "SYS-6028R-TRT", "Xeon", (3, 4)),
    ("Supermicro", "SYS-1029U-TR4", "Xeon", (5, 6)),
    ("Supermicro", "SYS-220U-TNR", "Xeon", (7,)),
    ("Supermicro", "SYS-221H-TNR", "Xeon", (8, 9)),
    ("Supermicro", "AS -1114S-WN10RT", "EPYC", (2, 3)),
    ("Supermicro", "AS-2025HS-TNR", "EPYC", (4, 5)),
    ("Supermicro", "X11DPU", "Xeon", (5, 6)),
    ("FUJITSU", "PRIMERGY RX2540 M5", "Xeon", (6,)),
    ("FUJITSU", "PRIMERGY RX2450 M1", "EPYC", (2, 3)),
    ("FUJITSU", "PRIMERGY CX2550 M5", "Xeon", (6,)),
    ("FUJITSU", "PRIMERGY RX1330 M4", "Xeon E", (1,)),
    ("Cisco Systems Inc", "UCSC-C220-M5SX", "Xeon", (5, 6)),
    ("Cisco Systems Inc", "UCSX-210C-M6", "Xeon", (7,)),
    ("Cisco Systems Inc", "UCSC-C245-M6SX", "EPYC", (2, 3)),
]


@pytest.mark.parametrize(("manufacturer", "model", "line", "generations"), SERVERS)
def test_servers(manufacturer: str, model: str, line: str, generations: tuple[int, ...]) -> None:
    found = series_of_server(manufacturer, model)
    assert {one.line for one in found} == {line}
    assert tuple(one.generation for one in found) == generations


@pytest.mark.parametrize(
    ("manufacturer", "model"),
    [
        ("Dell Inc.", "PowerEdge MX7000"),
        ("HPE", "Synergy 12000 Frame"),
        ("HPE", "ProLiant DL384 Gen12"),
        ("HP", "ProLiant DL385p Gen8"),
        ("Contoso", "R650"),
        ("", ""),
    ],
)
def test_servers_of_other_processors_have_no_series(manufacturer: str, model: str) -> None:
    assert series_of_server(manufacturer, model) == ()
