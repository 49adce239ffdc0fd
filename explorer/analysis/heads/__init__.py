"""What heads do: measures, roles, ablation, attribution, rollout and flow."""
