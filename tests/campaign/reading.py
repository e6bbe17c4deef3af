"""Cases with files: users' files that cannot be used, and our own directories, damaged."""

import json
from collections.abc import Iterator
from pathlib import Path

from campaign.case import ANY_END, Case, rotate
from campaign.files import CONTENTS, DEVICES, NOT_FILES, VALUES, Damage, keys_of, useless

RUN = ("run", "--stacked", "-n", "4", "--iterations", "5")
_PREDICT = ("predict", "-n", "4", "--compute", "1ms")
_MACHINE = ("--latency", "2us", "--bandwidth", "12GB/s")
READERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (".npy", (*RUN, "--x1=")),
    (".npy", (*RUN, "--weights=")),
    (".csv", (*RUN, "--weights=")),
    (".npy", ("graph", "ring", "-n", "4", "--weights=")),
    (".csv", ("theory", "-n", "4", "--weights=")),
    (".npz", (*RUN, "--problem=huber:data=")),
    (".npz", (*RUN, "--problem=softmax:data=")),
    (".libsvm", (*RUN, "--problem=softmax:features=3,libsvm=")),
    (".txt", (*RUN, "--graph=")),
    (".txt", ("graph", "-n", "4", "")),
    (".graphml", (*RUN, "--graph=")),
    (".graphml", ("graph", "-n", "4", "")),
    (".toml", ("run", "--stacked", "-n", "4", "")),
    (".toml", ("compare", "--stacked", "-n", "4", "")),
    (".toml", ("theory", "-n", "4", "")),
    (".hosts", ("run", "-n", "2", "--iterations", "5", "--hostfile=")),
    (".hosts", ("doctor", "-n", "2", "--hostfile=")),
)
"""Commands, by the kind of file that they read, to whose last word its name is added."""
USABLE = {
    ("theory", "reserved.toml"),
    ("theory", "points.toml"),
    ("theory", "empty-out.toml"),
    ("theory", "null.toml"),
    ("compare", "points.toml"),
}
STRICT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("bench", "bench.json", (*_PREDICT, "--bench", "bench")),
    ("profile", "profile.json", ("predict", "-n", "4", *_MACHINE, "--profile", "profile")),
    ("profile", "run.json", ("predict", "-n", "4", *_MACHINE, "--profile", "profile")),
    ("profile", "profile.json", ("predict", *_MACHINE, "--check", "profile")),
    ("profile", "run.json", ("predict", *_MACHINE, "--check", "profile")),
    ("run", "run.json", ("resume", "run", "--iterations", "60")),
    ("run", "run.json", (*RUN, "--resume", "--out", "run", "--iterations", "60")),
    ("run", "run.json", ("status", "run")),
    ("run", "run.json", ("watch", "run", "--once")),
)
"""Our directories, a file without which the command cannot do its work, and the command."""
_SMALL = ("--stacked", "-n", "2", "--iterations", "20", "--quiet", "--algorithms", "gt")
SWEEP = ("sweep", *_SMALL, "--over", "lr=0.01,0.1", "--out", "sweep")
STUDY = ("reproduce", "huber", *_SMALL, "--seeds", "2", "--tuned", "--out", "study")
POINT = "points/0001-gt-lr-0.01/run.json"
LENIENT: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    *STRICT,
    ("run", "run.json", ("report", "run", "--out", "/dev/null")),
    ("profile", "profile.json", ("report", "profile", "--out", "/dev/null")),
    ("bench", "bench.json", ("report", "bench", "--out", "/dev/null")),
    ("sweep", "run.json", ("resume", "sweep", "--quiet")),
    ("sweep", "run.json", ("status", "sweep")),
    ("sweep", POINT, (*SWEEP, "--resume")),
    ("sweep", POINT, ("report", "sweep", "--out", "/dev/null")),
    ("study", "tuning/round-1/run.json", STUDY),
    ("study", "claims.json", ("report", "study", "--out", "/dev/null")),
)
TEXTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("run", "metrics.csv", ("status", "run")),
    ("run", "metrics.csv", ("watch", "run", "--once")),
    ("run", "metrics.csv", ("report", "run", "--out", "/dev/null")),
    ("run", "metrics.csv", ("resume", "run", "--iterations", "60")),
)


ODD_FILES = (
    "run.json", "metrics.csv", "stop", ".lock", ".launch-0123456789abcdef", "final.part",
    "checkpoints", "checkpoints/a", "checkpoints/a/node-00000", "checkpoints/b/host-00000",
    "watchdog", "watchdog/alive", "watchdog/node-00000.json", "inputs",
)  # fmt: skip
"""Files in a run directory in whose place is something else."""
VISITS = (
    ("status", "run"),
    ("watch", "run", "--once"),
    ("report", "run", "--out", "/dev/null"),
    ("resume", "run", "--iterations", "60", "--quiet"),
    (*RUN, "--quiet", "--out", "run", "--overwrite"),
)


def cases(bases: Path) -> Iterator[Case]:
    """Yield the cases; `bases` is the folder of the prepared directories."""
    for suffix, (*words, last) in READERS:
        for name in useless(suffix):
            if (words[0], name) not in USABLE:
                yield Case("file", (*words, last + name), (name,))
        for device in DEVICES:
            yield Case("file", (*words, last + device))
    wholes = [*(name for name in CONTENTS), *NOT_FILES, "missing"]
    for base, file, words in STRICT:
        for what in wholes:
            if what != "missing" or words[0] != "run":  # --resume starts where there is no run
                yield Case("damaged", words, (Damage(base, file, what),))
    for base, file, words in TEXTS:
        for what in wholes:
            yield Case("damaged", words, (Damage(base, file, what),), codes=ANY_END)
    for file in ODD_FILES:
        for what in (*NOT_FILES, "garbage"):
            for words in VISITS:
                for killed in (
                    Damage("run", file, what),
                    Damage("run", file, what, status="running"),
                ):
                    yield Case("odd", words, (killed,), codes=ANY_END)
    for base, file, words in LENIENT:
        content = json.loads((bases / base / file).read_text())
        for key in keys_of(content):
            (what,) = rotate([*VALUES, "missing"], 1, f"{words} {key}")
            yield Case("key", words, (Damage(base, file, what, key),), codes=ANY_END)
