"""Neural networks: token ids in, vectors and log-probabilities out; no strings, no search.

Weights are Hugging Face's or our own, in torch or ONNX; `kernels/` holds what only a GPU needs.
"""
