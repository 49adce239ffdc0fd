"""The app. The server reads this file once, and then runs it for every visitor."""

if __name__ == "__main__":
    from explorer.shell import run

    run()
else:
    import threading

    from starlette.middleware import Middleware
    from streamlit.starlette import App

    from explorer.admission import Admission, capacity
    from explorer.front import Front
    from explorer.guard import Guard, stay_inside
    from explorer.incoming import check_messages
    from explorer.serving import (
        FromMemory,
        hand_over_in_batches,
        keep_the_page,
        lifespan,
        load_libraries,
    )

    stay_inside()
    hand_over_in_batches()
    keep_the_page()
    check_messages()
    threading.Thread(target=load_libraries, daemon=True).start()
    app = App(
        __file__,
        lifespan=lifespan,
        middleware=[
            Middleware(Guard),
            Middleware(Admission, places=capacity().sessions),
            Middleware(FromMemory),
            Middleware(Front),
        ],
    )
