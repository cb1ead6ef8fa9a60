"""The operator's settings, read once from a file and the environment; docs/reference/operator.md is made from them.

A variable SPECLOOP_HEALTH_PORT sets healthPort, and so on for every field right under the top; it wins over the file.
Its value is YAML, where the field is anything but text.

SettingsError    settings that cannot be used; the message says where, what is wrong, and how to mend it
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import yaml
from pydantic import Field, ValidationError, field_validator
from pydantic.alias_generators import to_camel

from specloop_operator.door_settings import LeaseSettings, TlsSettings, WebhookSettings
from specloop_operator.serving import ALL
from specloop_operator.source_settings import (
    BasicAuthSettings,
    Part,
    PodsSettings,
    Port,
    PrometheusSourceSettings,
    SourceSettings,
    Word,
)
from specloop_policy.model import Name

PREFIX = "SPECLOOP_"

KINDS = {
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "tuple_type": "a list, such as [llm, chat]",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text; put it in quotes",
    "bool_type": "true or false",
    "invalid_key": "a text; put it in quotes",
}
"""What pydantic calls otherwise."""

PARTS: Mapping[str, type[Part]] = {
    "pods": PodsSettings,
    "prometheus": PrometheusSourceSettings,
    "basicAuth": BasicAuthSettings,
    "tls": TlsSettings,
    "lease": LeaseSettings,
    "webhook": WebhookSettings,
}
"""The model of a piece, by what pydantic's path to a mistake calls it."""


THE_PODS: Mapping[str, SourceSettings] = {"default": PodsSettings(type="pods")}
"""The sources where none are configured."""


class SettingsError(ValueError):
    """Settings that cannot be used; no use trying again before they are mended."""


class OperatorSettings(Part):
    """What the administrator of a cluster decides for all policies in it."""

    sources: Annotated[Mapping[Name, SourceSettings], Field(max_length=16)] = Field(
        default=THE_PODS,
        description="Where metrics come from, by the names that policies give as `signals.source`. By default one, "
        "`default`, which scrapes the pods, for that works wherever they can be reached.",
    )
    namespaces: Annotated[tuple[Name, ...], Field(strict=False, max_length=256)] = Field(
        default=(), description="Namespaces whose policies are looked after; by default all."
    )
    max_concurrent_rollouts: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="Roll-outs under way at a time, over all policies; 1, so that a mistake in one shows before the "
        "next begins.",
    )
    log_format: Literal["json", "text"] = Field(
        default="json", description="One line each as `json`, which log collectors want, or as `text` for people."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least important lines that are logged; `info`, a line a decision."
    )
    health_address: Word = Field(
        default=ALL,
        description="Address that `/healthz`, `/readyz`, `/metrics` and the webhook are served on; all, for kubelet, "
        "Prometheus and Alertmanager come from elsewhere: `::` is those of IPv4 and IPv6, or of IPv4 alone where the "
        "node has no IPv6.",
    )
    health_port: Port = Field(default=8080, description="Port that they are served on; 8080, as the chart has it.")
    tls: TlsSettings | None = Field(
        default=None, description="Certificate that they are served with; by default they are served as plain http."
    )
    target_kinds: Annotated[tuple[Literal["Deployment", "StatefulSet"], ...], Field(strict=False, min_length=1)] = (
        Field(
            default=("Deployment", "StatefulSet"),
            description="Kinds of workload that are watched and governed; by default all, for which the role needs "
            "rights.",
        )
    )
    lease: LeaseSettings | None = Field(
        default=None,
        description="The Lease by which one of several operators is chosen that acts; by default there is none, and "
        "this operator takes itself for the only one.",
    )
    webhook: WebhookSettings | None = Field(
        default=None, description="The door for Alertmanager's messages; by default there is none."
    )

    @field_validator("sources")
    @classmethod
    def some_source(cls, sources: Mapping[str, SourceSettings]) -> Mapping[str, SourceSettings]:
        """No sources are the same as none configured."""
        return sources or THE_PODS


def load_settings(path: Path | None, environment: Mapping[str, str]) -> OperatorSettings:
    """The settings in a YAML file, if there is one, and in the environment; raises SettingsError in one line."""
    variables = _variables(environment)
    values = {name: value for name, (_, value) in variables.items()}
    try:
        return OperatorSettings.model_validate({**_in_file(path), **values})
    except ValidationError as error:
        where, message = _described(error.errors()[0])
        source = variables[str(where[0])][0] if where[0] in variables else str(path)
        more = f"; and {error.error_count() - 1} more" if error.error_count() > 1 else ""
        raise SettingsError(_line(source, ".".join(map(str, where)), message) + more) from error


def _in_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(_line(str(path), "", f"cannot be read: {error}; give the file with --config")) from error
    found = _yaml(str(path), text)
    if found is not None and not isinstance(found, dict):
        raise SettingsError(_line(str(path), "", "must be a mapping of fields, such as logLevel: info"))
    return {name: value for name, value in (found or {}).items() if value is not None}


def _variables(environment: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """The fields that the environment sets, each with its variable and its value; an empty one sets nothing.

    Others with our prefix are passed over: Kubernetes makes some up from the names of Services.
    """
    found = {}
    for name, field in OperatorSettings.model_fields.items():
        variable = PREFIX + name.upper()
        if text := environment.get(variable, ""):
            is_text = field.annotation is str or get_origin(field.annotation) is Literal
            found[to_camel(name)] = (variable, text if is_text else _yaml(variable, text))
    return found


class _Loader(yaml.SafeLoader):
    """YAML in which a field may be given once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: list[object] = []
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} is given twice", problem_mark=key.start_mark
                )
            seen.append(key.value)
        return super().construct_mapping(node, deep)


def _yaml(source: str, text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "nested too deep"
        raise SettingsError(_line(source, "", f"{place}{problem}; mend the YAML there or above")) from error


def _described(error: Any) -> tuple[tuple[str | int, ...], str]:
    """Where something is wrong, and what, with the mend."""
    path, kind, message = error["loc"], error["type"], error["msg"].removeprefix("Value error, ")
    where = tuple(key for place, key in enumerate(path) if key != "[key]" and (path[0], place) != ("sources", 2))
    if kind == "extra_forbidden":
        part = next((PARTS[key] for key in reversed(path[:-1]) if key in PARTS), OperatorSettings)
        return where, f"unknown field; fields here: {', '.join(map(to_camel, part.model_fields))}"
    if kind == "missing":
        return where, "is missing; add it"
    if kind == "union_tag_not_found":
        return (*where, "type"), "is missing; give pods or prometheus"
    if kind == "union_tag_invalid":
        return (*where, "type"), "must be pods or prometheus"
    if kind == "string_pattern_mismatch":
        return where, "must begin with /" if where[-1] == "path" else "is no name: lower-case letters, digits, dashes"
    if kind in KINDS:
        return where, f"must be {KINDS[kind]}"
    return where, message if kind == "value_error" else f"must{message.partition(' should')[2]}"


def _line(source: str, field: str, message: str) -> str:
    line = f"{source}: {field}{': ' if field else ''}{message}"
    return "".join(letter if letter.isprintable() else "?" for letter in line)
