"""What of a tracker is refused before anything is trained."""

import pytest

from cgf.distill.wandb_log import check_tracker
from cgf.errors import UserError

NODE = {"name": "wandb", "project": "p", "mode": "online", "artifact": "card"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "tensorboard"}, "tracker.name must be one of none, wandb, and 'tensorboard' was given"),
        ({"name": "WandB"}, "tracker.name must be one of none, wandb"),
        ({"mode": "off"}, "tracker.mode must be one of online, offline, disabled"),
        ({"artifact": "weights"}, "tracker.artifact must be one of none, card, checkpoint"),
    ],
)
def test_a_tracker_that_there_is_not_is_refused(given, says):
    with pytest.raises(UserError, match=says):
        check_tracker({**NODE, **given})
    check_tracker(NODE)
    check_tracker({**NODE, "name": "none", "mode": "whatever a study of before says"})
