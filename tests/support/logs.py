"""The operator's log, written to memory."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from specloop_operator.logs import QUIET, SILENT, configure_logging


@dataclass
class Log:
    """What was written since logging was configured."""

    stream: io.StringIO = field(default_factory=io.StringIO)

    def configure(self, log_format: Literal["json", "text"], level: str = "INFO") -> None:
        """Send all logging here."""
        configure_logging(log_format, level, self.stream)

    @property
    def lines(self) -> list[str]:
        """Line by line."""
        return self.stream.getvalue().splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        """Each line as the JSON that it is."""
        return [json.loads(line) for line in self.lines]


@contextmanager
def own_log() -> Iterator[Log]:
    """A log for the length of the block; afterwards logging is as it was."""
    names = (None, *QUIET, SILENT)
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers = list(logging.getLogger().handlers)
    try:
        yield Log()
    finally:
        logging.getLogger().handlers[:] = handlers
        logging.captureWarnings(False)
        for logger, level in before:
            logger.setLevel(level)
