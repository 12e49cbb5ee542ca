"""LoRA layers that multiply once: W + s B A is formed per step, not s B (A x) per token.

For T tokens in a batch and rank r the merge costs r / T of the layer's own product, so forward is as fast
as the plain layer, with no extra passes over the activations. The gradients are those of the usual form:
dx = dy (W + s B A), dA = s (dy B)^T x, dB = s dy^T (x A^T).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.lora import Linear
from torch import Tensor


class MergedLinear(torch.autograd.Function):
    """x (..., in) to (..., out) in the dtype of the frozen `weight` (out, in); A is (r, in), B is (out, r)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
        a, b = a.to(weight.dtype), b.to(weight.dtype)
        merged = torch.addmm(weight, b, a, alpha=scale)
        ctx.save_for_backward(x, merged, a, b)
        ctx.scale = scale
        return x @ merged.T

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor, Tensor, None]:
        x, merged, a, b = ctx.saved_tensors
        flat_x, flat_grad = x.flatten(0, -2), grad.flatten(0, -2)
        grad_a = (flat_grad @ b).T @ flat_x * ctx.scale
        grad_b = flat_grad.T @ (flat_x @ a.T) * ctx.scale
        grad_x = grad @ merged if ctx.needs_input_grad[0] else None
        return grad_x, None, grad_a.float(), grad_b.float(), None


class MergedLoraLinear(Linear):
    """peft's LoRA layer with one adapter and no dropout, in the merged form."""

    def forward(self, x: Tensor) -> Tensor:
        (adapter,) = self.active_adapters
        a, b, base = self.lora_A[adapter].weight, self.lora_B[adapter].weight, self.base_layer
        y = MergedLinear.apply(x, base.weight, a, b, self.scaling[adapter])
        return y if base.bias is None else y + base.bias


def merge_in_forward(model: PeftModel) -> None:
    """Give every LoRA linear layer of `model` the merged form; parameters and saved form stay peft's own."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = MergedLoraLinear


@torch.no_grad()
def merged_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights that training changes, as the plain model has them: name and value, adapters merged in."""
    if not isinstance(model, PeftModel):
        yield from model.named_parameters()
        return
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, Linear):
            (adapter,) = module.active_adapters
            weight = module.base_layer.weight
            a, b = (side[adapter].weight.to(weight.dtype) for side in (module.lora_A, module.lora_B))
            yield f"{name}.weight", torch.addmm(weight, b, a, alpha=module.scaling[adapter])
