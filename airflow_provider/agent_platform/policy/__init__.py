"""
What a failure means and what follows from it: tables and pure functions.

Enters: what the platform said about jobs, as plain values. Leaves: outcomes, ledgers, placements, decisions
and texts for people. Not here: any I/O, any clock, Airflow, Google's clients. The same input gives the same
answer.
"""
