"""The rules, the dashboard and the pages about them say the same, and name what there is."""
