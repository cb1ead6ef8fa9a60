"""The documents of a manifest: workloads are injected, or given back as they were, and all else passes as it is."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from specloop_cli.errors import InputError
from specloop_cli.inject_additions import Options, Plan
from specloop_cli.inject_edits import Edits
from specloop_cli.inject_engine import EngineContainer, NoEngine, find, mapping, mappings
from specloop_cli.inject_plan import plan
from specloop_cli.inject_record import carry_out, is_injected, undo
from specloop_cli.inject_yaml import Path, Refusal, Sheet, shared_nodes
from specloop_cli.policy_file import line_of, title
from specloop_cli.yaml_file import BadFile, Mistake, peek, read_nodes, to_document

TEMPLATES: Mapping[tuple[str, str], Path] = {
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "StatefulSet"): ("spec", "template"),
    ("v1", "Pod"): (),
}
"""Where each kind has its pod template."""
KINDS = "Deployment, StatefulSet, Pod, or a List of them"
HELM = re.compile(r"\{\{-?\s*(?:\.[A-Z]|\$|include\b|tpl\b|toYaml\b|if\b|else\b|range\b|with\b|end\b|template\b)")
"""How a template's actions begin; what models call chat templates looks different."""
RENDER = "this is a Helm template: render it first (helm template ... | specloop inject -f -)"


@dataclass(frozen=True, slots=True)
class Workload:
    """What was done to one object."""

    file: str
    kind: str
    name: str
    container: str | None = None
    done: str = "passed"
    """injected, restored, unchanged or passed."""
    added: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Manifest:
    """A file before and after."""

    path: str
    before: str
    after: str
    workloads: list[Workload]
    others: list[str]
    """Objects of other kinds."""


@dataclass(slots=True)
class _Object:
    """An object of a file, at the top or in a List."""

    sheet: Sheet
    kind: str
    version: str
    name: str

    @property
    def template(self) -> Path | None:
        return TEMPLATES.get((self.version, self.kind))

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(slots=True)
class _File:
    """A file with its objects and the changes to it."""

    path: str
    edits: Edits
    objects: list[_Object] = field(default_factory=list)

    @property
    def others(self) -> list[str]:
        return [str(one) for one in self.objects if one.template is None]

    def refused(self, one: _Object, why: object) -> InputError:
        line = one.sheet.root.start_mark.line + 1
        return InputError(f"{title(self.path)}:{line}: {one}: {why}")

    def template(self, one: _Object) -> tuple[Sheet, Mapping[str, Any]] | None:
        """The pod template of a workload, also as data; None for another object."""
        if one.template is None:
            return None
        root = one.sheet.root
        if HELM.search(self.edits.before[root.start_mark.index : root.end_mark.index]):
            raise self.refused(one, RENDER)
        try:
            node = one.sheet.find(one.template)
            if node is None:
                return None
            document = to_document(node)
        except Refusal as refusal:
            raise self.refused(one, refusal) from refusal
        except BadFile as bad:
            raise self._bad(bad.mistake) from bad
        if document.mistakes:
            raise self._bad(document.mistakes[0], f"{one}: ")
        return Sheet(self.edits, node, one.sheet.shared), mapping(document.data)

    def _bad(self, mistake: Mistake, of: str = "") -> InputError:
        said = Mistake(mistake.field, mistake.line, of + mistake.message, _hint(mistake))
        return InputError(line_of(self.path, said))


def injected(path: str, text: str, options: Options) -> Manifest:
    """A file with every vLLM workload in it injected; InputError where one cannot be."""
    file = _read(path, text)
    workloads, done = [], []
    for place, one in enumerate(file.objects):
        try:
            found = _inject(file, one, options)
        except Refusal as refusal:
            raise file.refused(one, refusal) from refusal
        if found is None:
            continue
        workloads.append(found[0])
        if found[1] is not None:
            done.append((place, found[1]))
    after = file.edits.text
    _check(path, text, after, done, options)
    return Manifest(path, text, after, workloads, file.others)


def restored(path: str, text: str) -> Manifest:
    """A file as it was before injection; InputError where that cannot be told."""
    file = _read(path, text)
    workloads = []
    for one in file.objects:
        found = file.template(one)
        if found is None:
            continue
        try:
            was = is_injected(found[0])
            if was:
                undo(found[0])
        except Refusal as refusal:
            raise file.refused(one, refusal) from refusal
        workloads.append(Workload(title(path), one.kind, one.name, done="restored" if was else "passed"))
    return Manifest(path, text, file.edits.text, workloads, file.others)


def _inject(file: _File, one: _Object, options: Options) -> tuple[Workload, Plan | None] | None:
    """What is done to an object, with the plan where it is injected now; None where it is no workload."""
    found = file.template(one)
    if found is None:
        _refuse_hidden_engine(file, one)
        return None
    sheet, data = found
    about = title(file.path), one.kind, one.name
    if is_injected(sheet):
        note = "is injected already, and left as it is: to inject it otherwise, --uninject it first"
        return Workload(*about, done="unchanged", notes=(note,)), None
    try:
        engine = find(data, options.container, options.version)
    except NoEngine as none:
        return Workload(*about, notes=(str(none),) if str(none) else ()), None
    made = plan(data, engine, options)
    carry_out(sheet, made)
    return Workload(*about, engine.name, "injected", tuple(made.added), tuple(made.notes)), made


def _refuse_hidden_engine(file: _File, one: _Object) -> None:
    """Refuse an object of another kind that runs vLLM; one that is too large to look into passes."""
    root = one.sheet.root
    if "vllm" not in file.edits.before[root.start_mark.index : root.end_mark.index]:
        return
    try:
        data = to_document(root).data
    except BadFile:
        return
    for spec in _pod_specs(data):
        try:
            found = find({"spec": spec}, None, None)
        except (NoEngine, Refusal):
            continue
        raise Refusal(f"container {found.name} runs vLLM, and this is not a kind that inject understands ({KINDS})")


def _pod_specs(data: Any) -> Iterator[Mapping[str, Any]]:
    """Whatever has a list of containers, at any depth."""
    rest = [data]
    while rest:
        one = rest.pop()
        if isinstance(one, Mapping):
            if mappings(one.get("containers")):
                yield one
            rest += one.values()
        elif isinstance(one, list):
            rest += one


def _check(path: str, before: str, after: str, done: list[tuple[int, Plan]], options: Options) -> None:
    """Read back what would be printed, and undo it once: what does not come out right is not printed."""
    file = _read(path, after)
    for place, made in done:
        one = file.objects[place]
        found = file.template(one)
        assert found is not None
        try:
            engine = find(found[1], options.container, options.version)
            right = _is_right(engine, made)
            undo(found[0])
        except (NoEngine, Refusal) as error:
            raise file.refused(one, f"this cannot be edited for sure ({error}); write it more plainly") from error
        if not right:
            raise file.refused(one, "the command cannot be edited for sure; quote it more plainly")
    if file.edits.text != before:
        raise InputError(f"{title(path)}: the way back would not give what was there; write the YAML more plainly")


def _is_right(engine: EngineContainer, made: Plan) -> bool:
    middleware = engine.line.flag("--middleware")
    return (
        engine.line.speculation == made.speculation
        and engine.setting == made.setting
        and middleware is not None
        and middleware.value == "specloop_vllm.Middleware"
    )


def _read(path: str, text: str) -> _File:
    file = _File(path, Edits(text))
    try:
        for node in read_nodes(text):
            shared = shared_nodes(node)
            file.objects += (_object(Sheet(file.edits, one, shared)) for one in _items(node))
    except BadFile as bad:
        hint = RENDER if HELM.search(text) else _hint(bad.mistake)
        raise InputError(line_of(path, Mistake("", bad.mistake.line, bad.mistake.message, hint))) from bad
    return file


def _items(node: yaml.Node) -> Iterable[yaml.Node]:
    """The objects of a document: those of a List, or itself."""
    if isinstance(node, yaml.MappingNode) and peek(node, "kind") == "List":
        items = next((value for key, value in node.value if key.value == "items"), None)
        if isinstance(items, yaml.SequenceNode):
            return items.value  # type: ignore[no-any-return]
    return (node,)


def _object(sheet: Sheet) -> _Object:
    root = sheet.root
    metadata = next((value for key, value in root.value if key.value == "metadata"), None) if _is_map(root) else None
    name = peek(metadata, "name") if metadata is not None else None
    return _Object(sheet, peek(root, "kind") or "object", peek(root, "apiVersion") or "", name or "(no name)")


def _is_map(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode)


def _hint(mistake: Mistake) -> str:
    """How to mend it; some hints are for policies."""
    return "give the workload's manifest alone" if "policy" in mistake.hint else mistake.hint
