"""jpr in other libraries, one file each, with any reranker; see docs/adapters.md.

`choose` is what they share; no adapter knows another.
"""
