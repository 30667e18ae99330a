"""Running algorithms: start vectors, blocks of probes, progress and checkpoints.

One word for each thing:

run
    All that one call does, from the first product to the result, interruptions included.
stage
    One algorithm of a run: "top_eigenpairs", then "fast_lanczos". `Stage` is what an algorithm sees of the outside: it
    reports progress to it and hands it snapshots.
monitor
    What the user chooses for all stages of a run: progress, the checkpoint and how often it is written (`Monitor`).
block
    Probes that advance in lockstep, as the columns of one array.
recurrence
    The vectors and coefficients of one block (`Recurrence`, `ChebyshevRecurrence`).
runner
    Advances the recurrences of a stage, block after block (`BlockRunner`).
snapshot
    The state of a stage after a step, as arrays that are made when they are written (`Snapshot`).
checkpoint
    The file that holds the last snapshot of every stage (`CheckpointFile`).
identity
    What makes two runs the same: settings and operator (`identity`).
"""
