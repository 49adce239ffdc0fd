"""Functions that turn arrays and labels into Plotly figures; `theme` has the only palette."""
