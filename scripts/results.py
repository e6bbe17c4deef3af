"""The results in mpi_gt/manual/paper.md, made from finished studies; called by scripts/results."""

import json
import sys
from pathlib import Path

from PIL import Image

BEGIN = "<!-- results: made by scripts/results -->"
END = "<!-- end of results -->"


def section(checkout: Path, study: Path) -> str:
    """Write the picture of a study to .readme/, and return its section of the page."""
    summary = json.loads((study / "summary.json").read_text())
    name = study.name.removeprefix("reproduce-")
    picture = checkout / ".readme" / f"{name}.png"
    with Image.open(study / "figure.png") as figure:
        size = (figure.width * 2 // 3, figure.height * 2 // 3)
        smaller = figure.resize(size, Image.Resampling.LANCZOS)
        reduced = smaller.convert("P", palette=Image.Palette.ADAPTIVE, colors=128)
        reduced.save(picture, optimize=True)
    versions = summary["versions"]
    library = summary["mpi"]["library"].partition(", package")[0] if summary["mpi"] else "no MPI"
    return "\n".join(
        [
            f"### {summary['title']}",
            "",
            f"![{summary['title']}: loss and optimality gap](../../.readme/{picture.name})",
            "",
            f"`{summary['command']}`, finished {summary['finished'][:10]} with Python "
            f"{versions['python'].split()[0]}, numpy {versions['numpy']}, "
            f"mpi4py {versions['mpi4py']}, {library}.",
            "",
            (study / "summary.md").read_text(encoding="utf-8"),
        ]
    )


def replaced(kept: str, made: list[str]) -> str:
    """Return the sections of a page: new ones in the place of those with their heading, or last."""
    sections = {text.partition("\n")[0]: text for text in _split(kept)}
    for section in made:
        sections[section.partition("\n")[0]] = section
    return "\n".join(text.rstrip("\n") + "\n" for text in sections.values())


def _split(text: str) -> list[str]:
    _, *others = f"\n{text.strip()}".split("\n### ")
    return [f"### {other}" for other in others]


def main() -> None:
    checkout, *studies = map(Path, sys.argv[1:])
    if not studies:
        sys.exit("results: name the directories of finished studies (see scripts/results)")
    page = checkout / "mpi_gt" / "manual" / "paper.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    kept, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"results: {page} lacks the lines between which the results go")
    sections = replaced(kept, [section(checkout, study) for study in studies])
    page.write_text(f"{before}{BEGIN}\n\n{sections}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
