"""The identity of a run: everything that decides its numbers. Only the same run can be resumed."""

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import kernels
from ..compressors.own import own_compressors
from ..config import Entry, RunConfig
from ..errors import UserError
from ..files import require_regular
from ..rundir.run_json import require_facts
from ..user_classes import call_user_code, is_custom
from .channel import channel_of

Identity = dict[str, Any]
MODELS = "mpi_gt.problems.models.base"
ADDED = ("data",)
"""The names that former versions did not record: their runs can be resumed without them."""
FORMER = {"reproducible": False, "budget": None, "channel": None}
"""The values that a run of a former version had, which did not record such names."""


def identify(config: RunConfig, network: str, facts: dict[str, Any]) -> tuple[str, Path | None]:
    """Add the identity to `facts`; return its hash and the absolute path of the run directory.

    `network` is the digest of the network.
    Called on root only. Without a run directory it returns an empty hash and None. Raises UserError
    if the run to be resumed in the directory is another one.
    """
    if config.out is None:
        return "", None
    identity = identity_of(config, network, config.entries())
    if config.resume:
        identity = require_same(config, identity)
    facts["identity"] = identity
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return digest, Path(os.path.abspath(config.out))  # noqa: PTH100 (as root sees it, unresolved)


def identity_of(config: RunConfig, network: str, entries: Sequence[Entry]) -> Identity:
    """Return all that decides the numbers of a run, by name; `network` is the network's digest.

    Called on root only: other hosts may not see the files.
    """
    name, kind, options = config.parse_problem()
    files = [value for value in options.values() if isinstance(value, str) and _is_file(value)]
    files += [] if config.x1 is None else [config.x1]
    sources = [kind] if is_custom(config.problem) else []
    sources += [type(entry.algorithm) for entry in entries if entry.custom]
    sources += own_compressors(getattr(entry.algorithm, "compressor", None) for entry in entries)
    return {
        "ranks": config.n,
        "graph and weights": network,
        "problem": {name: {key: str(value) for key, value in sorted(options.items())}},
        "algorithm": {entry.label: _parameters(entry) for entry in entries},
        "files": {
            **{Path(file).name: _sha256(Path(file)) for file in files},
            **dict(map(_source, sources)),
        },
        "dtype": config.dtype,
        "seeds": [config.seed, config.seeds],
        "log-every": config.log_every if config.budget else config.log_interval,
        "budget": config.budget,
        "channel": _channel(config),
        "stacked": config.stacked,
        "kernels": kernels.NAME,  # some kernels round differently from numpy in the last place
        "reproducible": config.reproducible,
        **_data(name, kind, options),
        **_model(kind, options),
    }


def _channel(config: RunConfig) -> dict[str, str] | None:
    """Return the options of a channel that changes anything."""
    channel = channel_of(config.channel)
    return None if channel is None else {k: str(v) for k, v in dataclasses.asdict(channel).items()}


def _data(name: str, kind: Any, options: dict[str, Any]) -> Identity:
    """Return the digest of the problem's dataset, if it has one."""
    if not hasattr(kind, "data_sha256"):
        return {}
    digest = call_user_code(f"problem {name}: data_sha256", lambda: kind.data_sha256(**options))
    return {} if digest is None else {"data": str(digest)}


def _model(kind: Any, options: dict[str, Any]) -> Identity:
    """Return the user's model of a problem of the package, if it has one: source and versions."""
    models = sys.modules.get(MODELS)  # loaded for such problems only, and slow to load
    is_model = models is not None and issubclass(kind, models.ModelProblem)
    return {"model": kind.identity(**options)} if is_model else {}


def _parameters(entry: Entry) -> dict[str, str]:
    algorithm: Any = entry.algorithm
    if not dataclasses.is_dataclass(algorithm):
        # a user's class: its label and the hash of its file cover the other parameters
        return {"lr": str(entry.lr)}
    return {key: str(value) for key, value in sorted(vars(algorithm).items())}


def _source(user_class: type) -> tuple[str, str]:
    """Return the name and the sha256 of the file of a class, or of its code in a notebook."""
    file = getattr(sys.modules.get(user_class.__module__), "__file__", None)
    if file is not None:
        return Path(file).name, _sha256(Path(file))
    digest = hashlib.sha256()
    for name, part in sorted(vars(user_class).items()):
        with contextlib.suppress(OSError, TypeError):  # no function, or made without a source
            digest.update(f"{name} {inspect.getsource(part)}".encode())
    return user_class.__name__, digest.hexdigest()


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    require_regular(path)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()


def require_same(config: RunConfig, identity: Identity) -> Identity:
    """Return the identity as the run in the directory records it, without names it does not know.

    Raises UserError, naming the difference, unless it is the same run.
    """
    before = require_facts(Path(str(config.out))).get("identity")
    if before is None:
        return identity  # the earlier run died before its ranks were up
    # the parts of a checkpoint hold the hash of the identity as it was
    known = {name: now for name, now in identity.items() if name in before or name not in ADDED}
    known["algorithm"] = _without_new_options(config, known["algorithm"], before.get("algorithm"))
    for name, now in known.items():
        then = before.get(name, FORMER.get(name))
        if then != now:
            raise UserError(
                f"{config.out} holds another run: its {name} was {_shown(then)}, now it is "
                f"{_shown(now)}; give another --out, or --overwrite without --resume"
            )
    return {name: now for name, now in known.items() if name in before or name not in FORMER}


def _without_new_options(config: RunConfig, now: Identity, then: Any) -> Identity:
    """Return the parameters without options that are new since `then` and have their defaults."""
    kept = {}
    for entry in config.entries():
        recorded = then.get(entry.label) if isinstance(then, dict) else None
        kept[entry.label] = {
            key: value
            for key, value in now[entry.label].items()
            if not isinstance(recorded, dict)
            or key in recorded
            or value != str(getattr(type(entry.algorithm), key, None))
        }
    return kept


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) < 300 else f"{text[:300]}..."
