from conftest_models import host
