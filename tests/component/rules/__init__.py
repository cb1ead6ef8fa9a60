"""The rules and the dashboard in Prometheus' own programs: promtool, and a Prometheus that scrapes."""
