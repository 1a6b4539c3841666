"""A real control plane for tests: its binaries, files, processes, audit log and simulated nodes."""
