"""The convergence theory of the paper as functions, in two forms: as printed, and corrected."""

from .base import Condition, Form
from .corrected import DIFFERENCES, Corrected
from .paper import Paper
from .setting import Setting, Start, Sums
from .stepsizes import Admissible, admissible_alphas, suggest

FORMS: tuple[type[Form], ...] = (Paper, Corrected)

__all__ = [
    "DIFFERENCES",
    "FORMS",
    "Admissible",
    "Condition",
    "Corrected",
    "Form",
    "Paper",
    "Setting",
    "Start",
    "Sums",
    "admissible_alphas",
    "suggest",
]
