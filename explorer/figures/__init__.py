"""Arrays and labels in, Plotly figures out; `theme` is the only palette."""
