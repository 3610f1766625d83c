"""Modules that several benchmark suites share: peers, load, measurements, statistics, reports."""
