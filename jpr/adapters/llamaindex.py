"""LlamaIndex: a node postprocessor. It is asynchronous as its base class is: in a thread."""

from typing import Annotated

from jpr.adapters.choose import K, candidate, checked, choose
from jpr.errors import DataError, MissingExtraError
from jpr.stages import Reranker

try:
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
    from pydantic import AfterValidator, SkipValidation
except ImportError as error:
    raise MissingExtraError("the adapter for LlamaIndex", "llamaindex") from error


class JprPostprocessor(BaseNodePostprocessor):
    """Keeps, of the nodes found for a query, those that together hold the most answers."""

    reranker: SkipValidation[Reranker] | None = None
    """Without one, the joint model that comes with the package, opened at the first query."""
    top_n: Annotated[int, AfterValidator(checked)] = K

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex writes it down."""
        return "JprPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise DataError("nodes without a query; give query_str or query_bundle")
        hits = [
            candidate(
                place, found.node.get_content(MetadataMode.NONE), found.node.metadata, found.score
            )
            for place, found in enumerate(nodes)
        ]
        chosen = choose(self.reranker, query_bundle.query_str, hits, self.top_n)
        return [NodeWithScore(node=nodes[place].node, score=score) for place, score in chosen]
