"""The app. The server reads this file once, and then runs it for every visitor."""

if __name__ == "__main__":
    from explorer.shell import run

    run()
else:
    from starlette.middleware import Middleware
    from streamlit.starlette import App

    from explorer.admission import Admission, capacity
    from explorer.front import INLINE, Front
    from explorer.guard import Guard
    from explorer.patches import patch
    from explorer.serving import FromMemory, lifespan

    patch()
    app = App(
        __file__,
        lifespan=lifespan,
        middleware=[
            Middleware(Guard, scripts=INLINE),
            Middleware(Admission, places=capacity().sessions),
            Middleware(FromMemory),
            Middleware(Front),
        ],
    )
