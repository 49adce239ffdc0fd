"""The facts about a run that the steps of the guided tour use."""
