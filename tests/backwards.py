"""The last test first, by `pytest -p tests.backwards`: none may need what another has left behind."""


def pytest_collection_modifyitems(items):
    items.reverse()
