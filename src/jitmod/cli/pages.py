"""Every page of docs that is made from the code, by its path below docs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from jitmod.report import registry
from jitmod.report.page import markdown
from jitmod.rewrite.codemod import available
from jitmod.source.config_schema import schema

_COMMANDS = """\
# Commands

`jitmod COMMAND --help` prints the same. `jitmod --install-completion` teaches your shell the commands, the options and
the names of codemods.

Results go to stdout, talk to stderr. Colours, bars and the live line are for terminals alone. Exit codes: 0 all well;
1 there are findings, or a patch that earned no commit; 2 jitmod could not do its job.
"""


def pages() -> dict[str, str]:
    """The texts. Whatever is registered is in one of them, with what it says of itself."""
    codemods = {f"codemods/{name}.md": markdown(codemod) for name, codemod in available().items()}
    own = {"reasons.md": registry.reasons(), "configuration.md": registry.settings(), "cli.md": commands()}
    return {**codemods, **own, "schema/config.json": json.dumps(schema(), indent=2) + "\n"}


def commands() -> str:
    """Every command with its arguments and options."""
    from jitmod.cli.main import app

    lines = [_COMMANDS]
    functions = {
        info.name or info.callback.__name__: info.callback for info in app.registered_commands if info.callback
    }
    for name, function in sorted(functions.items()):
        known = list(parameters(function))
        usage = " ".join(["jitmod", name, "[OPTIONS]", *(one.usage for one in known if one.is_argument)])
        about = (" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))
        lines += [f"## {name}", "", f"`{usage}`", "", *(line for part in about for line in (part, ""))]
        lines += ["| | |", "|---|---|", *(one.row for one in known), ""] if known else []
    return "\n".join(lines).rstrip() + "\n"


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command, as its function declares it."""

    name: str
    info: ArgumentInfo | OptionInfo
    kind: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, ArgumentInfo)

    @property
    def usage(self) -> str:
        """An argument as it stands in the first line of the help."""
        several = get_origin(self._single) is list
        text = f"{self.info.metavar}{'...' if several else ''}"
        return text if self.default is inspect.Parameter.empty else f"[{text}]"

    @property
    def _single(self) -> Any:
        """The type, without None."""
        parts = get_args(self.kind)
        return next(one for one in parts if one is not type(None)) if type(None) in parts else self.kind

    @property
    def names(self) -> list[str]:
        """Those of an option; none for an argument."""
        first = [self.info.default] if isinstance(self.info.default, str) else []  # where Annotated keeps the first one
        return [name for name in [*first, *(self.info.param_decls or ())] if name.startswith("-")]

    @property
    def row(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.names or [str(self.info.metavar)])
        takes = f" `{self.info.metavar}`" if self.names and self.info.metavar else ""
        if isinstance(self._single, type) and issubclass(self._single, Enum):
            takes = " " + " or ".join(f"`{member.value}`" for member in self._single)
        shown = self.default.value if isinstance(self.default, Enum) else self.default
        says = isinstance(shown, int | float | str | Path) and not isinstance(shown, bool)
        left, right = f"{names}{takes}", f"{self.info.help}{f' If not given: `{shown}`.' if says else ''}"
        return f"| {left.replace('|', chr(92) + '|')} | {right.replace('|', chr(92) + '|')} |"


def parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, declared in inspect.signature(function).parameters.items():
        hint = hints[name]
        info = next(
            (one for one in getattr(hint, "__metadata__", ()) if isinstance(one, ArgumentInfo | OptionInfo)), None
        )
        if info is not None:
            yield Parameter(name, info, get_args(hint)[0], declared.default)
