"""Where a config may say that a knowledge base is kept, and the keys that do not go together."""

from pathlib import Path
from typing import Any

import pytest
from retrieval_configs import config_with

from r1_router.config import load_config
from r1_router.errors import ConfigError

KEPT = {"passages": "a", "encoder": "text", "vectors": "v"}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({}, "'passages' is missing"),
        ({"passages": "a.jsonl", "folder": "b"}, "'encoder' is missing"),
        ({"url": "http://host:1", "folder": "b"}, "takes no 'folder'"),
        ({"url": "http://host:1", "lexical_weight": 0.5}, "lexical_weight"),
        ({"url": "host:8100"}, "expected a URL"),
        ({"url": "http://host:1", "store": {"milvus": "a.db", "collection": "c"}}, "either url or store"),
        ({"store": {"milvus": "a.db", "collection": "c"}}, "'passages' is missing"),
        ({"passages": "a", "encoder": "text", "store": {"milvus": "a.db", "collection": "c"}}, "'vectors' is missing"),
        ({**KEPT, "index": "IVF64,Flat", "store": {"milvus": "a.db", "collection": "c"}}, "takes no 'index'"),
        ({**KEPT, "store": {"milvus": "a", "collection": "c"}}, "found 'a'"),
        ({**KEPT, "store": {"milvus": "a.db", "collection": "a b"}}, "'a b'"),
        ({**KEPT, "folder": "b", "store": {"milvus": "a.db", "collection": "c"}}, "folder"),
        ({**KEPT, "encoder": "other", "store": {"milvus": "a.db", "collection": "c"}}, "'other' is not known"),
    ],
)
def test_keys_that_do_not_go_together_are_told(tmp_path: Path, source: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(config_with(tmp_path, **source))
