"""What lines come to does not depend on the order in which workers ended their batches."""

from itertools import permutations

from cgf.evaluate.he_lines import FinishedSamples
from cgf.he.layer_record import LayerRecord


def test_sums_do_not_depend_on_the_order_of_batches():
    batches = [
        {"batch": [3 * i, 3 * i + 1], "layers": [LayerRecord(entries=1, sum_error=e).to_json()]}
        for i, e in enumerate((0.1, 0.2, 0.3))
    ]
    sums = {FinishedSamples(batches=list(order)).layers()[0].sum_error for order in permutations(batches)}
    assert len(sums) == 1 and len({0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1}) == 2, "added as they come, they would differ"
