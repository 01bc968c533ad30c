"""What accelerate wraps: the student, and what its softmaxes train beside it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Classifier(nn.Module):
    """The host's forward as a module of its own, so that accelerate can wrap it.

    What the softmaxes train is held here beside the host, whose own keys stay as they are: so it moves to the
    device with the host, and its gradients are shared between processes.
    """

    def __init__(
        self, model: nn.Module, forward: Callable[[nn.Module, dict[str, Tensor]], Tensor], constants: list[nn.Parameter]
    ) -> None:
        super().__init__()
        self.model, self._forward = model, forward
        self.constants = nn.ParameterList(constants)

    def forward(self, **batch: Tensor) -> Tensor:
        return self._forward(self.model, batch)
