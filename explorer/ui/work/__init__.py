"""Whatever takes long: computed in turns, in a thread that can be stopped, and kept afterwards."""
