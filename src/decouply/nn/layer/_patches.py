"""A function of vectors, moved over an image like a convolution."""

from __future__ import annotations

from torch import Tensor, nn

from ._decoupled_layer import DecoupledLayer


class OnPatches(nn.Module):
    """A function of patches (C h w numbers each) at every place of an image, from (S, C, H, W) to (S, n, H', W').

    A `DecoupledLayer` becomes a convolution with its W_0 into r_1 channels, the functions of these channels, and
    convolutions of 1 x 1 pixels; other functions are given the patches themselves.
    """

    def __init__(
        self,
        function: nn.Module,
        n_channels: int,
        window: tuple[int, int],
        step: tuple[int, int],
        padding: tuple[int, int],
    ) -> None:
        super().__init__()
        self.function = function
        self.n_channels, self.window, self.step, self.padding = n_channels, window, step, padding

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.function, DecoupledLayer):
            layer = self.function
            z = layer.after_first(self._convolved(x, layer.W[0]).movedim(1, -1)).movedim(-1, 1)
            return z if layer.linear is None else z + self._convolved(x, layer.linear)
        height, width = (
            (size + 2 * p - w) // s + 1
            for size, p, w, s in zip(x.shape[2:], self.padding, self.window, self.step, strict=True)
        )
        patches = nn.functional.unfold(x, self.window, padding=self.padding, stride=self.step)
        return self.function(patches.transpose(1, 2)).transpose(1, 2).unflatten(2, (height, width))

    def _convolved(self, x: Tensor, W: Tensor) -> Tensor:
        kernel = W.reshape(len(W), self.n_channels, *self.window)
        return nn.functional.conv2d(x, kernel, stride=self.step, padding=self.padding)

    def extra_repr(self) -> str:
        return f"window={self.window}, step={self.step}, padding={self.padding}"
