"""A client of a running Airflow's public REST API, with the waiting that tests and the demo need.

In: the base URL and a user. Out: plain dictionaries as the API gives them. Not here: any process
(``airflow_stack``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from tests.harness.waiting import wait_until

FINISHED = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})


class AirflowApi:
    """The REST API as one user sees it.

    :param base_url: ``http://127.0.0.1:PORT``.
    :param username: a user of the simple auth manager.
    :param password: the user's password.
    """

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self.base_url = base_url
        self._login = {"username": username, "password": password}
        # trust_env=False: a developer's proxy must not see (or break) a call to the loopback interface.
        self._http = httpx.Client(base_url=base_url, timeout=60.0, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> dict[str, Any]:
        """Return the health of every component; needs no login."""
        answer = self._http.get("/api/v2/monitor/health")
        answer.raise_for_status()
        return cast("dict[str, Any]", answer.json())

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Make one call below ``/api/v2`` and return its JSON (``None`` for an empty body).

        :raises httpx.HTTPStatusError: with the body of the answer in its text.
        """
        if "Authorization" not in self._http.headers:
            self._log_in()
        answer = self._send(method, path, **options)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._log_in()
            answer = self._send(method, path, **options)
        if answer.is_error:
            raise httpx.HTTPStatusError(
                f"{method} {path}: {answer.status_code} {answer.text}",
                request=answer.request,
                response=answer,
            )
        return answer.json() if answer.content else None

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG has been parsed and stored."""
        try:
            self.call("GET", f"/dags/{dag_id}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def import_errors(self) -> list[dict[str, Any]]:
        """Return what could not be parsed."""
        return cast("list[dict[str, Any]]", self.call("GET", "/importErrors")["import_errors"])

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None, *, run_id: str | None = None) -> str:
        """Start a run and return its id."""
        body: dict[str, Any] = {"logical_date": None, "conf": conf or {}}
        if run_id:
            body["dag_run_id"] = run_id
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """Return one run."""
        return cast("dict[str, Any]", self.call("GET", _run(dag_id, run_id)))

    def task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of one run, all pages of them."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.call(
                "GET",
                f"{_run(dag_id, run_id)}/taskInstances",
                params={"limit": 100, "offset": len(found), "order_by": "map_index"},
            )
            found.extend(page["task_instances"])
            if len(found) >= page["total_entries"] or not page["task_instances"]:
                return found

    def count_task_instances(self, dag_id: str, run_id: str, state: str) -> int:
        """Return how many task instances of one run are in a state."""
        params = {"limit": 1, "state": state}
        return int(self.call("GET", f"{_run(dag_id, run_id)}/taskInstances", params=params)["total_entries"])

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """Return one task instance."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}"
        return cast("dict[str, Any]", self.call("GET", path if map_index < 0 else f"{path}/{map_index}"))

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1) -> str:
        """Return the log of one try as text, one event a line, the trigger's part included."""
        content = self.call(
            "GET",
            f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}",
            params={"full_content": "true", "map_index": map_index},
        )["content"]
        return "\n".join(
            str(each.get("event", each)) if isinstance(each, dict) else str(each) for each in content
        )

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Return an XCom as a Python value; ``None`` when it is not there."""
        try:
            answer = self.call(
                "GET",
                f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{key}",
                params={"deserialize": "false", "stringify": "false"},
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return None
            raise
        return answer["value"]

    def clear(self, dag_id: str, run_id: str, task_ids: Collection[str], *, downstream: bool = False) -> None:
        """Clear task instances, as a user does to run them again."""
        self.call(
            "POST",
            f"/dags/{dag_id}/clearTaskInstances",
            json={
                "dry_run": False,
                "dag_run_id": run_id,
                "task_ids": list(task_ids),
                "only_failed": False,
                "include_downstream": downstream,
                "reset_dag_runs": True,
            },
        )

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set a task instance to ``success`` or ``failed`` by hand."""
        self.call("PATCH", f"{_run(dag_id, run_id)}/taskInstances/{task_id}", json={"new_state": state})

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Set a whole run to ``success``, ``failed`` or ``queued`` by hand."""
        self.call("PATCH", _run(dag_id, run_id), json={"state": state})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete an ended run; a running one answers 409."""
        self.call("DELETE", _run(dag_id, run_id))

    def wait_for_run(
        self,
        dag_id: str,
        run_id: str,
        *,
        seconds: float = 180.0,
        every: float = 0.5,
        watch: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Wait until a run has ended and return it.

        :param watch: called before each look; may raise to end the wait.
        """

        def ended() -> dict[str, Any] | None:
            run = self.run(dag_id, run_id)
            return run if run["state"] in FINISHED else None

        what = f"run {run_id} of {dag_id} to end"
        return wait_until(ended, what, seconds=seconds, every=every, watch=watch)

    def wait_for_task(
        self, dag_id: str, run_id: str, task_id: str, states: Collection[str], *, seconds: float = 120.0
    ) -> dict[str, Any]:
        """Wait until a task instance is in one of the states and return it."""

        def reached() -> dict[str, Any] | None:
            found = self.task_instance(dag_id, run_id, task_id)
            return found if found["state"] in states else None

        return wait_until(reached, f"{dag_id}.{task_id} to be {' or '.join(states)}", seconds=seconds)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        # A busy machine may answer late. Only a question can be asked again: a trigger would start a second run.
        attempts = 3 if method == "GET" else 1
        for attempt in Retrying(
            stop=stop_after_attempt(attempts),
            retry=retry_if_exception_type(httpx.TransportError),
            reraise=True,
        ):
            with attempt:
                return self._http.request(method, f"/api/v2{path}", **options)
        raise AssertionError("tenacity raises the last error")

    def _log_in(self) -> None:
        answer = self._http.post("/auth/token", json=self._login)
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _run(dag_id: str, run_id: str) -> str:
    return f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"
