"""What Airflow loads from the entry point ``airflow.plugins``."""
