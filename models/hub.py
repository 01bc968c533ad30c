"""Weights from a model hub: one quick question first, and one sentence for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cgf.errors import UserError

CONNECT_S = 5.0


@contextmanager
def fetching(what: str, instead: str) -> Iterator[None]:
    """For loading ``what``, a hub id or a local folder; a hub that does not answer leaves its local cache.

    instead: what the user can do without the hub. Raises UserError that names what was wanted.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError

    before = constants.HF_HUB_OFFLINE
    reach = None if before or _is_local(what) else _unreachable(what)
    # the libraries would ask again and again, for a minute, with a warning each time
    constants.HF_HUB_OFFLINE = before or reach is not None
    try:
        yield
    except UserError:  # a sentence already
        raise
    except GatedRepoError:
        raise _gated(what, instead) from None
    except (OSError, RuntimeError, ValueError) as error:
        text = str(reach or error)
        if "gated" in text.lower():
            raise _gated(what, instead) from None
        if _is_local(what):
            raise UserError(f"{what} cannot be loaded: {_short(text)}") from None
        raise UserError(
            f"{what} could not be fetched from the hub ({_short(text)}): connect, or use {instead}"
        ) from None
    finally:
        constants.HF_HUB_OFFLINE = before


def _is_local(what: str) -> bool:
    from pathlib import Path

    return Path(what).is_dir()


def _unreachable(what: str) -> Exception | None:
    """Why the hub does not answer, or None where it does; a refusal is an answer, left to the loading."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().model_info(what, timeout=CONNECT_S)
    except HfHubHTTPError as error:
        return error if "gated" in str(error).lower() else None
    except Exception as error:  # the HTTP client's classes differ between versions; all mean: no answer
        return error
    return None


def _gated(what: str, instead: str) -> UserError:
    return UserError(f"{what} is gated on the hub: accept its licence there and log in, or use {instead}")


def _short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:160].rstrip(".") if lines else "no reason given"
