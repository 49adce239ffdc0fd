"""The guided tour: steps with a question, a picture of this run, and an explanation."""
