"""Tables of the README, each made from files under results/: what a document says and what was measured stay one.

A document holds a block as

    <!-- table: NAME -->
    ...
    <!-- end -->

and everything between the two lines comes from here; a list of names within a line stands between
<!-- list: NAME --> and <!-- end -->, and comes from whoever asks. Single figures: cgf.report.values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from cgf.errors import UserError
from cgf.report import (
    alternatives,
    attention_cost,
    batched,
    columns,
    cost,
    datasheet,
    exponentials,
    frontier,
    gap,
    glance,
    network_predicted,
    opened,
    parameters,
    pipelines,
    searches,
    suite,
    what_it_takes,
    whole,
    whole_attention,
    whole_network,
)
from cgf.report import training as training_results
from cgf.report.columns import grid
from cgf.report.cumulants import cumulants
from cgf.report.headline import headline
from cgf.report.range_table import of_means
from cgf.report.tables import markdown, table_rows
from cgf.report.values import with_values
from cgf.results import read_json
from cgf.types import Json

LIST = re.compile(r"(<!-- list: (\w+) -->).*?(<!-- end -->)")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, folder: Path, lists: Mapping[str, str] | None = None) -> str:
    """The document with every block made anew from the results in ``folder``, and every list from ``lists``, by name.

    UserError for a block without a maker, or whose file is missing, and for a list that is not given.
    """
    given = lists or {}

    def fill(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in MAKERS:
            raise UserError(f"a table is one of {', '.join(MAKERS)}, and the document asks for '{name}'")
        return f"{match.group(1)}{datasheet.with_letters(MAKERS[name](folder))}\n{match.group(3)}"

    def listed(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in given:
            raise UserError(f"a list is one of {', '.join(given) or 'none'}, and the document asks for '{name}'")
        return f"{match.group(1)}{given[name]}{match.group(3)}"

    return with_values(LIST.sub(listed, BLOCK.sub(fill, text)), folder)


def _read(folder: Path, name: str) -> Json:
    path = folder / name
    if not path.is_file():
        raise UserError(f"the table needs {path}, and it is not there")
    return read_json(path)


def evaluations(folder: Path) -> str:
    """Every evaluation of the hosts' files, teachers told apart from students of the same softmax."""
    results = [r for f in sorted(folder.glob("*.json")) for r in read_json(f).get("evaluations", [])]
    if not results:
        raise UserError(f"{folder} holds no evaluations: bash scripts/results.sh digits")
    teacher = [{**r, "softmax": f"{r['softmax']} (teacher)"} if r["name"].endswith("-teacher") else r for r in results]
    return markdown(table_rows(teacher))


def attention(folder: Path) -> str:
    """Whole attentions by shape, measured beside predicted."""
    return attention_cost.table(_read(folder, "bench/attention.json"))


def attention_sets(folder: Path) -> str:
    """Whole attentions of whole test sets."""
    return whole_attention.sets(folder)


def network_sets(folder: Path) -> str:
    """Whole networks of whole test sets."""
    return whole_network.sets(folder)


def network_accuracy(folder: Path) -> str:
    """What polynomial norms, activations and softmaxes cost in accuracy."""
    return whole_network.costs(folder)


def network_would_take(folder: Path) -> str:
    """Known models as whole networks, from their sizes."""
    return what_it_takes.table(_read(folder, "bench/what_it_takes.json"))


def predicted_networks(folder: Path) -> str:
    """Whole networks as they were predicted and as they ran."""
    return network_predicted.table(_read(folder, "bench/network_predicted.json"))


def attention_published(folder: Path) -> str:
    """What others report of encrypted attentions."""
    return whole_attention.published()


def matrix_form(folder: Path) -> str:
    """The library's matrix form beside products of prepared operands."""
    return whole_attention.matrix_form(_read(folder, "bench/matrix_form.json"))


def fhe_suite(folder: Path) -> str:
    """Workloads in the shape of the FHE benchmarking suite."""
    return suite.table(_read(folder, "bench/fhe_suite.json"))


def seconds(folder: Path) -> str:
    """Seconds of softmaxes on the one 256 x 256 matrix, and how many times longer than ours."""
    return columns.markdown(cost.SECONDS, cost.circuits(cost.read(folder)))


def seconds_by_operation(folder: Path) -> str:
    """Seconds of each kind of operation on the same matrix, median and range; the paper's Table 4 has means.

    Operations are summed over workers or lanes, the total is by the clock.
    """
    return columns.markdown(cost.BY_OPERATION, cost.circuits(cost.read(folder)))


def many_rows(folder: Path) -> str:
    """Many rows at once, encryption and decryption included."""
    return batched.table(cost.read(folder)["batched"])


def depths(folder: Path) -> str:
    """The paper's tables 1 and 2 with what was counted, and on which domain up to which error."""
    return columns.markdown(cost.DEPTHS, _read(folder, "bench/complexity.json")["methods"])


def every_softmax(folder: Path) -> str:
    """Every softmax that trains: levels, products, which properties no random row contradicted; accuracies from the
    rows of training as they are now."""
    return alternatives.block(folder, _read(folder, "bench/alternatives.json")["table"])


def both_pipelines(folder: Path) -> str:
    """LoRA fine-tuning beside distillation."""
    return grid(pipelines.TITLES, pipelines.lines(folder))


def whole_sets(folder: Path) -> str:
    """Whole test sets under CKKS, and published times an entry."""
    return grid(whole.TITLES, whole.lines(folder))


def studies(folder: Path) -> str:
    """Control of the range: accuracies over the seeds that are done, and what left the range."""
    result = _read(folder, "approx/range.json")["studies"]
    return of_means([row for name in sorted(result) for row in result[name]["means"]])


def paper_k(folder: Path) -> str:
    """For every k of the paper a plan for the same interval."""
    return grid(exponentials.TITLES, exponentials.lines(_read(folder, "approx/paper_k.json")))


def rings(folder: Path) -> str:
    """Ring, moduli and secret of each engine beside the bound for 128 bits."""
    return grid(parameters.TITLES, parameters.lines(_read(folder, "bench/parameters.json")))


def training(folder: Path) -> str:
    """Rows of training: every softmax beside an exact student of its schedule, and the paper's rows as not run."""
    return training_results.block(training_results.read_results(folder))


MAKERS: dict[str, Callable[[Path], str]] = {
    "withdrawn": opened.withdrawn_table,
    "headline": headline,
    "attention": attention,
    "attention_sets": attention_sets,
    "attention_published": attention_published,
    "network_sets": network_sets,
    "network_accuracy": network_accuracy,
    "network_would_take": network_would_take,
    "gap": gap.whole,
    "gap_heads": gap.heads,
    "network_predicted": predicted_networks,
    "matrix_form": matrix_form,
    "fhe_suite": fhe_suite,
    "evaluations": evaluations,
    "cost": seconds,
    "cost_by_operation": seconds_by_operation,
    "batched": many_rows,
    "depths": depths,
    "alternatives": every_softmax,
    "studies": studies,
    "training": training,
    "whole_sets": whole_sets,
    "cumulants": cumulants,
    "paper_k": paper_k,
    "pipelines": both_pipelines,
    "against_exact": glance.against_exact,
    "against_bpmax": glance.against_bpmax,
    "frontier": frontier.table,
    "samples": datasheet.counts,
    "searches": searches.table,
    "whole_grids": searches.whole_grids,
    "parameters": rings,
}
