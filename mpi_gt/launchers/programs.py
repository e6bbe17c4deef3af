"""Launcher programs on this machine: found by name, on the PATH or by path, with their brand."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ..errors import UserError
from ..machine import INSTALL
from .brands import Brand, brand_of_title, brand_of_version
from .detect import family
from .srun import find_srun

LIBRARY = """\
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(MPI.Get_library_version())
"""
"""Prints what the MPI library says of itself; this process may have reasons not to load it."""


def find_launcher(name: str | None) -> tuple[Path, Brand]:
    """Return the launcher of that name or path, and its brand.

    None: the mpirun of this Python environment, else the first on the PATH, else srun.
    """
    if name is None:
        try:
            mpirun = find_mpirun()
        except UserError:
            if (srun := shutil.which("srun")) is None:
                raise
            return Path(srun), find_srun(srun, brand_of_library())
        return mpirun, detect_brand(mpirun)
    path = name if "/" in name else None
    if Path(name).name == "srun":
        srun = shutil.which(path or "srun")
        return Path(srun or "srun"), find_srun(srun, brand_of_library())
    program = Path(name).absolute() if path else find_mpirun((name,))
    return program, detect_brand(program)


def find_mpirun(names: tuple[str, ...] = ("mpirun", "mpiexec")) -> Path:
    """Return the mpirun of this Python environment, else the first on the PATH."""
    here = Path(sys.executable).parent
    for folder in (str(here), None):
        for name in names:
            program = shutil.which(name, path=folder)
            if program:
                return Path(program)
    raise UserError(f"no {names[0]} was found; {INSTALL}")


def detect_brand(mpirun: Path) -> Brand:
    """Return the MPI that this mpirun belongs to, from the output of `mpirun --version`."""
    words, env = [str(mpirun), "--version"], {**os.environ, "PATH": path_with(mpirun)}
    try:
        answer = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # it may be any program
            timeout=60,
            check=False,
            env=env,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{mpirun} does not work: {error}; {INSTALL}") from None
    # HPE's mpiexec prints a number only; it is known by its folder, /opt/cray/pals
    return brand_of_version(f"{answer.stdout}{answer.stderr}{mpirun.resolve()}")


def brand_of_library() -> Brand:
    """Return the brand of the MPI library that mpi4py loads."""
    words = [sys.executable, "-c", LIBRARY]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:]
        raise UserError(f"mpi4py cannot load an MPI library ({''.join(last)}); {INSTALL}")
    return brand_of_title(family(answer.stdout))


def path_with(mpirun: Path) -> str:
    """Return the PATH with the folder of this mpirun first, where its other programs are."""
    return os.pathsep.join(filter(None, (str(mpirun.parent), os.environ.get("PATH"))))
