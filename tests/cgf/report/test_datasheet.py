"""Letters behind hosts and tasks that are not what their names say."""

from test_training_table import register, write

from cgf.report.blocks import filled
from cgf.report.datasheet import LETTERS, NOTES, counts, with_letters


def test_cells_of_hosts_and_tasks_alone_get_their_letters_and_each_letter_one_note():
    table = "| host | task | softmax |\n| --- | --- | --- |\n| smollm2 | clinc150 | sst2 |\n| vit_s14 | cifar10 | x |"
    lines = with_letters(table).splitlines()
    assert lines[2] == "| smollm2 <sup>a</sup> | clinc150 | sst2 |"
    assert lines[3] == "| vit_s14 <sup>d</sup> | cifar10 <sup>b</sup> | x |"
    assert lines[5].count("<sup>") == 3 and NOTES["b"] in lines[5] and NOTES["c"] not in lines[5]
    assert set(LETTERS.values()) == set(NOTES)


def test_a_table_without_them_and_a_second_table_keep_their_own_titles():
    plain = "| host | task |\n| --- | --- |\n| digits | digits |"
    assert with_letters(plain) == plain
    two = "| softmax |\n| --- |\n| sst2 |\n\ntext\n| task |\n| --- |\n| sst2 |"
    lines = with_letters(two).splitlines()
    assert lines[2] == "| sst2 |" and lines[7] == "| sst2 <sup>e</sup> |"


def test_counts_come_from_the_rows(tmp_path):
    write(tmp_path, "exact", 42, 0.9, val_samples=1500)
    register(tmp_path)
    assert counts(tmp_path).splitlines()[2] == "| toy | t | 100 | 1,500 |"
    write(tmp_path, "exact", 43, 0.9, task="cifar10", val_samples=20)
    text = filled("<!-- table: samples -->\n<!-- end -->\n", tmp_path)
    assert "| toy | cifar10 <sup>b</sup> | 100 | 20 |" in text and f"<sup>b</sup> {NOTES['b']}." in text
