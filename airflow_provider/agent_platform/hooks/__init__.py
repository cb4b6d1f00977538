"""The only part that talks to Google: clients, credentials, repeats of reads, logs, storage.

Nothing here imports ``google`` or ``grpc`` before a call needs it: the hook modules are imported while DAGs
are parsed.
"""
