"""What a result says of the machine and the tree that it came from."""

import subprocess

from cgf.provenance import _git, processor

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
stepping\t: 1
flags\t\t: fpu sse2 fma avx2 avx512f avx512_bf16

processor\t: 1
model\t\t: 3
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"


def test_a_processor_is_told_by_its_numbers_and_flags():
    assert processor(X86) == {
        "cpu": "AMD EPYC",
        "cpu_model": "vendor_id AuthenticAMD, cpu family 26, model 2, stepping 1",
        "cpu_flags": ["fma", "avx2", "avx512f", "avx512_bf16"],
    }
    arm = processor(ARM)
    assert arm["cpu_model"] == "CPU implementer 0x41, CPU part 0xd40" and arm["cpu_flags"] == ["asimd", "sve"]
    assert processor("")["cpu_model"] is None and processor("")["cpu"]


def test_what_commands_add_to_as_they_go_on_is_no_change_of_the_code(tmp_path):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    asked = tmp_path / "cgf"  # the folder of the code, as in every command
    asked.mkdir()
    (tmp_path / "results" / "search").mkdir(parents=True)
    register, code = tmp_path / "results" / "opened.jsonl", tmp_path / "code.py"
    trials, row = tmp_path / "results" / "search" / "a-b-c.jsonl", tmp_path / "results" / "row.json"
    for file in (register, trials, row):
        file.write_text("{}\n")
    code.write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "s")
    register.write_text("{}\n{}\n")
    trials.write_text("{}\n{}\n")
    (tmp_path / "results" / "new.json").write_text("{}")
    assert _git(asked)["dirty"] is False
    trials.write_text("[]\n{1}\n")  # which rows would take other settings from
    assert _git(asked)["dirty"] is True
    trials.write_text("{}\n{}\n")
    assert _git(asked)["dirty"] is False
    row.write_text("[]")
    assert _git(asked)["dirty"] is True
    git("checkout", "--", "results/row.json")
    code.write_text("x = 1\n")
    assert _git(asked)["dirty"] is True
