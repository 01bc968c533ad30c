"""A small BERT that starts from the word embeddings of a larger one: 2 layers, 128 wide, mean of the real tokens.

Everything of it but its norms, activations and softmaxes is linear: its pooling is a mean, and no tanh stands before
the classifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from cgf.checks import whole
from cgf.errors import UserError
from cgf.hub import fetching
from cgf.models import bert
from cgf.models.host import Host, HostFacts
from cgf.models.pretrained import at, check_named, check_revision, locate

MOST_TOKENS = 512  # that a text may be filled up to
WORDS, PLACES, TYPES = "word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight"


class MeanPooledBert(BertForSequenceClassification):
    """transformers' BERT with a linear classifier on the mean of its real tokens.

    config.pad_to_multiple_of above 1: texts are filled up to a multiple of so many tokens with padding that counts as
    real from then on, in attention, statistics and the mean. A text's logits are the same in any batch.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert.pooler = None

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **more: object,
    ) -> SequenceClassifierOutput:
        """Logits (B, classes) of token ids (B, T), their mask (B, T), 1 where a token is real, and their types."""
        if (multiple := multiple_of(self)) > 1:
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            padding = self.config.pad_token_id or 0
            input_ids, attention_mask, token_type_ids = filled(input_ids, mask, token_type_ids, multiple, padding)
        hidden = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, **more
        ).last_hidden_state
        if attention_mask is None:
            mean = hidden.mean(1)
        else:
            real = attention_mask.to(hidden.dtype)[..., None]
            mean = (hidden * real).sum(1) / real.sum(1)
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(mean)))


def multiple_of(model: torch.nn.Module) -> int:
    """To a multiple of how many tokens a model fills up its texts; 1: it leaves them as they are.

    UserError for a model whose configuration has no such number.
    """
    given = getattr(getattr(model, "config", None), "pad_to_multiple_of", 1)
    return whole("pad_to_multiple_of", given, 1, MOST_TOKENS)


def filled(
    ids: Tensor, mask: Tensor, types: Tensor | None, multiple: int, padding: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Ids (B, T), mask and types, each text filled up to its next multiple with padding that the mask counts as real.

    mask: 1 at the real tokens, which come first. What stood at the places behind them is forgotten.
    """
    own = -(-mask.sum(1) // multiple) * multiple
    width = int(own.max())
    more = max(0, width - ids.shape[1])
    real = F.pad(mask, (0, more))[:, :width].bool()
    ids = F.pad(ids, (0, more))[:, :width].masked_fill(~real, padding)
    if types is not None:
        types = F.pad(types, (0, more))[:, :width].masked_fill(~real, 0)
    return ids, (torch.arange(width, device=ids.device) < own[:, None]).to(mask.dtype), types


def load(
    name: str,
    num_classes: int,
    *,
    path: str | None = None,
    package: str | None = None,
    subfolder: str = "",
    data_root: str | None = None,
    layers: int = 2,
    width: int = 128,
    heads: int = 2,
    dropout: float = 0.0,
    pad_to_multiple_of: int = 1,
    class_names: Sequence[str] | None = None,
    hub_revision: str | None = None,
) -> Host:
    """A MeanPooledBert with the tokenizer of a larger BERT, and its embeddings projected to ``width``.

    The projection takes the principal components of the word embeddings; all layers are fresh. Where the larger model
    lies: see cgf.models.pretrained.locate; of a hub id hub_revision is a commit or a branch, None: the newest, and
    run.json names the commit that was loaded. UserError for a model that is no BERT, and sizes that make none.
    """
    _check_sizes(layers, width, heads, dropout)
    whole("model.pad_to_multiple_of", pad_to_multiple_of, 1, MOST_TOKENS)
    where = locate(name, path, package, subfolder, data_root)
    check_revision(where, hub_revision)
    with fetching(where, "model.path=FOLDER with its files", hub_revision):
        commit = check_named(where, hub_revision)
        whose = at(commit or hub_revision)  # one commit for all that is loaded
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **whose)
        larger = AutoModel.from_pretrained(where, trust_remote_code=False, dtype=torch.float32, **whose)
    if larger.config.model_type != "bert" or larger.config.hidden_size < width:
        raise UserError(
            f"model={name} starts from a BERT of at least {width} features, and {where} is a "
            f"{larger.config.model_type} of {larger.config.hidden_size}"
        )
    config = _config(larger.config, num_classes, layers=layers, width=width, heads=heads, dropout=dropout)
    if pad_to_multiple_of > 1:
        config.pad_to_multiple_of = pad_to_multiple_of
    model = MeanPooledBert(config)
    take_embeddings(model, larger.embeddings.state_dict())
    source = {"embeddings": path or package or subfolder, **({} if commit is None else {"commit": commit})}
    about = HostFacts(name=name, num_classes=num_classes, trained=False, source=source, class_names=class_names)
    return bert.host(model, tokenizer, about, family="bert_tiny")


def _check_sizes(layers: int, width: int, heads: int, dropout: float) -> None:
    """UserError for sizes that make no BERT."""
    for what, value in (("layers", layers), ("width", width), ("heads", heads)):
        whole(f"model.{what}", value, 1, 4096)
    if width % heads or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise UserError(
            f"model.width must be divisible by model.heads, and model.dropout from 0 to below 1: {width}, "
            f"{heads} and {dropout} were given"
        )


def _config(larger: BertConfig, num_classes: int, *, layers: int, width: int, heads: int, dropout: float) -> BertConfig:
    """The configuration of a BERT of these sizes with the vocabulary, positions and token types of a larger one."""
    config = BertConfig(
        vocab_size=larger.vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=larger.max_position_embeddings,
        type_vocab_size=larger.type_vocab_size,
        pad_token_id=larger.pad_token_id,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config.num_labels = num_classes
    return config


@torch.no_grad()
def take_embeddings(model: MeanPooledBert, larger: dict[str, Tensor]) -> None:
    """Embeddings of words, positions and types as their first principal components, by those of the words.

    The mean word is taken off all words, and the means of positions and types likewise: a constant that the norm after
    them would have to take off again. Words have a mean square of 1 / 16 by feature afterwards, the rest is in scale.
    """
    words = larger[WORDS].double()
    centred = words - words.mean(0)
    basis = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)[:, : model.config.hidden_size]
    factor = 0.25 / (centred @ basis).square().mean().sqrt()
    own = model.bert.embeddings.state_dict()
    for name in (WORDS, PLACES, TYPES):
        table = larger[name].double()
        own[name].copy_((table - table.mean(0)) @ basis * factor)
