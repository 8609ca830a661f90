"""`onward torture`: kills workers while a workload runs, and counts the effects."""
