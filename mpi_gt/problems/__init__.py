"""Problems by their command-line names."""

from .base import Place, Problem
from .huber import Huber
from .softmax import Softmax

PROBLEMS: dict[str, type[Problem]] = {
    "huber": Huber,
    "softmax": Softmax,
}

__all__ = ["PROBLEMS", "Huber", "Place", "Problem", "Softmax"]
