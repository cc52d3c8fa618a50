"""Triton kernels and CUDA graphs: optional, for speed on a GPU; they know no model.

`dispatch` has an operation for each kernel, with the plain torch code beside it.
"""
