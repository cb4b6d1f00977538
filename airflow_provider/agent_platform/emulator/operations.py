"""Long-running operations: what Delete answers with.

In: the name of a resource that was deleted. Out: operations that are done at once, and stay readable. Bounded:
the oldest are forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from google.cloud.aiplatform_v1.types import DeleteOperationMetadata
from google.longrunning.operations_pb2 import Operation  # type: ignore[import-untyped]  # ships no types
from google.protobuf import empty_pb2

from airflow_provider.agent_platform.emulator.errors import not_found
from airflow_provider.agent_platform.emulator.resources import Parent, new_id

MAX_OPERATIONS = 10_000


class Operations:
    """All operations, newest last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: OrderedDict[str, Operation] = OrderedDict()

    def done(self, parent: Parent, seconds: float) -> Operation:
        """An operation that has succeeded with an empty answer.

        :param seconds: now, since the epoch.
        """
        name = f"projects/{parent.project}/locations/{parent.region}/operations/{new_id()}"
        metadata = DeleteOperationMetadata.pb()()
        for stamp in (metadata.generic_metadata.create_time, metadata.generic_metadata.update_time):
            stamp.FromNanoseconds(int(seconds * 1e9))
        operation = Operation(name=name, done=True)
        operation.metadata.Pack(metadata)
        operation.response.Pack(empty_pb2.Empty())
        with self._lock:
            self._operations[name] = operation
            while len(self._operations) > MAX_OPERATIONS:
                self._operations.popitem(last=False)
        return operation

    def get(self, name: str) -> Operation:
        """One by its name.

        :raises ApiError: NOT_FOUND.
        """
        with self._lock:
            operation = self._operations.get(name)
        if operation is None:
            raise not_found(f"Operation {name} does not exist.")
        return operation

    def delete(self, name: str) -> None:
        """Forget one.

        :raises ApiError: NOT_FOUND.
        """
        self.get(name)
        with self._lock:
            self._operations.pop(name, None)

    def list(self, parent: str) -> list[Operation]:
        """All below a parent (``projects/<number>/locations/<region>``), newest first."""
        with self._lock:
            return [one for name, one in reversed(self._operations.items()) if name.startswith(f"{parent}/")]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._operations.clear()
