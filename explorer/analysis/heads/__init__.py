"""What heads do: measures, roles, ablation, attribution and rollout."""
