"""Writes the README's results section; called by scripts/results."""

import json
import sys
from pathlib import Path

from PIL import Image

BEGIN = "<!-- results: made by scripts/results -->"
END = "<!-- end of results -->"


def section(checkout, folder):
    summary = json.loads((folder / "summary.json").read_text())
    name = folder.name.removeprefix("reproduce-")
    picture = checkout / ".readme" / f"{name}.png"
    with Image.open(folder / "figure.png") as figure:
        smaller = figure.resize((figure.width * 2 // 3, figure.height * 2 // 3), Image.LANCZOS)
        smaller.convert("P", palette=Image.ADAPTIVE, colors=128).save(picture, optimize=True)
    versions = summary["versions"]
    library = summary["mpi"]["library"].partition(", package")[0] if summary["mpi"] else "no MPI"
    return "\n".join(
        [
            f"### {summary['title']}",
            "",
            f"![{summary['title']}: loss and optimality gap](.readme/{picture.name})",
            "",
            f"`{summary['command']}`, finished {summary['finished'][:10]} with Python "
            f"{versions['python'].split()[0]}, numpy {versions['numpy']}, "
            f"mpi4py {versions['mpi4py']}, {library}.",
            "",
            (folder / "summary.md").read_text(encoding="utf-8"),
        ]
    )


def main():
    checkout, *folders = map(Path, sys.argv[1:])
    if not folders:
        sys.exit("which directories? See the head of scripts/results")
    readme = checkout / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    made = "\n".join(section(checkout, folder) for folder in folders)
    readme.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
