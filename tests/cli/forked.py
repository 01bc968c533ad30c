"""Real processes of entry points that do not load the libraries anew: forks of one that has loaded them.

A process that is started takes 5 to 10 seconds of a core for torch, timm and transformers. Here a server of
multiprocessing loads them once a test worker, and every process is a fork of it: with an id, an environment, a folder,
a session and streams of its own, killed and awaited as any other. What is read while a library loads (HF_HUB_OFFLINE)
needs a process that is started.
"""

import gc
import os
import runpy
import shutil
import signal
import sys
import tempfile
import weakref
from functools import cache
from multiprocessing import forkserver, get_context, resource_tracker, set_start_method
from pathlib import Path

PRELOADED = [
    "accelerate",
    "cgf.config",
    "cgf.data.tasks",
    "cgf.distill.matching",
    "cgf.distill.recompute",
    "cgf.distill.start",
    "cgf.distill.teacher_logits",
    "cgf.distill.temper",
    "cgf.distill.trainer",
    "cgf.evaluate.he_run",
    "cgf.evaluate.he_summary",
    "cgf.evaluate.open_checkpoint",
    "cgf.models.vit",
    "cgf.report.encrypted",
    "matplotlib.figure",
    "sklearn.datasets",
    "transformers",
]


@cache
def _context(environment: frozenset):
    before = dict(os.environ)
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    os.environ.update(environment)  # OMP_NUM_THREADS is read while torch loads
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


_used = False  # since ``stop_if_idle`` was called last


def stop():
    """Ends the server, 0.7 GB, where there is one; the next process starts it anew."""
    if _context.cache_info().currsize:
        forkserver._forkserver._stop()
        _context.cache_clear()


def stop_if_idle():
    """Ends the server where no process was forked since this was called last."""
    global _used
    if not _used:
        stop()
    _used = False


def _enter(line, cwd, environment, out, err):
    """In the fork: what a shell would have made of it, then the script."""
    gc.freeze()  # the libraries' pages are shared with the server until somebody writes to them, as a collector does
    os.setsid()
    set_start_method(None, force=True)  # processes that it starts itself are started as by any other,
    tracker = resource_tracker._resource_tracker  # and tracked by one of its own, not by that of whoever forked it
    os.close(tracker._fd)
    tracker._fd = None
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, stream)
        os.close(file)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv, sys.path[0] = list(line), str(Path(line[0]).parent)
    runpy.run_path(line[0], run_name="__main__")


def _end(process, streams):
    """Of a process that nobody holds any longer: it is killed, since multiprocessing would wait for it at the end."""
    if process.is_alive():
        process.kill()
    shutil.rmtree(streams, ignore_errors=True)


class Forked:
    """A process that runs a script, with the methods of subprocess.Popen that the tests use.

    preset: of the environment, what must be set before the libraries load.
    """

    def __init__(self, line, cwd, environment, preset):
        global _used
        _used = True
        streams = Path(tempfile.mkdtemp(prefix="cgf-test-"))
        self.out, self.err = streams / "out", streams / "err"
        arguments = (tuple(map(str, line)), str(cwd), environment, str(self.out), str(self.err))
        self._process = _context(frozenset(preset.items())).Process(target=_enter, args=arguments)
        self._process.start()
        self.pid = self._process.pid
        weakref.finalize(self, _end, self._process, streams)

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"still running after {timeout} s"
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    @property
    def stdout(self):
        return self.out.read_text() if self.out.exists() else ""

    @property
    def stderr(self):
        return self.err.read_text() if self.err.exists() else ""
