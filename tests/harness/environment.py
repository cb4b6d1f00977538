"""The environment of every program that the harness starts: nothing of the developer's own leaks in.

In: nothing but the interpreter that runs. Out: a mapping. Not here: Airflow's settings (``airflow_stack``).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# What a program needs to find its libraries, its language and its temporary files. Everything else stays out:
# a developer's own Airflow settings, Google credentials or proxies would make another run of the same code.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SSL_CERT_FILE")

LOOPBACK = "127.0.0.1"


def base_environment(root: Path) -> dict[str, str]:
    """Return a small environment, with this interpreter's programs first on the path.

    :param root: a directory of the harness; an empty folder in it stands in for Google's configuration, so
        that no one's real credentials are found.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    google_config = root / "no-google-config"
    google_config.mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "CLOUDSDK_CONFIG": str(google_config),
        "NO_GCE_CHECK": "true",
        "NO_PROXY": f"{LOOPBACK},localhost",
        "no_proxy": f"{LOOPBACK},localhost",
    }
