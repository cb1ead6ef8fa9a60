"""What the real bash makes of a script."""

import subprocess

ENGINES = ("engine", "vllm", "llama-server")


def bash_words(script: str, environment: dict[str, str] | None = None) -> list[str] | None:
    """The arguments that a script's first engine gets from bash; None where bash starts none."""
    first = 'printf "%s\\0" "$#" "$@" >&9; exit'
    functions = "".join(f"{name}() {{ {first}; }}\n" for name in ENGINES)
    result = subprocess.run(
        ["bash", "-c", f"exec 9>&1 >/dev/null\n{functions}{script}"],
        env=environment or {},
        cwd="/proc/self/task",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    return [word.decode() for word in result.stdout.split(b"\0")[1:-1]] if result.stdout else None
