"""The pictures of the Patching page."""
