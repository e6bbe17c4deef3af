"""The problems by their command-line names."""

from .base import Place, Problem
from .huber import Huber

PROBLEMS: dict[str, type[Problem]] = {
    "huber": Huber,
}

__all__ = ["PROBLEMS", "Huber", "Place", "Problem"]
