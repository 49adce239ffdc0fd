"""Views that Plotly cannot draw fast enough: canvas and DOM components that respond to clicks.

A view takes arrays and labels and returns the clicked address. Each consists of a pure function
that packs the payload (`pack_…`), a thin Streamlit call, and JS and CSS files of the same name.
"""
