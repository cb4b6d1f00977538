"""A JobService of the tests' own: plain or with TLS, that keeps every request and the metadata it came with.

The emulator is the better stand-in for the service; this one is for what an emulator does not do: TLS,
credentials, and a look at the raw request.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import google.cloud.aiplatform_v1 as untyped_api
import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from google.protobuf import empty_pb2

api: Any = untyped_api
_SERVICE = "/google.cloud.aiplatform.v1.JobService/"


@dataclass
class Wire:
    """A running server, and what it was sent.

    :param target: ``localhost:port``.
    :param certificate: what a client must trust; None without TLS.
    """

    target: str = ""
    certificate: bytes | None = None
    requests: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)

    def methods(self) -> list[str]:
        return [method for method, _, _ in self.requests]


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix(_SERVICE)
        request_type = getattr(api, f"{method}Request")

        def answer(raw: bytes, context: Any) -> bytes:
            metadata = {key: str(value) for key, value in context.invocation_metadata()}
            request = request_type.deserialize(raw)
            self.wire.requests.append((method, request, metadata))
            return _reply(method, request)

        return grpc.unary_unary_rpc_method_handler(answer)


def _reply(method: str, request: Any) -> bytes:
    kind = "CustomJob" if "CustomJob" in method else "HyperparameterTuningJob"
    message = getattr(api, kind)
    if method.startswith("Cancel"):
        return bytes(empty_pb2.Empty().SerializeToString())
    if method.startswith("List"):
        collection = "custom_jobs" if kind == "CustomJob" else "hyperparameter_tuning_jobs"
        jobs = [message(display_name=f"{request.page_token or 'first'}-{number}") for number in range(2)]
        following = {"": "second", "second": ""}[request.page_token]
        reply_type = getattr(api, f"List{kind}sResponse")
        return bytes(reply_type.serialize(reply_type(**{collection: jobs}, next_page_token=following)))
    if method.startswith("Create"):
        job = request.custom_job if kind == "CustomJob" else request.hyperparameter_tuning_job
        name = f"{request.parent}/{kind[0].lower()}{kind[1:]}s/7"
        return bytes(message.serialize(message(job, name=name)))
    return bytes(message.serialize(message(name=request.name, state=3)))


@contextmanager
def serve(*, tls: bool = False) -> Iterator[Wire]:
    wire = Wire()
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=(_Handler(wire),))
    if tls:
        key, wire.certificate = _certificate()
        port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, wire.certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    wire.target = f"localhost:{port}" if tls else f"127.0.0.1:{port}"
    server.start()
    try:
        yield wire
    finally:
        server.stop(0).wait()


def _certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)
