"""Lets a CUDA-built torchvision be imported beside a CPU-only torch: `python scripts/torchvision_on_cpu.py`.

torchvision registers Python halves of two operators whose other halves are in its CUDA library, which such a torch
cannot load. This puts a start-up hook into the environment's site-packages that declares the two names first. Nothing
here calls them: vLLM imports torchvision for its image transforms only.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

HOOK = '''\
"""Declares torchvision's two compiled operators when it is first imported; see the project's scripts."""

import sys
from importlib.abc import MetaPathFinder


class DeclareOperators(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            torch.torchvision_operators = library  # the declarations end with this object
        return None


sys.meta_path.insert(0, DeclareOperators())
'''


def main() -> None:
    packages = Path(sysconfig.get_paths()["purelib"])
    (packages / "torchvision_on_cpu.py").write_text(HOOK, encoding="utf-8")
    (packages / "torchvision_on_cpu.pth").write_text("import torchvision_on_cpu\n", encoding="utf-8")


if __name__ == "__main__":
    main()
