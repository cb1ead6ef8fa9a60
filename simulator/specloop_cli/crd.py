"""`specloop crd`: the custom resource definition, made from the policy models."""

import sys
from typing import Any

import yaml

from specloop_cli.output import Format, print_document
from specloop_policy.crd import crd

HEADER = "# Made from the policy models by `specloop crd`; edit those.\n"


def run(output: Format) -> int:
    """Print the definition as YAML, or as JSON."""
    if output is Format.JSON:
        print_document(crd())
    else:
        sys.stdout.write(HEADER + to_yaml(crd()))
    return 0


class _Dumper(yaml.SafeDumper):
    """Writes a value out wherever it occurs again: anchors are for programs, not for readers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(data: Any) -> str:
    """Plain data as YAML in the order it has."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
