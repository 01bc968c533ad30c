from conftest_models import host  # noqa: F401  (fixture)
