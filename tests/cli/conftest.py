from digits_checkpoint import checkpoint_fixture, trained_run_fixture  # noqa: F401
