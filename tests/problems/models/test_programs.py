"""Programs of JAX: on one thread, and kept in the user's cache."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from own_models import require
from resuming import damage_flip

from mpi_gt.problems.models import programs
from mpi_gt.problems.models.programs import Program


@pytest.fixture
def cache(tmp_path, monkeypatch):
    require("jax")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mpi-gt" / "jax"


@pytest.fixture
def compiled(monkeypatch):
    """The programs that were compiled, not read from the cache."""
    made = []
    write = programs._write
    monkeypatch.setattr(programs, "_write", lambda *at: (made.append(at), write(*at)))
    return made


X = np.linspace(0, 1, 7)


def wave(x):
    import jax.numpy as jnp

    return jnp.sin(x) @ jnp.cos(x)


def test_a_program_is_compiled_once_and_then_read(cache, compiled):
    first = Program(wave)(X)
    again = Program(wave)(X)
    assert np.asarray(first).tobytes() == np.asarray(again).tobytes()
    assert len(compiled) == 1
    Program(wave)(X[:3])
    assert len(compiled) == 2
    assert len([file for file in cache.iterdir() if not file.name.startswith(".")]) == 2


@pytest.mark.parametrize("damage", [damage_flip, lambda file: file.write_bytes(b"")])
def test_a_damaged_program_is_compiled_again(cache, compiled, damage):
    first = Program(wave)(X)
    (file,) = (file for file in cache.iterdir() if not file.name.startswith("."))
    damage(file)
    assert Program(wave)(X) == first
    assert len(compiled) == 2
    assert Program(wave)(X) == first
    assert len(compiled) == 2


def test_another_version_or_processor_has_a_program_of_its_own(cache, compiled, monkeypatch):
    Program(wave)(X)
    monkeypatch.setattr(programs, "_processor", lambda: "another")
    Program(wave)(X)
    assert len(compiled) == 2


def test_no_cache_is_no_failure(cache, compiled, monkeypatch):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    expected = np.sin(X) @ np.cos(X)
    assert float(Program(wave)(X)) == pytest.approx(expected, rel=1e-15)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("mpi_gt.datasets.folders.home_folder", lambda: "/nonexistent")
    assert float(Program(wave)(X)) == pytest.approx(expected, rel=1e-15)


def test_old_programs_make_room(cache, compiled, monkeypatch):
    monkeypatch.setattr(programs, "KEPT", 2)
    for length in (1, 2, 3, 4):
        Program(wave)(X[:length])
        for age, file in enumerate(cache.iterdir()):
            os.utime(file, (age, age))
    assert len(list(cache.iterdir())) == 2


def test_jax_has_one_thread_for_its_work(cache):
    """Otherwise every rank would have as many as there are cores."""
    code = (
        "import os, numpy as np\n"
        "from mpi_gt.problems.models.programs import Program\n"
        "def ticks():\n"
        "    tasks = os.listdir('/proc/self/task')\n"
        "    texts = {each: open(f'/proc/self/task/{each}/stat').read() for each in tasks}\n"
        "    return {each: int(texts[each].rpartition(')')[2].split()[11]) for each in tasks}\n"
        "a = np.ones((900, 900))\n"
        "multiply = Program(lambda a: a @ a)\n"
        "np.asarray(multiply(a))\n"
        "before = ticks()\n"  # compiling has threads of its own
        "for _ in range(20): np.asarray(multiply(a))\n"
        "spent = [now - before.get(each, 0) for each, now in ticks().items()]\n"
        "print('NPROC' in os.environ, max(spent) / sum(spent))\n"
    )
    if not Path("/proc/self/task").is_dir():
        pytest.skip("needs the list of threads of Linux")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kept, share = done.stdout.split()
    assert kept == "False"
    assert float(share) > 0.8
