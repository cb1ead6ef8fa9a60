"""What can go wrong for a user, in one small tree.

InputError    the input or the call is wrong: one line on stderr, exit code 2; again only after mending it
"""


class InputError(Exception):
    """The input or the call is wrong; the message is one line: place, what is wrong, how to mend it."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """Text without line ends or terminal control characters, whatever a file or an argument put into it."""
    words = " ".join(text.split())
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in words)


def cannot(action: str, path: object, error: OSError) -> InputError:
    """An operating system's refusal in words, such as "cannot read x.yaml: No such file or directory"."""
    return InputError(f"cannot {action} {path}: {error.strerror or error}")
