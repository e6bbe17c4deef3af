"""Names of options: present and former spellings, groups of the help, hints for wrong flags."""

import re

import pytest

from mpi_gt.cli.commands import COMMANDS, load
from mpi_gt.cli.main import main
from mpi_gt.cli.parser import OPTIONS, build_parser, parse

OLD = [
    ("predict --nodes 8 --graph ring", "predict -n 8 --graphs ring"),
    ("predict --nodes=8 --graph=ring,star", "predict -n 8 --graphs ring,star"),
    ("scale --ranks 2,4", "scale -n 2,4"),
    ("hostfile --nodes h1:4,h2:4 --mpi mpich", "hostfile --hosts h1:4,h2:4 --mpi mpich"),
    (
        "submit --nodes 2 --ntasks-per-node 3 --time 1 -- run --seeds 2",
        "submit --hosts 2 --ranks-per-host 3 --time 1 -- run --seeds 2",
    ),
]


@pytest.mark.parametrize(("old", "new"), OLD)
def test_former_spellings_still_work(old, new):
    assert parse(old.split()) == parse(new.split())


def test_no_help_shows_a_former_spelling():
    _, parsers = build_parser()
    for name, parser in parsers.items():
        for old in load(name).old_spellings:
            assert not re.search(rf"{old}(?![\w-])", parser.format_help()), name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("predict --nodes x --latency 1us --bandwidth 1GB/s", "-n must be"),
        ("predict --latency 1us --bandwidth 1GB/s", "Give -n N"),
        ("scale --ranks x", "-n must be"),
        ("hostfile --nodes h1 --mpi mpich", "--hosts takes NAME:SLOTS"),
        ("hostfile --mpi mpich", "required: --hosts"),
        ("submit --nodes 0 --ntasks-per-node 2 --time 1 -- run", "--hosts and --ranks-per-host"),
        ("submit --time 1 -- run", "required: --hosts, --ranks-per-host"),
        ("submit --hosts 2 --ranks-per-host 2 --time 1 -- run -n 5", "hosts times ranks per host"),
    ],
)
def test_messages_use_the_present_names(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("run --lr 0.1", "--algorithm gt-adaptive:lr=0.1"),
        ("run --lr=0.1 --algorithm dsgd:order=atc", "--algorithm dsgd:lr=0.1"),
        ("run --algorithm gt --beta1 0.5", "--algorithm gt-adaptive:beta1=0.5"),
        ("run --final-lr 1", "--algorithm d-adabound:final_lr=1"),
        ("run --lr", "--algorithm gt-adaptive:lr=VALUE"),
        ("profile --lr 0.1", "--algorithm gt-adaptive:lr=0.1"),
        ("theory --vmin 1", "--algorithm gt-adaptive:vmin=1"),
        ("compare --lr 0.1 --algorithms gt,dsgd", "--algorithms gt:lr=0.1"),
        ("reproduce huber --lr 0.1", "--algorithms gt-adaptive:lr=0.1"),
        ("run --dim 20", "--problem huber:dim=20"),
        ("run --problem softmax --batch 8", "--problem softmax:batch=8"),
        ("run --p 0.3", "--graph er:p=0.3"),
        ("run method.toml --lr 0.1", "--algorithm gt:lr=0.1"),
    ],
)
def test_an_option_of_the_algorithm_given_as_a_flag(words, hint, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "method.toml").write_text('algorithm = "gt"\n')
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert "does not take '--" in error
    assert error.endswith(f": {hint}\n")


def test_a_mistyped_flag_suggests_the_nearest(capsys):
    assert main(["run", "--iteratons", "5"]) == 2
    error = capsys.readouterr().err
    assert "did you mean '--iterations'?" in error
    assert "--reserved" not in error


def test_an_unknown_command_suggests_the_nearest(capsys):
    assert main(["runn", "-n", "4"]) == 2
    assert "there is no command 'runn'; did you mean 'run'?" in capsys.readouterr().err
    assert main([]) == 2
    assert "mpi-gt --help" in capsys.readouterr().err


def test_the_main_help_lists_every_command_once():
    text = build_parser()[0].format_help()
    for name in COMMANDS:
        assert len(re.findall(rf"^  {name} +{re.escape(load(name).summary)}$", text, re.M)) == 1


@pytest.mark.parametrize("name", ["run", "compare", "sweep", "profile"])
def test_the_options_of_a_run_are_grouped(name):
    text = build_parser()[1][name].format_help()
    titles = ["problem", "method", "graph and ranks", "output", "robustness", "measurement"]
    places = [text.index(f"\n{title}:\n") for title in titles]
    assert places == sorted(places)
    assert "mpi-gt describe algorithm" in text
    assert "beta2" not in text  # options of algorithms are for `describe`
    assert len(text.splitlines()) <= 104  # two pages of a terminal


OTHER_MEANING = [
    ("resume", "--iterations"),
    ("predict", "--exchange"),
    ("submit", "--launcher"),
    ("submit", "--export"),
]


def test_the_same_option_has_the_same_help_everywhere():
    """But for the default, which may be the command's own."""
    for name, parser in build_parser()[1].items():
        for flag, action in parser._option_string_actions.items():
            if (
                flag in OPTIONS
                and (name, flag) not in OTHER_MEANING
                and flag not in ("-n", "--out")
            ):
                assert str(action.help).startswith(OPTIONS[flag].help), f"{name} {flag}"


def test_no_help_claims_a_default_that_is_not_there():
    _, parsers = build_parser()
    assert "default er" not in parsers["graph"].format_help()
    for name in ("reproduce", "resume"):
        text = " ".join(parsers[name].format_help().split())
        assert "mpi-gt describe exchange`" in text
        assert "default neighbor" not in text


def test_every_command_is_alone_or_on_ranks():
    for name in COMMANDS:
        command = load(name)
        assert command.name == name
        assert (command.alone is None) == (command.launch is not None)
        assert (command.launch is None) == (command.prepare is None)
        assert command.on_ranks is None or command.launch is not None
