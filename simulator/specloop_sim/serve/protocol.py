"""The part of OpenAI's protocol that is spoken: requests read, answers and errors written, as vLLM writes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specloop_sim.luck import deal_normal
from specloop_sim.request import Finish, Request
from specloop_sim.text import answer_tokens, kind_of

CHARACTERS_PER_TOKEN = 4
"""English text with usual tokenizers, as a rule of thumb: assumed."""
DEFAULT_MAX_TOKENS = 16
"""Of `/v1/completions`."""
DEFAULT_TEMPERATURE = 1.0
WORDS = ("this", "text", "is", "simulated", "and", "means", "nothing", "but", "its", "length")


class BadRequest(ValueError):
    """A request that is answered with an error; sending it again does not help."""

    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client asks for, read from a body."""

    id: str
    chat: bool
    model: str
    prompt: str
    prompt_tokens: int
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    temperature: float
    streams: bool
    stream_usage: bool

    def request(self, now: float, max_model_len: int, seed: int) -> Request:
        """The request that the engine gets, with the length that its answer will have."""
        kind = kind_of(self.prompt)
        limit = self._limit(max_model_len)
        natural = max(self.min_tokens, answer_tokens(kind, deal_normal(seed, self.id)))
        cut = self.ignore_eos or natural > limit
        return Request(
            id=self.id,
            arrival=now,
            prompt_tokens=self.prompt_tokens,
            output_tokens=limit if cut else natural,
            temperature=self.temperature,
            kind=kind,
            finish=Finish.LENGTH if cut else Finish.STOP,
            max_tokens=limit,
        )

    def _limit(self, max_model_len: int) -> int:
        """The most tokens that the answer may have; raises BadRequest."""
        room = max_model_len - self.prompt_tokens
        if room < 1:
            raise BadRequest(
                f"This model's maximum context length is {max_model_len} tokens. However, your request has "
                f"{self.prompt_tokens} input tokens. Please reduce the length of the input messages."
            )
        if self.max_tokens is not None and self.max_tokens > room:
            raise BadRequest(
                f"'max_tokens' or 'max_completion_tokens' is too large: {self.max_tokens}. This model's maximum "
                f"context length is {max_model_len} tokens and your request has {self.prompt_tokens} input tokens."
            )
        return room if self.max_tokens is None else self.max_tokens


def read_ask(body: bytes, chat: bool, served: Sequence[str], number: int, speculates: bool) -> Ask:
    """Read a body; raises BadRequest.  `request_id` in it decides the request's luck, else its `number` does."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise BadRequest("the body is no JSON object")
    model = values.get("model", served[0])
    if model not in served:
        raise BadRequest(f"The model `{model}` does not exist.", 404, "NotFoundError")
    _refuse(values, speculates)
    prompt, tokens = _chat_prompt(values.get("messages")) if chat else _prompt(values.get("prompt"))
    own = values.get("request_id")
    options = values.get("stream_options")
    return Ask(
        id=f"{'chatcmpl' if chat else 'cmpl'}-{own if isinstance(own, str) and own else number}",
        chat=chat,
        model=served[0],
        prompt=prompt,
        prompt_tokens=tokens,
        max_tokens=_max_tokens(values, chat),
        min_tokens=_whole(values, "min_tokens", 0, 0) or 0,
        ignore_eos=values.get("ignore_eos") is True,
        temperature=_temperature(values),
        streams=values.get("stream") is True,
        stream_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _refuse(values: Mapping[str, Any], speculates: bool) -> None:
    if _whole(values, "n", 1, 1) != 1:
        raise BadRequest("the simulated server gives one choice: n must be 1")
    if speculates and (values.get("min_p") or values.get("logit_bias")):
        # vLLM 0.17 and later.
        raise BadRequest(
            "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        )


def _max_tokens(values: Mapping[str, Any], chat: bool) -> int | None:
    if chat:
        return _whole(values, "max_completion_tokens", 1, None) or _whole(values, "max_tokens", 1, None)
    return _whole(values, "max_tokens", 1, DEFAULT_MAX_TOKENS)


def _whole(values: Mapping[str, Any], name: str, least: int, default: int | None) -> int | None:
    value = values.get(name)
    if value is None:
        return default
    if type(value) is not int or value < least:
        raise BadRequest(f"{name} must be a whole number of at least {least}, got {value}.")
    return value


def _temperature(values: Mapping[str, Any]) -> float:
    value = values.get("temperature")
    if value is None:
        return DEFAULT_TEMPERATURE
    if type(value) not in (int, float) or not 0.0 <= value < float("inf"):
        raise BadRequest(f"temperature must be non-negative, got {value}.")
    return float(value)


def _prompt(value: Any) -> tuple[str, int]:
    """Text and number of tokens of one prompt: text, or token numbers, or a list of one of either."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value, count_tokens(value)
    if isinstance(value, list) and value and all(type(token) is int for token in value):
        return "", len(value)
    raise BadRequest("prompt must be one text or one list of token numbers")


def _chat_prompt(messages: Any) -> tuple[str, int]:
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise BadRequest("messages must be a list of at least one message")
    text = "\n".join(part for message in messages for part in _parts(message.get("content")))
    return text, count_tokens(text)


def _parts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def count_tokens(text: str) -> int:
    """About as many tokens as a tokenizer would make of it, at least one."""
    return max(1, -(-len(text) // CHARACTERS_PER_TOKEN))


def filler(start: int, end: int) -> str:
    """Words in place of tokens `start` to `end` (exclusive) of an answer."""
    turn = start % len(WORDS)
    words = [f"{word} " for word in WORDS[turn:] + WORDS[:turn]]
    rounds, rest = divmod(end - start, len(words))
    return "".join(words) * rounds + "".join(words[:rest])


def whole_answer(ask: Ask, created: int, tokens: int, finish: Finish) -> dict[str, Any]:
    """An answer in one piece."""
    text = filler(0, tokens)
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish.value, "stop_reason": None}
    if ask.chat:
        choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
    else:
        choice["text"] = text
    return {**_head(ask, created, streamed=False), "choices": [choice], "usage": usage(ask, tokens)}


def first_chunk(ask: Ask, created: int) -> dict[str, Any] | None:
    """What a streamed chat begins with, before any token."""
    if not ask.chat:
        return None
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    return {**_head(ask, created, streamed=True), "choices": [choice]}


def text_chunk(ask: Ask, created: int, text: str, finish: Finish | None) -> dict[str, Any]:
    """One piece of a streamed answer."""
    choice: dict[str, Any] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": finish and finish.value,
        "stop_reason": None,
    }
    if ask.chat:
        choice["delta"] = {"content": text}
    else:
        choice["text"] = text
    return {**_head(ask, created, streamed=True), "choices": [choice]}


def usage_chunk(ask: Ask, created: int, tokens: int) -> dict[str, Any]:
    """The last piece of a streamed answer whose client asked for usage."""
    return {**_head(ask, created, streamed=True), "choices": [], "usage": usage(ask, tokens)}


def usage(ask: Ask, tokens: int) -> dict[str, Any]:
    """Tokens in and out."""
    return {
        "prompt_tokens": ask.prompt_tokens,
        "total_tokens": ask.prompt_tokens + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": None,
    }


def _head(ask: Ask, created: int, streamed: bool) -> dict[str, Any]:
    kind = ("chat.completion.chunk" if streamed else "chat.completion") if ask.chat else "text_completion"
    return {"id": ask.id, "object": kind, "created": created, "model": ask.model, "system_fingerprint": "simulated"}


def error_body(message: str, status: int, kind: str) -> dict[str, Any]:
    """An error as vLLM words it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}
