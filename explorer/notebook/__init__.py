"""The public Python API for notebooks and scripts; `import explorer` exposes its names."""
