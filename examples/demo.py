"""The main job: what Iverson does, shown on real data, in well under a minute.

python examples/demo.py [--quick] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

try:
    import bilateral
    import completion
    import convolution
    import digits
    import karate
except ModuleNotFoundError as error:
    raise SystemExit(f"the demo needs {error.name}: `make demo`, or `pip install '.[demo]'`") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller budget: fewer epochs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out", help="folder for pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    digits.run(options.out, quick=options.quick)
    convolution.run(quick=options.quick)
    bilateral.run(options.out, quick=options.quick)
    completion.run(options.out, quick=options.quick)
    karate.run(options.out, quick=options.quick)
    print(f"\nDone in {time.perf_counter() - started:.1f} s.")


if __name__ == "__main__":
    main()
