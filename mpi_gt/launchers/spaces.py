"""Open MPI in a folder whose name has spaces, on several hosts.

Its mpirun hands the path of its own files to ssh as it is, and the shell of the other host splits
it. A small program in ssh's place puts the path in quotes.
"""

import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import UserError
from .brands import Brand

AGENTS = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")
"""Variables that name the program to use for ssh, for Open MPI 5 and for Open MPI 4."""

QUOTE = """\
import os, shlex, sys
prefix, agent, *words = sys.argv[1:]
words = [*shlex.split(agent), *(word.replace(prefix, shlex.quote(prefix)) for word in words)]
os.execvp(words[0], words)
"""


@contextlib.contextmanager
def quoting_agent(
    mpirun: Path, brand: Brand | None, env: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Provide the variables with which this mpirun reaches other hosts despite spaces in its path.

    Without spaces, or a brand, there are none. Raises UserError where the program itself would
    have to be in a folder with spaces.
    """
    prefix = str(mpirun.resolve().parent.parent)
    if brand is None or brand.name != "openmpi" or shlex.quote(prefix) == prefix:
        yield {}
        return
    base = tempfile.gettempdir()
    if shlex.quote(base) != base:
        raise UserError(
            f"Open MPI cannot start ranks on other hosts from {prefix}: its path has spaces, and "
            f"so has that of the temporary folder {base}; set TMPDIR to one without"
        )
    given = next((env[name] for name in AGENTS if env.get(name)), "ssh").partition(":")[0].strip()
    with tempfile.TemporaryDirectory(prefix="mpi-gt-", dir=base) as folder:
        program = Path(folder, "ssh")
        words = shlex.join([sys.executable, "-c", QUOTE, prefix, given])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        # mpirun itself has to reach every host: on the others this program is missing
        alone = {"PRTE_MCA_plm_ssh_no_tree_spawn": "1", "OMPI_MCA_plm_rsh_no_tree_spawn": "1"}
        yield {**dict.fromkeys(AGENTS, str(program)), **alone}
