"""Problems by their command-line names."""

from .base import Place, Problem
from .huber import Huber
from .mlp import Mlp
from .models.jax_model import JaxModel
from .models.torch_model import TorchModel
from .softmax import Softmax

PROBLEMS: dict[str, type[Problem]] = {
    "huber": Huber,
    "jax": JaxModel,
    "softmax": Softmax,
    "mlp": Mlp,
    "torch": TorchModel,
}

__all__ = ["PROBLEMS", "Huber", "JaxModel", "Mlp", "Place", "Problem", "Softmax", "TorchModel"]
