"""Which checkpoints a training left behind, and which of them a new job may start from.

``recognisers`` is pure: names, sizes and times in, checkpoints out. ``store`` lists Cloud Storage or a local
path and gives a `CheckpointScan`. ``watch`` looks from time to time while a job runs. Nothing here decides
what follows.
"""
