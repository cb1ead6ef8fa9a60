"""Which of a command's words are the engine's arguments: past entry points, interpreters and a shell's script."""

import re
from collections.abc import Iterable, Mapping, Sequence

from specloop_engine.shell import simple_commands
from specloop_engine.words import REFERENCE, CommandLineError, Piece, Quote, Source, Word, item_pieces
from specloop_policy.engine import Engine

LONGEST_ITEM = 131_071
"""Bytes: Linux starts no program with a longer argument (MAX_ARG_STRLEN)."""
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
WRAPPERS = frozenset(
    {"exec", "env", "nohup", "nice", "ionice", "chrt", "setsid", "stdbuf", "time", "timeout", "numactl", "taskset"}
    | {"tini", "dumb-init", "catatonit", "gosu", "su-exec", "setpriv", "sudo", "uv", "nsys", "ddtrace-run"}
    | {"opentelemetry-instrument"}
)
"""Programs that start the rest of their words."""
VLLM_MODULE = re.compile(r"vllm\.entrypoints\.[\w.]+")
VLLM_SCRIPT = re.compile(r"(?:.*/)?vllm/entrypoints/openai/api_server\.py")
LLAMA_SERVER = re.compile(r"(?:.*[-_.])?llama-server(?:\.exe)?")
LLAMA_MARKS = frozenset(
    {"-m", "-hf", "-hfr", "-ngl", "-c", "-np", "--hf-repo", "--ctx-size", "--n-gpu-layers", "--gpu-layers"}
)
"""Flags that llama-server has and vLLM has not; none that may be taken away."""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
ALONE = frozenset({"", ";", "&&", "||", "&", "\n"})
"""Operators beside which a command runs as it is written."""
NAMED_FLAGS = re.compile(r"ARG|OPT|FLAG|EXTRA|SPEC", re.IGNORECASE)


def find_engine(
    command: tuple[str, ...], args: tuple[str, ...], engine: Engine, environment: Mapping[str, str] | None
) -> tuple[Source, Engine]:
    """The words that are the engine's arguments, and which engine it is; `engine` is what the policy says.

    Raises CommandLineError where there is no engine to be found, or not for sure.
    """
    items = command + args
    for item in items:
        if "\0" in item or len(item.encode("utf-8", "surrogatepass")) > LONGEST_ITEM:
            raise CommandLineError(item, "no program starts with this", f"keep to {LONGEST_ITEM} bytes without NUL")
    words = tuple(Word(place, 0, len(item), item_pieces(item, environment)) for place, item in enumerate(items))
    script = _script_place(words)
    if script is not None:
        words = _engine_words(words[script], engine, environment)
    program, found = _program(words, engine, bare=not command and script is None)
    if engine not in (Engine.AUTO, found):
        raise CommandLineError(
            words[program].value, f"this starts {found}, not {engine}", "correct the policy's engine"
        )
    named = words[program] if program >= 0 else None
    _check_arguments(words[program + 1 :], with_model=found is Engine.VLLM and (not named or named.value == "serve"))
    return Source(command, args, words[program + 1 :], named, environment is not None), found


def _script_place(words: Sequence[Word]) -> int | None:
    """The place of a shell's script among the items; None where no shell reads one."""
    values = [word.value for word in words]
    shell = next((place for place, value in enumerate(values) if _program_name(value) in SHELLS), None)
    if shell is None or _locate(values[:shell]):
        return None
    place = shell + 1
    while place < len(values) and values[place].startswith(("-", "+")):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", values[place]):
            # `-ec` has the script right after it, `-co pipefail` and `-c -e` have not.
            following = place + 1 + values[place].endswith("o")
            return following if following < len(values) and not values[following].startswith("-") else None
        place += 1 + values[place].endswith("o")
    return None


def _program_name(value: str) -> str:
    return value.rsplit("/", 1)[-1]


def _locate(values: Sequence[str]) -> tuple[int, Engine] | None:
    """The engine's program among words: its last word's place, which may be `serve` or a module's name."""
    for place, value in enumerate(values):
        name, following = _program_name(value), values[place + 1 : place + 2]
        if (name == "vllm" and following == ["serve"]) or (name == "llama" and following == ["serve"]):
            return place + 1, Engine.VLLM if name == "vllm" else Engine.LLAMACPP
        if LLAMA_SERVER.fullmatch(name):
            return place, Engine.LLAMACPP
        if VLLM_SCRIPT.fullmatch(value):
            return place, Engine.VLLM
        if value == "-m" and VLLM_MODULE.fullmatch("".join(following)):
            with_subcommand = following[0].endswith("cli.main")
            if not with_subcommand or values[place + 2 : place + 3] == ["serve"]:
                return place + 1 + with_subcommand, Engine.VLLM
    return None


def _engine_words(script: Word, engine: Engine, environment: Mapping[str, str] | None) -> tuple[Word, ...]:
    """The words of the one simple command of a script that starts the engine."""
    commands = simple_commands(script.pieces, environment)
    values = [[_value(word.pieces) for word in command.words] for command in commands]
    starting = [place for place, words in enumerate(values) if _starts_engine(words)]
    if not starting and engine is not Engine.AUTO and len(commands) == 1:
        starting = [0]
    if len(starting) != 1:
        problem = "more than one command starts an engine" if starting else "no command is seen to start an engine"
        raise CommandLineError(script.value, problem, "start it once, as `exec vllm serve ...`")
    chosen = commands[starting[0]]
    if chosen.before not in ALONE or chosen.after not in ALONE:
        raise CommandLineError(script.value, "the engine is part of a pipe or a subshell", "start it by itself")
    elsewhere = [value for place, words in enumerate(values) if place != starting[0] for value in words]
    if any(value.startswith("--spec") for value in elsewhere):
        raise CommandLineError(script.value, "another command has speculative flags too", "keep them in one command")
    return tuple(Word(script.item, word.start, word.end, word.pieces, shell=True) for word in chosen.words)


def _value(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _starts_engine(values: Sequence[str]) -> bool:
    """Whether a simple command starts an engine: by itself, or through a program that starts the rest of its words."""
    located = _locate(values)
    first = next((place for place, value in enumerate(values) if not ASSIGNMENT.match(value)), 0)
    if located is None:
        return False
    name = _program_name(values[first])
    return name in WRAPPERS or name.startswith("python") or first in (located[0], located[0] - 1)


def _program(words: Sequence[Word], engine: Engine, bare: bool) -> tuple[int, Engine]:
    """The place of the program's last word, -1 where the image names the program, and the engine."""
    values = [word.value for word in words]
    if located := _locate(values):
        return located
    if engine is Engine.AUTO and (not bare or not _is_bare(values)):
        raise CommandLineError(" ".join(values), "no engine is seen to start here", "name it in the policy's engine")
    if not bare:
        return 0, engine
    guess = Engine.LLAMACPP if LLAMA_MARKS & set(values) else Engine.VLLM
    return -1, guess if engine is Engine.AUTO else engine


def _is_bare(values: Sequence[str]) -> bool:
    """Whether words look like an engine's arguments: flags, perhaps `serve` or a model before them."""
    rest = values[1:] if values[:1] == ["serve"] else values
    return all(value.startswith("-") for value in rest[1:2]) or rest[0].startswith("-")


def _check_arguments(arguments: Sequence[Word], with_model: bool) -> None:
    """Refuse arguments that may be, or hide, flags that are not seen here."""
    for place, word in enumerate(arguments):
        if word.value == "--":
            raise CommandLineError("--", "what comes after it are no flags", "remove it")
        before = arguments[place - 1].value if place else ""
        is_value = before.startswith("-") and "=" not in before
        if _may_hide_flags(word, expected=is_value or (with_model and place == 0)):
            mend = "write its value out, or give the container's environment"
            raise CommandLineError(word.value, "this may hold flags that are only known when it runs", mend)


def _may_hide_flags(word: Word, expected: bool) -> bool:
    """Whether a word whose value is not wholly known may be a flag; `expected`: a value stands here."""
    unknown = [piece for piece in word.pieces if not piece.known]
    if not word.shell and REFERENCE.fullmatch(word.value):
        return not expected
    if any(set("@*") & set(piece.variable or "") for piece in unknown):
        return True
    if any(piece.quote is Quote.BARE and NAMED_FLAGS.search(piece.text) for piece in unknown):
        return True
    name = word.value.partition("=")[0]
    unsure_name = name.startswith("-") and any(piece.text in name for piece in unknown)
    return unsure_name or (word.pieces[:1] == tuple(unknown[:1]) and bool(unknown) and not expected)
