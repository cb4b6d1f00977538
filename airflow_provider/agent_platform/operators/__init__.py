"""Operators: what a DAG author writes, and the lifecycle behind it.

Enters: arguments, an Airflow context. Leaves: one job on the platform, a deferral, a result or a typed error. What an
error means is decided in ``policy``; what a request looks like in ``jobs``; Google is called in ``hooks``.
"""
