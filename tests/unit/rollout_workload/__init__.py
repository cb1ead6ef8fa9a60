"""How a level is rolled out over the pods of a workload: the figures, the verdicts, the plan."""
