"""The parts of Fermata's benchmark: peers, load, measurements, statistics, report."""
