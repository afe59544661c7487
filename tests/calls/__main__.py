"""``python -m tests.calls faults [PART PARTS]``: a table of faults, and which the calls notice.
``python -m tests.calls MODE COUNT``: that many cases of each function in a mode (right, compiled, mapped,
layouts, masked), 0 for all of them."""

import collections
import sys
import warnings

from tests.calls import faults, modes, test_calls
from tests.calls.cases import arrays, every, functions, some

MODES = {
    "right": test_calls.is_right,
    "compiled": lambda case: modes.compiled(case[0], *arrays(case)),
    "mapped": lambda case: modes.mapped(case[0], *arrays(case)),
    "layouts": test_calls.in_each_layout,
    "masked": lambda case: modes.masked(case[0], *arrays(case)),
}


def main(command: str, first: str = "0", second: str = "1") -> int:
    warnings.simplefilter("ignore")
    if command == "faults":
        return int(faults.report(functions()[int(first) :: int(second)]) < 0.95)
    failures: collections.Counter[str] = collections.Counter()
    number = 0
    for space, name in functions():
        for case in some(space, name, int(first)) if int(first) else every(space, name):
            number += 1
            try:
                MODES[command](case)
            except Exception as error:
                failures[f"{space}.{name}"] += 1
                sys.stdout.write(
                    f"{case[0]} {case[1]} {case[2]}: {type(error).__name__}: {str(error)[:200]}\n"
                )
    sys.stdout.write(f"{number} cases, {failures.total()} failures: {dict(failures)}\n")
    return bool(failures)


sys.exit(main(*sys.argv[1:]))
