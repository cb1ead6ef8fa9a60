"""What is known of an engine from its container."""

import pytest

from specloop_engine.container import engine_release


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("vllm/vllm-openai:v0.32.0", "v0.32.0"),
        ("registry.example:5000/mirror/vllm/vllm-openai:v0.11.0@sha256:00", "v0.11.0"),
        ("vllm-openai-cpu:0.20.1", "0.20.1"),
        ("ghcr.io/ggml-org/llama.cpp:server-b4567", "server-b4567"),
        ("vllm/vllm-openai:latest", None),
        ("registry.example:5000/vllm/vllm-openai", None),
        ("nvcr.io/nvidia/vllm:25.09-py3", None),
        ("lmcache/vllm-openai:v0.3.9post2", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", None),
        ("kserve/huggingfaceserver:v0.15.0", None),
    ],
)
def test_the_release_is_the_tag_of_images_that_are_tagged_by_it(image: str, release: str | None) -> None:
    """Images that hold an engine beside something else have that one's tags."""
    assert engine_release(image) == release
