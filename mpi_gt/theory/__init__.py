"""The convergence theory of the paper as functions: as it is printed, and corrected."""

from .advice import Verdict, judge, suggest
from .corrected import DIFFERENCES, Corrected
from .form import Condition, Form
from .paper import Paper
from .setting import Setting, Start, Sums

FORMS: tuple[type[Form], ...] = (Paper, Corrected)

__all__ = [
    "DIFFERENCES",
    "FORMS",
    "Condition",
    "Corrected",
    "Form",
    "Paper",
    "Setting",
    "Start",
    "Sums",
    "Verdict",
    "judge",
    "suggest",
]
