"""The first stage: from a corpus to the candidates that a reranker chooses from."""
