"""Tests of how a new level reaches processes, and when schedules ask for one."""
