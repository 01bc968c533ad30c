"""A model hub: one quick question first, and one sentence for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from cgf.errors import UserError, memory_is_out, with_reason

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CONNECT_S = 5.0
GATED = "ask for access on its page, then run `hf auth login`"
T = TypeVar("T")


class Switch(Protocol):
    """A module that keeps whether the hub may be asked: huggingface_hub.constants, or datasets.config."""

    HF_HUB_OFFLINE: bool


def ask(question: Callable[..., T]) -> tuple[T | None, Exception | None]:
    """(answer, None) to one quick question, a method of HfApi; (None, why) where the hub does not answer.

    Raises HfHubHTTPError for a refusal, which is an answer.
    """
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return question(timeout=CONNECT_S), None
    except HfHubHTTPError:
        raise
    except Exception as error:  # the HTTP client's classes differ between versions; all mean: no answer
        return None, error


@contextmanager
def offline(library: Switch, wanted: bool) -> Iterator[None]:
    """HF_HUB_OFFLINE of a library switched on where wanted: it is read from the environment only at import.

    Without it the libraries would ask again and again, for a minute, with a warning each time.
    """
    before = library.HF_HUB_OFFLINE
    library.HF_HUB_OFFLINE = before or wanted
    try:
        yield
    finally:
        library.HF_HUB_OFFLINE = before


@contextmanager
def fetching(what: str, instead: str, revision: str | None = None) -> Iterator[None]:
    """For loading the model ``what``, a hub id or a local folder; a hub that does not answer leaves its local cache.

    instead: what the user can do without the hub. revision: a commit or a branch, None: the newest. Raises UserError
    that names what was wanted.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError

    if Path(what).is_dir():
        with with_reason(f"{what} cannot be loaded"):
            yield
        return
    reach = None if constants.HF_HUB_OFFLINE else _unreachable(what, revision)
    try:
        with offline(constants, reach is not None):
            yield
    except UserError:  # a sentence already
        raise
    except GatedRepoError:
        raise _gated(what, instead) from None
    except Exception as error:
        if memory_is_out(error):
            raise
        text = str(reach or error)
        if "gated" in text.lower():
            raise _gated(what, instead) from None
        what = what if revision is None else f"{what} at {revision}"
        if not isinstance(error, OSError | RuntimeError | ValueError):  # of what was fetched
            raise UserError(f"{what} cannot be loaded: {_short(text)}") from None
        raise UserError(
            f"{what} could not be fetched from the hub ({_short(text)}): connect, or use {instead}"
        ) from None


@contextmanager
def pushing(repository: str) -> Iterator[HfApi]:
    """For questions and uploads to a repository OWNER/NAME: gives the hub's interface.

    Raises UserError where nobody is logged in, and where the hub refuses or does not answer.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    if constants.HF_HUB_OFFLINE:
        raise UserError(f"{repository} cannot be pushed: HF_HUB_OFFLINE is set, unset it")
    try:
        yield HfApi()
    except UserError:
        raise
    except LocalTokenNotFoundError:
        raise UserError(
            f"{repository} cannot be pushed without a login: run `hf auth login`, or set HF_TOKEN"
        ) from None
    except HfHubHTTPError as error:
        raise UserError(f"the hub refuses to take {repository}: {_short(str(error))}") from None
    except Exception as error:  # the HTTP client's classes differ between versions; all mean: no answer
        raise UserError(f"{repository} could not be pushed ({type(error).__name__}: {_short(str(error))})") from None


def _unreachable(what: str, revision: str | None) -> Exception | None:
    """Why the hub does not give a model, or None where it does; other refusals are left to the loading."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return ask(partial(HfApi().model_info, what, revision=revision))[1]
    except HfHubHTTPError as error:
        return error if "gated" in str(error).lower() else None


def _gated(what: str, instead: str) -> UserError:
    return UserError(f"{what} is gated on the hub: {GATED}, or use {instead}")


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:160].rstrip(".") if lines else "no reason given"
