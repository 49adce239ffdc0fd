"""Drawing what an exhibit shows: in the app, in a notebook, as one page, on paper."""
