"""One sentence for everything that can go wrong between here and a model hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cgf.errors import UserError


@contextmanager
def fetching(what: str, instead: str) -> Iterator[None]:
    """Turns a hub's failures into a UserError that names what was wanted and what to do instead."""
    import httpx
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        yield
    except GatedRepoError:
        raise UserError(f"{what} is gated on the hub: accept its licence there and log in, or use {instead}") from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, httpx.HTTPError, ConnectionError,
            TimeoutError, OSError, RuntimeError) as error:
        text = str(error)
        if "gated" in text.lower():
            raise UserError(f"{what} is gated on the hub: accept its licence there and log in, "
                            f"or use {instead}") from None
        first = text.strip().splitlines()[0][:160] if text.strip() else type(error).__name__
        raise UserError(f"{what} could not be fetched from the hub ({first}): connect, or use {instead}") from None
