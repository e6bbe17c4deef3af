"""The page of `mpi-gt watch --web`: the report page about a run that goes on."""

import getpass
import gzip
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..files import with_schema
from .directories import files_of, read_directories
from .page import fill_page, page_content, policy_of, read_bundle
from .server import HERE, Server

BUDGET = 40_000  # numbers of the curves; they travel with each change
SHARE = 4  # times as long as it takes to read the run, it is left alone
LINGER = 3.0  # seconds for a browser to come for the last state
LAST_ANSWER = 10.0  # seconds for the last answers to be sent


class Look(NamedTuple):
    """The state of a run at one moment: in one line, in few words, and whether it is over."""

    said: str
    title: str
    over: bool


def follow(
    path: Path, port: int, every: float, look: Callable[[], Look], show: Callable[[str], None]
) -> None:
    """Serve the page about a run until the run is over or Ctrl-C is pressed.

    `look` reads the state of the run, and `show` gets what the user is to read.
    """
    latest = look()
    if latest.over:
        show(f"{latest.said}: there is nothing to follow; its page: mpi-gt report {path}")
        return
    bundle = read_bundle()
    policy = policy_of(bundle, "'self'")
    page = fill_page("", {"live": True, "figures": {}, "curves": []}, bundle, "waiting", policy)
    server = Server(port, _compressed(page), policy)
    with server.running():
        show(_directions(server, path))
        try:
            latest = _publish_changes(server, path, every, look, latest)
        except KeyboardInterrupt:
            _close(server, path, latest, "ended", 0.2, 1.0)
            return
        _close(server, path, latest, "over", LINGER, LAST_ANSWER)
    show(f"{latest.said}; its page: mpi-gt report {path}")


def _publish_changes(
    server: Server, path: Path, every: float, look: Callable[[], Look], latest: Look
) -> Look:
    """Publish the state of a run whenever it changes; return the look at which it is over."""
    seen: Any = None
    start = time.monotonic()
    while not latest.over:
        now = (latest.said, files_of(path))
        if now != seen:
            server.state.publish(_state(server, path, latest, "live"))
            seen = now
        time.sleep(max(every, SHARE * (time.monotonic() - start)))
        start = time.monotonic()
        latest = look()
    return latest


def _close(
    server: Server, path: Path, latest: Look, state: str, linger: float, most: float
) -> None:
    """Publish the last state, and wait until the browsers have it."""
    server.state.publish(_state(server, path, latest, state))
    time.sleep(linger)
    end = time.monotonic() + most
    while not server.is_idle and time.monotonic() < end:
        time.sleep(0.05)


def _state(server: Server, path: Path, look: Look, state: str) -> bytes:
    """Return the sections and data of the page, in JSON, compressed."""
    said = {"live": "", "over": "the last state", "ended": "mpi-gt watch was ended"}[state]
    try:
        sections, data = page_content(read_directories([path]), BUDGET)
    except UserError as error:  # nothing is there yet, or no longer
        sections, data = {}, {"figures": {}, "curves": []}
        said = str(error)
    told = with_schema(
        "live",
        {
            "version": server.state.next_version,
            "state": state,
            "said": " · ".join(filter(None, [look.said, said])),
            "title": f"{look.title} - mpi-gt",
            "sections": list(sections.items()),
            "page": data,
        },
    )
    return _compressed(json.dumps(told, separators=(",", ":"), allow_nan=False))


def _compressed(text: str) -> bytes:
    return gzip.compress(text.encode("utf-8", errors="replace"), compresslevel=3)


def _directions(server: Server, path: Path) -> str:
    """Return what to type and to open, here and on the user's own computer."""
    try:
        user = f"{getpass.getuser()}@"
    except (OSError, KeyError):  # a user without a name
        user = ""
    tunnel = f"ssh -N -L {server.port}:{HERE}:{server.port} {user}{socket.gethostname()}"
    return (
        f"the page about {path}, for whoever has this address:\n"
        f"  {server.address}\n"
        f"if your browser is on another computer, type this there first, then open the address:\n"
        f"  {tunnel}\n"
        f"it ends with the run; Ctrl-C ends it now, and not the run"
    )
