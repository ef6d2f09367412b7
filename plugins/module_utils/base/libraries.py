# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Third-party libraries of the collection, each imported at its first use.

A run imports only the libraries that it needs, and a missing one is named by MissingLibrary.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
import typing as t

from .errors import MissingLibrary

if t.TYPE_CHECKING:
    import aiohttp
    import fastjsonschema
    import grpc
    import numpy
    import urllib3
    import yaml
    import yarl
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings
    from cryptography import exceptions as cryptography_exceptions
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from ortools.graph.python import min_cost_flow
    from ortools.math_opt import model_pb2
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers import highs_pb2
    from ortools.sat.python import cp_model
    from urllib3.contrib import socks as urllib3_socks


class LazyModule:
    """A module that is imported when one of its names is first used."""

    def __init__(
        self, module: str, library: str | None = None, placeholders: t.Sequence[str] = ()
    ) -> None:
        self._module = module
        self._library = library or module.split(".")[0]
        self._placeholders = placeholders

    def __getattr__(self, name: str) -> t.Any:
        """A name of the module, cached here for its next use.

        Raises MissingLibrary if the module cannot be imported.
        """
        try:
            with _placeholders_of(self._placeholders):
                module = importlib.import_module(self._module)
        except ImportError as error:
            raise MissingLibrary(self._library, str(error)) from error
        value = self.__dict__[name] = getattr(module, name)
        return value


class _Placeholder(types.ModuleType):
    """A module each of whose names is an empty class of its own."""

    def __getattr__(self, name: str) -> t.Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.__dict__[name] = type(name, (), {})
        return value


@contextlib.contextmanager
def _placeholders_of(names: t.Sequence[str]) -> t.Iterator[None]:
    """Let an import within find a placeholder for each of these modules, unless it is loaded."""
    missing = [name for name in names if name not in sys.modules]
    sys.modules.update((name, _Placeholder(name)) for name in missing)
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


if not t.TYPE_CHECKING:
    aiohttp = LazyModule("aiohttp")
    cel = LazyModule("cel_expr_python.cel", "cel-expr-python")
    # CP-SAT's interface names pandas only in types and in functions for series of variables, which
    # nothing here calls. Without the import it starts five times as fast, in half the memory.
    cp_model = LazyModule("ortools.sat.python.cp_model", placeholders=("pandas",))
    cryptography_exceptions = LazyModule("cryptography.exceptions")
    ext_bindings = LazyModule("cel_expr_python.ext.ext_bindings", "cel-expr-python")
    ext_math = LazyModule("cel_expr_python.ext.ext_math", "cel-expr-python")
    ext_optional = LazyModule("cel_expr_python.ext.ext_optional", "cel-expr-python")
    ext_strings = LazyModule("cel_expr_python.ext.ext_strings", "cel-expr-python")
    fastjsonschema = LazyModule("fastjsonschema")
    grpc = LazyModule("grpc", "grpcio")
    hashes = LazyModule("cryptography.hazmat.primitives.hashes")
    highs_pb2 = LazyModule("ortools.math_opt.solvers.highs_pb2")
    mathopt = LazyModule("ortools.math_opt.python.mathopt")
    min_cost_flow = LazyModule("ortools.graph.python.min_cost_flow")
    model_pb2 = LazyModule("ortools.math_opt.model_pb2")
    numpy = LazyModule("numpy")
    rsa = LazyModule("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = LazyModule("cryptography.hazmat.primitives.serialization")
    urllib3 = LazyModule("urllib3")
    urllib3_socks = LazyModule("urllib3.contrib.socks", "PySocks")
    x509 = LazyModule("cryptography.x509")
    yaml = LazyModule("yaml", "PyYAML")
    yarl = LazyModule("yarl", "aiohttp")

__all__ = [
    "LazyModule",
    "aiohttp",
    "cel",
    "cp_model",
    "cryptography_exceptions",
    "ext_bindings",
    "ext_math",
    "ext_optional",
    "ext_strings",
    "fastjsonschema",
    "grpc",
    "hashes",
    "highs_pb2",
    "mathopt",
    "min_cost_flow",
    "model_pb2",
    "numpy",
    "rsa",
    "serialization",
    "urllib3",
    "urllib3_socks",
    "x509",
    "yaml",
    "yarl",
]
