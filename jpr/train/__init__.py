"""Training of joint rerankers, readers and dual encoders, and the packs they are trained on.

Needs torch, numpy, tokenizers and safetensors alone (making packs needs more). No stage of
answering a question depends on it.
"""
