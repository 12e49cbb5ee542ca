"""`python -m r1_router` is `r1-router`."""

from r1_router.cli import app

if __name__ == "__main__":
    app(prog_name="r1-router")
