"""Training: torch, numpy, tokenizers and safetensors are all it needs; no stage depends on it."""
