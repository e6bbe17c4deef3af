"""The results in mpi_gt/manual/paper.md, made from finished studies; called by scripts/results."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

BEGIN = "<!-- results: made by scripts/results -->"
END = "<!-- end of results -->"
VERDICTS = "<!-- verdicts: made by scripts/results -->"
END_OF_VERDICTS = "<!-- end of verdicts -->"
OF_THE_PAPER = "| claim of the paper | "
NOT_TUNED = "not tuned"
ROW = re.compile(r"^\| (.*?) \| \*\*(.*?)\*\* \|(?:.*\| \*\*(.*?)\*\* \|)?", re.MULTILINE)
"""A claim with its verdict and, after `reproduce --tuned`, a second one."""

STUDIES = {
    "huber": ("--tuned",),
    "a9a": ("--tuned",),
    "covertype": ("--tuned",),
    "mnist": ("--tuned",),
    "huber-heterogeneous": ("--tuned",),
    "a9a-label-sorted": ("--tuned",),
    "a9a-variance-reduced": (),
    "a9a-compressed": (),
    "huber-networks": (),
    "mnist-mlp": (),
    "mnist-mlp-label-sorted": (),
}
"""The studies of the page in its order, by the name of their directory, with their options."""
VARIANTS = ("heterogeneous", "label-sorted", "variance-reduced", "compressed", "networks")


def run_all(out: Path) -> list[Path]:
    """Run every study of the page into its directory below `out`, or what is missing of it."""
    mpi_gt = Path(sys.executable).with_name("mpi-gt")
    directories = []
    for name, options in STUDIES.items():
        variant = next((each for each in VARIANTS if name.endswith(f"-{each}")), None)
        experiment = name.removesuffix(f"-{variant}")
        chosen = ["--variant", variant] if variant else []
        directories.append(out / f"reproduce-{name}")
        words = [*chosen, *options, "--exchange", "shared", "--out", str(directories[-1])]
        print(f"results: mpi-gt reproduce {experiment} {' '.join(words)}", flush=True)
        done = subprocess.run([mpi_gt, "reproduce", experiment, *words])
        if done.returncode not in (0, 3):  # 3: a method diverged, which the tables say
            sys.exit(done.returncode)
    return directories


def section(checkout: Path, study: Path) -> str:
    """Write the pictures of a study to .readme/, and return its section of the page."""
    summary = json.loads((study / "summary.json").read_text())
    name = study.name.removeprefix("reproduce-")
    title = summary["title"]
    versions = summary["versions"]
    library = summary["mpi"]["library"].partition(", package")[0] if summary["mpi"] else "no MPI"
    lines = [
        f"### {title}",
        "",
        f"![{title}: loss and optimality gap]({save_picture(checkout, study, name)})",
        "",
    ]
    if (study / "tuned" / "figure.png").exists():
        picture = save_picture(checkout, study / "tuned", f"{name}-tuned")
        lines += [f"![The same, each method at its best stepsizes]({picture})", ""]
    return "\n".join(
        [
            *lines,
            f"`{summary['command']}`, finished {summary['finished'][:10]} with Python "
            f"{versions['python'].split()[0]}, numpy {versions['numpy']}, "
            f"mpi4py {versions['mpi4py']}, {library}.",
            "",
            (study / "summary.md").read_text(encoding="utf-8"),
        ]
    )


def save_picture(checkout: Path, study: Path, name: str) -> str:
    """Write a smaller copy of the figure of a study to .readme/, and return its link."""
    picture = checkout / ".readme" / f"{name}.png"
    with Image.open(study / "figure.png") as figure:
        size = (figure.width * 2 // 3, figure.height * 2 // 3)
        smaller = figure.resize(size, Image.Resampling.LANCZOS)
        reduced = smaller.convert("P", palette=Image.Palette.ADAPTIVE, colors=128)
        reduced.save(picture, optimize=True)
    return f"../../.readme/{picture.name}"


def replaced(kept: str, made: list[str]) -> str:
    """Return the sections of a page: new ones in the place of those with their heading, or last."""
    sections = {text.partition("\n")[0]: text for text in split_sections(kept)}
    for section in made:
        sections[section.partition("\n")[0]] = section
    return "\n".join(text.rstrip("\n") + "\n" for text in sections.values())


def split_sections(text: str) -> list[str]:
    """Split a page at its headings."""
    _, *others = f"\n{text.strip()}".split("\n### ")
    return [f"### {other}" for other in others]


def verdicts_of(section: str) -> list[tuple[str, str, str]]:
    """Return the paper's claims in a section, each with its verdict at both kinds of stepsizes."""
    _, _, table = section.partition(OF_THE_PAPER)
    return [(claim, verdict, tuned or NOT_TUNED) for claim, verdict, tuned in ROW.findall(table)]


def verdict_table(sections: str) -> Iterator[str]:
    """Give the lines of the table of all verdicts about the claims of the paper."""
    yield "| experiment | claim of the paper | at its stepsizes | each method at its best |"
    yield "|---|---|---|---|"
    for section in split_sections(sections):
        title = section.partition("\n")[0].removeprefix("### ")
        for claim, verdict, tuned in verdicts_of(section):
            yield f"| {title} | {claim} | {verdict} | {tuned} |"


def short_table(sections: str) -> Iterator[str]:
    """Give the lines of the same table with one row per experiment, for the README."""
    yield "| experiment | claims | hold at the paper's stepsizes | with each method at its best |"
    yield "|---|---|---|---|"
    for section in split_sections(sections):
        title = section.partition("\n")[0].removeprefix("### ")
        if verdicts := verdicts_of(section):
            cells = (count_holding([each[which] for each in verdicts]) for which in (1, 2))
            yield f"| {title} | {len(verdicts)} | {' | '.join(cells)} |"


def count_holding(verdicts: list[str]) -> str:
    """Return how many claims hold, for a cell of the table."""
    if NOT_TUNED in verdicts:
        return NOT_TUNED
    return str(verdicts.count("holds") or "none")


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between two lines of a page."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        sys.exit(f"results: {page} lacks the lines between which the results go: {begin}")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def main() -> None:
    checkout, *words = sys.argv[1:]
    if not words or (words[0] == "--run" and len(words) != 2):
        sys.exit(
            "results: name directories of finished studies, or --run DIR (see scripts/results)"
        )
    studies = run_all(Path(words[1])) if words[0] == "--run" else [Path(word) for word in words]
    page = Path(checkout, "mpi_gt", "manual", "paper.md")
    kept = page.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    sections = replaced(kept, [section(Path(checkout), study) for study in studies])
    put_between(page, BEGIN, END, sections)
    put_between(page, VERDICTS, END_OF_VERDICTS, "\n".join(verdict_table(sections)) + "\n")
    short = "\n".join(short_table(sections)) + "\n"
    put_between(Path(checkout, "README.md"), VERDICTS, END_OF_VERDICTS, short)


if __name__ == "__main__":
    main()
