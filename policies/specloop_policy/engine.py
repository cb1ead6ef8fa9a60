"""The engines that SpecLoop knows, by the names that policies use."""

from enum import StrEnum


class Engine(StrEnum):
    """The serving engine."""

    AUTO = "Auto"
    VLLM = "VLLM"
    LLAMACPP = "LlamaCpp"
