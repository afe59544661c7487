"""Zero elimination: the points of a domain that a statement visits, by exact loops or by guarded boxes.

Import rule: in `te` it imports `ir`, `language` and `rewrites`; its modules have no import cycle.

- `exact_loops`: loops over exactly the points of a domain.
- `step_walks`: the points of a recurrence's statement at one step.
- `guarded_boxes`: boxes with guards, where they run faster than exact loops.
- `zero_elimination`: `eliminate`, which chooses the walk and strategy of each statement.
- `extremum_positions`: an extremum and its position, found in one pass.
- `point_counts`: the points of domains and the iterations of walks.
- `nest_translation`: statements and expressions as tasks, phases and expressions of loop nests.
"""
