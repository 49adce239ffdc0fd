"""What a notebook or a script uses; `import explorer` offers its names."""
