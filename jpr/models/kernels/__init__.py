"""Triton kernels and CUDA graphs: optional, for speed on a GPU; they know no model.

`dispatch` says where they apply; the layers call them, or torch.
"""
