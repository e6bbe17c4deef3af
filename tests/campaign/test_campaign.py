"""A subset of the campaign of bad inputs, and its coverage of commands and options."""

import sys
from pathlib import Path

from campaign import contradictions, modules, options, specs
from campaign.case import BAD_INPUT, MPIRUN

from mpi_gt.cli.commands import COMMANDS


def test_bad_inputs_end_with_one_message_and_leave_nothing(openmpi, call):
    """`scripts/campaign --only ID` repeats a case that failed."""
    env = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = call([sys.executable, "-m", "campaign", "--quick"], env=env, limit=900, expect=None)
    assert done.code == 0, done.out
    assert done.out.rstrip().endswith(
        "0 hangs, 0 tracebacks, 0 wrong codes, 0 wrong messages, 0 files left"
    )


def test_the_campaign_covers_every_command():
    """An option whose bad values it does not know, of a command or of a class, is a LookupError."""
    cases = [*options.option_cases(), *specs.cases(), *contradictions.cases(), *modules.cases()]
    strict = {case.name: case for case in cases if case.codes == BAD_INPUT}
    assert len(strict) >= 1000
    assert {case.words[0] for case in strict.values() if case.words} >= set(COMMANDS)
    assert any(case.how == MPIRUN for case in strict.values())
    assert len({case.name for case in cases}) == len(set(cases))
