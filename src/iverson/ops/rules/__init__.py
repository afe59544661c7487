"""Rules that records of ops share: batching, entry maps, compiled bodies and index notation.

Import rule: it imports no other sub-package of `ops`, and all others may import it; its modules have no
import cycle.

- `recurrences`: recurrences of Taylor coefficients.
- `notation`: ops in index notation, and the derivatives that follow from it.
- `loops`: bodies of ops for compiled loops.
- `entry_maps`: the entry maps of elementwise ops and of ops that move, reduce or scan entries.
- `batching`: an op on a batch of examples.
"""
