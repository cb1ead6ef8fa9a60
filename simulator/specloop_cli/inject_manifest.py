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
from specloop_cli.inject_record import RECORD, carry_out, is_injected, undo
from specloop_cli.inject_yaml import Path, Refusal, Sheet, shared_nodes
from specloop_cli.policy_file import title
from specloop_cli.yaml_file import MAX_BYTES, BadFile, Mistake, peek, read_nodes, read_text, to_document

TEMPLATES: Mapping[tuple[str, str], Path] = {
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "StatefulSet"): ("spec", "template"),
    ("v1", "Pod"): (),
}
"""Where each kind has its pod template."""
KINDS = "Deployment or StatefulSet of apps/v1, Pod, or a List of them"
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

    def refused(self, one: _Object, why: object, line: int | None = None) -> InputError:
        """With the line of what is wrong, or else that of the object."""
        place = one.sheet.root.start_mark.line + 1 if line is None else line
        return InputError(f"{title(self.path)}:{place}: {one}: {why}")

    def text(self, one: _Object) -> str:
        root = one.sheet.root
        return self.edits.before[root.start_mark.index : root.end_mark.index]

    def mentions_vllm(self, one: _Object) -> bool:
        """Whether there may be vLLM in an object: what is neither in a command nor an image is not found."""
        return "vllm" in self.text(one).lower()

    def template(self, one: _Object) -> tuple[Sheet, Mapping[str, Any]] | None:
        """The pod template of a workload, also as data; None for another object."""
        if one.template is None:
            return None
        if HELM.search(self.text(one)):
            raise self.refused(one, RENDER)
        try:
            node = one.sheet.find(one.template)
            if node is None:
                return None
            document = to_document(node)
        except Refusal as refusal:
            raise self.refused(one, refusal) from refusal
        except BadFile as bad:
            raise self.refused(one, _words(bad.mistake), bad.mistake.line) from bad
        if document.mistakes:
            mistake = document.mistakes[0]
            field = ".".join(map(str, (*one.template, mistake.field)))
            raise self.refused(one, f"{field}: {_words(mistake)}", mistake.line)
        return Sheet(self.edits, node, one.sheet.shared), mapping(document.data)


def text_of(path: str) -> str:
    """Text of a file; `-` is standard input.  Raises InputError."""
    try:
        return read_text(path)
    except BadFile as bad:
        raise InputError(f"{title(path)}:{bad.mistake.line}: {_words(bad.mistake)}") from bad


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
        found = file.template(one) if one.template is not None and RECORD in file.text(one) else None
        try:
            was = found is not None and is_injected(found[0])
            if found is not None and was:
                undo(found[0])
        except Refusal as refusal:
            raise file.refused(one, refusal) from refusal
        if one.template is not None:
            workloads.append(Workload(title(path), one.kind, one.name, done="restored" if was else "passed"))
    return Manifest(path, text, file.edits.text, workloads, file.others)


def _inject(file: _File, one: _Object, options: Options) -> tuple[Workload, Plan | None] | None:
    """What is done to an object, with the plan where it is injected now; None where it is no workload."""
    if one.template is None:
        _refuse_hidden_engine(file, one)
        return None
    about = title(file.path), one.kind, one.name
    try:
        found = file.template(one)
        unchanged = found is not None and is_injected(found[0])
    except (Refusal, InputError):
        if file.mentions_vllm(one) or options.container:
            raise
        return Workload(*about), None  # whatever is wrong with it
    if found is None:
        return Workload(*about), None
    if unchanged:
        note = "is injected already, and left as it is: to inject it otherwise, --uninject it first"
        return Workload(*about, done="unchanged", notes=(note,)), None
    sheet, data = found
    try:
        engine = find(data, options.container, options.version)
    except NoEngine as none:
        return Workload(*about, notes=(str(none),) if str(none) else ()), None
    made = plan(data, engine, options)
    carry_out(sheet, made)
    return Workload(*about, engine.name, "injected", tuple(made.added), tuple(made.notes)), made


def _refuse_hidden_engine(file: _File, one: _Object) -> None:
    """Refuse an object of another kind that runs vLLM; one that is too large to look into passes."""
    if not file.mentions_vllm(one):
        return
    try:
        data = to_document(one.sheet.root).data
    except BadFile:
        return
    for spec in _pod_specs(data):
        try:
            which = f"container {find({'spec': spec}, None, None).name}"
        except NoEngine:
            continue
        except Refusal:
            which = "it"
        kind = f"{one.kind} of {one.version or 'no apiVersion'}"
        raise Refusal(f"{which} runs vLLM, and {kind} is not a kind that inject understands ({KINDS}): leave it out")


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
    if done and len(after.encode()) > MAX_BYTES:
        raise InputError(f"{title(path)}: injected it would be too large to be read again: split it in two")
    try:
        file = _read(path, after)
    except InputError as error:
        raise InputError(f"{title(path)}: something cannot be put in for sure; write the YAML more plainly") from error
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
        said = f"{bad.mistake.message} ({RENDER})" if HELM.search(text) else _words(bad.mistake)
        raise InputError(f"{title(path)}:{bad.mistake.line}: {said}") from bad
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


def _words(mistake: Mistake) -> str:
    """What is wrong and how to mend it; some hints of the reader are for policies."""
    hint = "give the workload's manifest alone" if "policy" in mistake.hint else mistake.hint
    return f"{mistake.message} ({hint})" if hint else mistake.message
