"""Control flow: ops that run graphs (branches, loops, checkpoints), and their derivatives.

Of its siblings it may import `ir`, `tracing`, `derivatives` and `calls`; none of them imports it.

- `bodies`: the closed graphs that these ops run, one object for each text, and their derivatives.
- `loop_programs`: loops in eager code, op by op at first, then as programs.
- `cond_checkpoint`: `cond` and `checkpoint`, and the base of all ops that run graphs.
- `while_loop`: `while_loop`, whose number of steps depends on entries, and its forward-mode derivative.
- `scan_loop`: `scan`, whose number of steps is known, with a carry and stacked results.
- `forms`: forms in which cotangents and tangents enter bodies, and go from step to step.
- `step_runs`: runs of loop steps that compute the same, and stacked values that some steps have.
- `scan_derivative`: pullback and pushforward of a scan, one scan for each run of equal steps.
"""
