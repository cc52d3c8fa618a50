"""LlamaIndex: a node postprocessor. Its base class runs it asynchronously in a thread."""

from typing import Annotated

from jpr.adapters.choose import K, check_k, choose
from jpr.errors import DataError, needs_extra
from jpr.stages import Reranker

with needs_extra("the adapter for LlamaIndex", "llamaindex"):
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
    from pydantic import AfterValidator, SkipValidation


class JprPostprocessor(BaseNodePostprocessor):
    """Keeps the nodes of a query that together cover the most answers."""

    reranker: SkipValidation[Reranker] | None = None
    """By default the bundled joint model, loaded at the first query."""
    top_n: Annotated[int, AfterValidator(check_k)] = K

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serializes it."""
        return "JprPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise DataError("nodes without a query; give query_str or query_bundle")
        given = [
            (found.node.get_content(MetadataMode.NONE), found.node.metadata, found.score)
            for found in nodes
        ]
        chosen = choose(self.reranker, query_bundle.query_str, given, self.top_n)
        return [NodeWithScore(node=nodes[at].node, score=score) for at, score in chosen]
