"""Links from a task in Airflow's UI to the platform's console. No I/O: a link is made from a job's name."""
