# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TLS server that answers nothing and records every byte received after the handshake."""

from __future__ import annotations

import contextlib
import socket
import threading
import typing as t

from support.certificates import Certificate


class RecordingServer:
    """Context manager; after it, ``received`` has each connection's bytes, decrypted."""

    def __init__(self, certificate: Certificate) -> None:
        self.received: list[bytes] = []
        self._context = certificate.server_context()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> t.Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                with connection:
                    self.received.append(self._record(connection))

    def _record(self, connection: socket.socket) -> bytes:
        recorded = b""
        with contextlib.suppress(OSError), self._context.wrap_socket(connection, True) as secure:
            secure.settimeout(5)
            while chunk := secure.recv(4096):
                recorded += chunk
        return recorded
