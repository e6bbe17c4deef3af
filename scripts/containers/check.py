#!/usr/bin/env python3
"""Checks Containerfile and mpi-gt.def, and builds them where a builder is at hand.

    scripts/containers/check.py            every instruction, and the files that are copied
    scripts/containers/check.py --build    then builds with each builder that works here, and runs
                                           mpi-gt in the image

Nothing but Python is needed. `--base IMAGE` builds on another image of Debian or Ubuntu, and
`--pip-conf FILE` gives the build a pip.conf, as for a mirror of PyPI.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parent.parent
INSTRUCTIONS = ("ARG", "FROM", "LABEL", "COPY", "RUN", "ENV", "WORKDIR", "ENTRYPOINT", "CMD")
SECTIONS = ("arguments", "files", "post", "environment", "runscript", "test", "labels", "help")
"""What the two files use; a word that is not among these is taken for a mistake."""
INSTALL = re.compile(r"/opt/src/install /opt/src /opt/mpi-gt (\$\{MPI\}|\{\{ MPI \}\})")


def parse_containerfile(text: str) -> list[tuple[str, str]]:
    """Return the instructions with their arguments, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = []
    for line in filter(str.strip, joined.splitlines()):
        word, _, arguments = line.strip().partition(" ")
        found.append((word, arguments.strip()))
    return found


def parse_definition(text: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the header and the lines of each section of an Apptainer definition."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("%"):
            lines = sections.setdefault(line[1:].strip(), [])
        elif line.strip() and not line.lstrip().startswith("#"):
            if lines is None:
                key, _, value = line.partition(":")
                header[key.strip().lower()] = value.strip()
            else:
                lines.append(line.strip())
    return header, sections


def mistakes_in_containerfile(text: str, checkout: Path) -> Iterator[str]:
    """Generate what is wrong with a Containerfile."""
    instructions = parse_containerfile(text)
    words = [word for word, _ in instructions]
    for word in dict.fromkeys(words):
        if word not in INSTRUCTIONS:
            yield f"unknown instruction {word}"
    if [word for word in words if word != "ARG"][:1] != ["FROM"]:
        yield "the first instruction after ARG must be FROM"
    if words.count("CMD") > 1 or words.count("ENTRYPOINT") > 1:
        yield "only the last CMD and ENTRYPOINT count"
    defined = {arguments.partition("=")[0] for word, arguments in instructions if word == "ARG"}
    for word, arguments in instructions:
        if not arguments:
            yield f"{word} has no argument"
        for name in re.findall(r"\$\{(\w+)\}", arguments):
            if name not in defined:
                yield f"{word} uses {name}, which no ARG defines"
        if word == "COPY":
            *sources, target = arguments.split()
            yield from _missing(sources, checkout)
            if not target.startswith("/opt/src") or (len(sources) > 1 and target[-1] != "/"):
                yield f"COPY to {target}, which install does not look at"
    if not any(word == "RUN" and INSTALL.fullmatch(arguments) for word, arguments in instructions):
        yield "no RUN calls install"


def mistakes_in_definition(text: str, checkout: Path) -> Iterator[str]:
    """Generate what is wrong with an Apptainer definition."""
    header, sections = parse_definition(text)
    if header != {"bootstrap": "docker", "from": "{{ BASE }}"}:
        yield f"the header is {header}"
    for name, lines in sections.items():
        if name not in SECTIONS:
            yield f"unknown section %{name}"
        if not lines:
            yield f"%{name} is empty"
    defined = {line.partition("=")[0] for line in sections.get("arguments", [])}
    for name in re.findall(r"\{\{ (\w+) \}\}", text):
        if name not in defined:
            yield f"{name} is not among the %arguments"
    for line in sections.get("files", []):
        source, _, target = line.partition(" ")
        yield from _missing([source], checkout)
        if target != f"/opt/src/{Path(source).name}":
            yield f"{source} is copied to {target}, which install does not look at"
    if not any(INSTALL.fullmatch(line) for line in sections.get("post", [])):
        yield "%post does not call install"


def _missing(sources: Sequence[str], checkout: Path) -> Iterator[str]:
    for source in sources:
        if not (checkout / source).exists():
            yield f"there is no {source} in the checkout"


def copied(containerfile: str, definition: str) -> tuple[set[str], set[str]]:
    """Return the files that each of the two copies into its image."""
    found = {
        source
        for word, arguments in parse_containerfile(containerfile)
        if word == "COPY"
        for source in arguments.split()[:-1]
    }
    _, sections = parse_definition(definition)
    return found, {line.split()[0] for line in sections.get("files", [])}


def mistakes(folder: Path = FOLDER, checkout: Path = CHECKOUT) -> list[str]:
    """Return all that is wrong with the files of a folder, each with the file's name."""
    texts = {name: (folder / name).read_text() for name in ("Containerfile", "mpi-gt.def")}
    checks = {"Containerfile": mistakes_in_containerfile, "mpi-gt.def": mistakes_in_definition}
    found = [
        f"{name}: {mistake}"
        for name, check in checks.items()
        for mistake in check(texts[name], checkout)
    ]
    first, second = copied(*texts.values())
    if first != second:
        found.append(f"only one of the two copies {', '.join(sorted(first ^ second))}")
    shell = subprocess.run(
        ["sh", "-n", str(folder / "install")], capture_output=True, text=True, check=False
    )
    return found + ([f"install: {shell.stderr.strip()}"] if shell.returncode else [])


def builders() -> list[str]:
    """Return the builders that work here; docker, for one, may have no daemon."""
    found = []
    for name in ("podman", "buildah", "docker", "apptainer"):
        if shutil.which(name) is not None:
            probe = [name, "version"] if name == "apptainer" else [name, "info"]
            done = subprocess.run(probe, capture_output=True, check=False)
            found += [] if done.returncode else [name]
    return found


def build(builder: str, base: str | None = None, pip_conf: Path | None = None) -> None:
    """Build an image with that builder, and run mpi-gt in it; raise CalledProcessError."""
    words = [] if base is None else ["--build-arg", f"BASE={base}"]
    run = ["run", "--stacked", "-n", "3", "--iterations", "20", "--out", "/tmp/run"]
    if builder == "apptainer":
        image = "mpi-gt-check.sif"
        bind = [] if pip_conf is None else ["--bind", f"{pip_conf}:/etc/pip.conf"]
        _call([builder, "build", "--force", *words, *bind, image, str(FOLDER / "mpi-gt.def")])
        _call([builder, "run", image, *run])
        return
    file = ["-f", str(FOLDER / "Containerfile"), "-t", "mpi-gt-check"]
    volume = [] if pip_conf is None else ["--volume", f"{pip_conf}:/etc/pip.conf:ro"]
    if builder == "buildah":
        _call([builder, "build", *file, *words, *volume, str(CHECKOUT)])
        name = _call([builder, "from", "mpi-gt-check"]).strip()
        try:
            _call([builder, "run", name, "--", "mpi-gt", *run])
        finally:
            _call([builder, "rm", name])
    else:
        _call([builder, "build", *file, *words, *volume, str(CHECKOUT)])
        _call([builder, "run", "--rm", "mpi-gt-check", *run])


def _call(words: Sequence[str]) -> str:
    print(f"+ {' '.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd=CHECKOUT)
    sys.stderr.write(done.stdout)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", action="store_true", help="also build, where a builder works")
    parser.add_argument("--base", metavar="IMAGE", help="build on this image")
    parser.add_argument("--pip-conf", metavar="FILE", type=Path, help="pip.conf for the build")
    options = parser.parse_args()
    found = mistakes()
    for mistake in found:
        print(mistake, file=sys.stderr)
    if found:
        return 1
    print("Containerfile, mpi-gt.def and install: no mistakes found")
    if options.build:
        working = builders()
        for builder in working:
            build(builder, options.base, options.pip_conf)
            print(f"built and run by {builder}")
        if not working:
            print("nothing was built: there is no podman, buildah, docker or apptainer that works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
