from cgf.evaluate.by_class import by_class, worded


def test_counts_by_name_and_in_order():
    counts = by_class(["no", "yes", "never"], [(0, 0), (1, 0), (1, 1), (0, None)])
    assert counts == {
        "no": {"samples": 2, "correct": 1},
        "yes": {"samples": 2, "correct": 1},
        "never": {"samples": 0, "correct": 0},
    }
    assert worded(counts) == "by class: no 1 of 2, yes 1 of 2"


def test_of_many_classes_the_worst_are_told():
    names = [f"c{i}" for i in range(20)]
    counts = by_class(names, [(i, i if i != 7 else 0) for i in range(20)])
    assert worded(counts).startswith("worst classes: c7 0 of 1, ") and worded(counts).count(" of ") == 5
