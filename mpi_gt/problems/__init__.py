"""Problems by their command-line names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..spec import Registry, attributes_of
from .base import Place, Problem

if TYPE_CHECKING:
    from .huber import Huber
    from .mlp import Mlp
    from .models.jax_model import JaxModel
    from .models.torch_model import TorchModel
    from .softmax import Softmax

PROBLEMS: Mapping[str, type[Problem]] = Registry(
    __name__,
    {
        "huber": ".huber:Huber",
        "jax": ".models.jax_model:JaxModel",
        "softmax": ".softmax:Softmax",
        "mlp": ".mlp:Mlp",
        "torch": ".models.torch_model:TorchModel",
    },
)

__getattr__ = attributes_of(
    __name__,
    {
        ".huber": "Huber",
        ".mlp": "Mlp",
        ".models.jax_model": "JaxModel",
        ".models.torch_model": "TorchModel",
        ".softmax": "Softmax",
    },
)

__all__ = ["PROBLEMS", "Huber", "JaxModel", "Mlp", "Place", "Problem", "Softmax", "TorchModel"]
