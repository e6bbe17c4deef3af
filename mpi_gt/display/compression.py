"""The tables of `bench --compress` and `predict --compress`."""

from typing import Any

from .console import duration, rate, table_of

STAGE_COLUMNS = (
    "compressor",
    "bytes",
    "sent",
    "encode",
    "exchange",
    "decode",
    "together",
    "uncompressed",
    "ratio",
)


def compressed_tables(bench: dict[str, Any]) -> list[Any]:
    """Return two tables per graph: the stages of the first exchange, and all ratios.

    They are what is to be printed, in order; sentences about them are text.
    """
    rows = bench["compressed"]
    sizes = sorted({row["bytes"] for row in rows})
    columns = [f"{size:,} B" for size in sizes]
    made: list[Any] = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        cells = {
            (row["exchange"], row["compress"], row["bytes"]): row
            for row in rows
            if row["graph"] == graph
        }
        first = next(iter(cells))[0]
        kinds = list(dict.fromkeys(compress for _, compress, _ in cells))
        stages = [_stages(cells[first, compress, size]) for compress in kinds for size in sizes]
        title = f"{graph}, {first}: median times of one exchange, compressed and not"
        made.append(table_of(title, STAGE_COLUMNS, stages))
        ratios = [
            [
                f"{each['exchange']}, {each['compress']}",
                *(f"{cells[each['exchange'], each['compress'], s]['ratio']:.2f}" for s in sizes),
                "nowhere here" if each["from"] is None else f"{each['from']:,} B",
            ]
            for each in bench["pays"]
            if each["graph"] == graph
        ]
        title = f"{graph}: time of the compressed exchange / of the uncompressed one"
        made.append(table_of(title, ["exchange", *columns, "pays from"], ratios))
        made += [verdict(graph, compress, bench["pays"]) for compress in kinds]
    return made


def _stages(row: dict[str, Any]) -> list[str]:
    times = [duration(row[stage]) for stage in ("encode", "wire", "decode", "median")]
    sizes = [f"{row['bytes']:,}", f"{row['sent']:,}"]
    return [row["compress"], *sizes, *times, duration(row["uncompressed"]), f"{row['ratio']:.2f}"]


def verdict(graph: str, compress: str, pays: list[dict[str, Any]]) -> str:
    """Say from which message size on a compressor pays, by exchange."""
    own = {
        each["exchange"]: each["from"]
        for each in pays
        if (each["graph"], each["compress"]) == (graph, compress)
    }
    parts = [
        f"from {size:,} bytes on with {', '.join(name for name in own if own[name] == size)}"
        for size in sorted({size for size in own.values() if size is not None})
    ]
    never = [name for name, size in own.items() if size is None]
    if not parts:
        return f"{graph}: {compress} pays nowhere in this range"
    if never:
        parts.append(f"nowhere in this range with {', '.join(never)}")
    return f"{graph}: {compress} pays {'; '.join(parts)}"


def prediction_table(found: dict[str, Any], plain: int) -> tuple[Any, list[str]]:
    """Return the table of a prediction with a compressor, and the sentences below it.

    `plain` is the length of a message without compression, in bytes.
    """
    lines = [
        [
            row["graph"],
            str(row["degree"]),
            duration(row["encode"]),
            duration(row["communication"]),
            duration(row["decode"]),
            duration(row["iteration"]),
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            "nowhere" if row["pays_below"] is None else rate(row["pays_below"]),
            "nowhere" if row["pays_from"] is None else f"{row['pays_from']:,} B",
        ]
        for row in found["rows"]
    ]
    columns = ["graph", "degree", "encode", "exchange", "decode", "iteration", "ratio"]
    columns += ["pays below", "pays from"]
    title = f"with {found['compress']}: messages of {found['bytes']:,} bytes, not {plain:,}"
    return table_of(title, columns, lines), [
        f"{found['compress']}: {found['codec']['source']}",
        "ratio: to the iteration without compression; pays below: the bandwidth up to which it "
        "pays at this size; pays from: the size without compression from which on it pays",
    ]
