"""A page that needs no server: static files with which a model runs in the browser.

`site.py` writes the folder; `weights.py` and `tokens.py` prepare the model and its tokenizer. The
JavaScript next to them is a second implementation of `models/` for one text: `engine.js` is the
forward pass, `decoding.js` generates, `flow.js` collects what the pictures show, `pictures.js`
packs it for the views of `components/`, `drawing.js` draws words for a model that reads pictures,
and `page.js` is the page.
"""
