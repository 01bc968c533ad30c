"""In which module of a model an operation of torch runs, seen while the model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn
from torch._ops import OpOverload
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from cgf.types import Options


class OperationWatch(TorchDispatchMode):
    """Notes the module in which an operation runs whose name holds one of ``operations``; but: names left out."""

    def __init__(self, model: nn.Module, operations: Sequence[str], but: Sequence[str] = ()) -> None:
        super().__init__()
        self.operations = operations
        self.but = {f"{type(model.get_submodule(name)).__name__} at {name}" for name in but}
        self.names = {id(m): f"{type(m).__name__} at {name}" for name, m in model.named_modules() if name}
        self.within: list[str] = []
        self.places: list[str] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[object, ...] = (), kwargs: Options | None = None
    ) -> object:
        where = self.within[-1] if self.within else "the model itself"
        if self.but.isdisjoint(self.within) and any(part in func.name() for part in self.operations):
            self.places.append(where)
        return func(*args, **(kwargs or {}))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sees every operation of the model for the length of a with block."""

        def enter(module: nn.Module, _: object) -> None:
            self.within.append(self.names.get(id(module), type(module).__name__))

        def leave(*_: object) -> None:
            self.within.pop()

        handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
        try:
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()
