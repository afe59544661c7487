"""Command line: ``iverson``, or ``python -m iverson``.

A command is a module here with ``add(parser)``, which declares its arguments, and ``run(options)``, which
returns the exit status. Nothing in the library imports this package.

Import rule: any other package; of the modules below, each imports only those listed before it.

- `command_target`: the argument ``MODULE:FUNCTION``, and the tensors that the function is called with.
- `demo`: a short session that shows what Iverson does.
- `info`: versions, processor, threads and the folder of kernels.
- `check`: gradcheck of a function.
- `explain_command`: the report of a function's work.
- `bench`: times of a few calls, beside NumPy's.
- `cache`: the folder of compiled kernels, and its deletion.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence

from iverson import __version__
from iverson.cli import bench, cache, check, demo, explain_command, info
from iverson.cli.command_target import UsageError

COMMANDS = {
    "demo": demo,
    "info": info,
    "check": check,
    "explain": explain_command,
    "bench": bench,
    "cache": cache,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, 1 where a check failed, 2 for a wrong command and where what it calls raises.

    >>> main(["check", "math:sqrt", "3by4"])  # says on stderr what a shape looks like
    2
    """
    options = _parser().parse_args(argv)
    try:
        status: int = COMMANDS[options.command].run(options)
    except UsageError as error:
        print(f"iverson {options.command}: {error}", file=sys.stderr)
        return 2
    except Exception:  # of the function that the command is about: status 1 is that of a wrong derivative
        traceback.print_exc()
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iverson", description="Differentiable arrays that know their zeros."
    )
    parser.add_argument("--version", action="version", version=f"iverson {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        formatter = argparse.RawDescriptionHelpFormatter
        module.add(
            commands.add_parser(
                name,
                help=summary.partition(": ")[2].rstrip("."),
                description=module.__doc__ if name != "demo" else summary,
                formatter_class=formatter,
            )
        )
    return parser
