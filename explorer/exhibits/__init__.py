"""What is shown, one question and its picture a file, and what every exhibit is shown with."""
