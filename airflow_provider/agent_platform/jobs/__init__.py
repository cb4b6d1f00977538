"""What a job is called, what it carries and what is asked of the service, as pure functions.

In: what a user wrote in a DAG, and who the task instance is. Out: a plain dict in the field names of the API,
labels, a key, links. Nothing here talks to Google or to Airflow.
"""
