"""Bad values by kind: numbers, names, specifications, paths."""

import re
from collections.abc import Iterable

LONG = "x" * 70_000
UNICODE = ("é", "日本語", "\u202eabc", "\U0001f600", "²", "١٢")
CONTROL = ("\n", "a\nb", "\x1b[31mred", "a\tb", "a\rb", "\0", "a\0b", "\udcff")

NOT_NUMBERS = ("", " ", "x", "1,2", "0x10", "++1", "1e", "1..2", "½", "²", "true", "None", "3\0")
WHOLE = (*NOT_NUMBERS, "1.5", "nan", "inf", "-inf", "1e99", "1e-3", "1_000", "١٢", "5\n")
HUGE = ("9" * 31, "9" * 5000, "-" + "9" * 25)
REAL = (*NOT_NUMBERS, "nan", "-nan", "inf", "-inf", "1e400", "-1e400", "9" * 5000)


def below(limit: float) -> str:
    """Return a number below the limit, in the way a user would type it."""
    return str(limit - 1 if float(limit).is_integer() else limit / 2)


def above(limit: float) -> str:
    """Return a number above the limit."""
    return str(int(limit) + 1) if float(limit).is_integer() else str(limit * 2)


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """Return words that are almost the name, and that no other name is."""
    swapped = name[1:2] + name[:1] + name[2:]
    words = (name[:-1], name + name[-1:], name.upper(), swapped, name + "s", f"{name};", f"_{name}")
    taken = {each.lower() for each in known}
    misses = [word for word in words if word and word != name and word not in known]
    return [word for word in misses if word.lower() not in taken or word.isupper()]


def wrong_names(known: Iterable[str]) -> list[str]:
    """Return words that name none of the known things."""
    names = list(known)
    misses = [miss for name in names for miss in near_misses(name, names)[:3]]
    return [*misses, "", " ", "-", "*", "None", "0", *UNICODE, *CONTROL, LONG]


def malformed(name: str, option: str) -> list[str]:
    """Return specifications `name:option=value` that are written wrongly."""
    return [
        f"{name}:{option}",
        f"{name}:=1",
        f"{name}:{option}=1,{option}=1",
        f"{name}:{option}==1",
        f"{name}:{option}=[",
        f"{name}:{option}x=1",
        f"{name}:{option.upper()}{option}=1",
        f"{name}:{option}=1;seed=2",
        f"{name}::{option}=1",
        f"{name}:nothing=1",
        f"{name}:{option}=1,,=",
        f"{name}:é=1",
        f"{name}:a\nb=1",
        f"{name}:a\0b=1",
        f"{name}:{LONG}=1",
    ]


PLACES = (
    "",
    "a\0b",
    "x" * 300,
    "/proc/nothing",
    "/dev/null",
    "/dev/null/a",
    "file",
    "file/a",
    "dangling",
    "loop",
    "fifo",
)
"""Places to which no directory can be written; the campaign makes the files among them."""
PLACE_FILES = ("file", "dangling", "loop", "fifo")


def outside(domain: str) -> list[str]:
    """Return numbers outside a domain such as `> 0`, `in [0, 1)` or `even and in [2, n)`."""
    if found := re.search(r"in ([\[(])(\S+), (\S+?)([\])])", domain):
        opening, low, high, closing = found.groups()
        values = [below(float(low))]
        if opening == "(":
            values.append(low)
        if high.replace(".", "").isdigit():
            values += [above(float(high)), *([high] if closing == ")" else [])]
        return [*values, *(["3"] if "even" in domain else [])]
    if found := re.match(r"(>=?) (\S+)", domain):
        sign, low = found.groups()
        return [below(float(low)), "-1e300", *([low] if sign == ">" else [])]
    return []
