"""jpr inside other libraries, one file each, over any reranker; see docs/adapters.md."""
