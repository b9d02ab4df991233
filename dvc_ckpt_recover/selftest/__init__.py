"""The proof: kill, starve and cut the power of real recoveries, and count what was lost.

Nothing here is used by a run. A scene is the remains of a run, made without DVC; a child acts on
it and is hit; an oracle of its own, which uses none of the package's reading code, then judges.

Failure rule: whatever the oracle finds is counted and named with the seed that found it.
"""
