"""The first stage: a corpus becomes an index, a question the candidates for reranking.

An index holds passages with lexical (BM25) and dense parts, in files or in Milvus. Nothing here
knows rerankers or answers.
"""
