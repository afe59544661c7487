"""Work counting: counters of the work that is done, notes of work that is skipped, and cost formulas.

Import rule: in `core` it imports `aval`, `entries`, `entry_map`, `op` and `protocols`; its modules have no
import cycle.

- `work`: the counters that kernels report to.
- `notes`: records of work that was skipped.
- `cost`: the cost of ops, from shapes and supports.
- `factorisations`: the multiply-adds of factorisations and solves.
- `checks`: functions that look at each result as it is computed.
"""
