"""transformers' BERT with a classification head as a network: norms behind the sums, a pooler of the first token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from cgf.approx.exponential import Exponential
from cgf.errors import UserError
from cgf.models.host import Host
from cgf.models.network import activation, classes_of, exponentials_of, linear, norm, numbers
from cgf.network.inputs import Table
from cgf.network.layers import FIRST, MEAN, Layer, Network, Pool, Residual, SelfAttention
from cgf.types import HostConfig, HostModule


def network_of(host: Host) -> tuple[Network, Table]:
    """The network of a BertForSequenceClassification on texts of one segment, and its table of word embeddings.

    The tanh of its pooler must be a trained square, as every activation. UserError for parts that are not handled, by
    name: see cgf.models.network.network_of.
    """
    from transformers import BertForSequenceClassification

    model: HostModule = host.model
    if type(model) is not BertForSequenceClassification:
        raise UserError(
            f"he.scope=network reads transformers' BertForSequenceClassification, and model '{host.name}' is "
            f"{type(model).__name__}"
        )
    _check(host)
    own: HostModule = model.bert.pooler
    pooler: list[Layer] = [linear(own.dense, "bert.pooler.dense"), activation(own.activation, "bert.pooler.activation")]
    return _network(host, [Pool(FIRST), *pooler])


def mean_pooled(host: Host) -> tuple[Network, Table]:
    """The same of a MeanPooledBert, whose classifier takes the mean of all tokens: texts of a set have one length.

    Its padding counts among them where it reads padding as words.
    """
    from cgf.models.bert_tiny import MeanPooledBert, multiple_of

    if type(host.model) is not MeanPooledBert:
        raise UserError(
            "he.scope=network reads the BERT of model=bert_tiny, and model "
            f"'{host.name}' is {type(host.model).__name__}"
        )
    _check(host)
    network, words = _network(host, [Pool(MEAN)])
    return network, replace(words, multiple=multiple_of(host.model), padding=host.model.config.pad_token_id or 0)


def _network(host: Host, pooling: list[Layer]) -> tuple[Network, Table]:
    model: HostModule = host.model
    words, layers = _embedding(model.bert.embeddings)
    for index, (layer, exponential) in enumerate(zip(model.bert.encoder.layer, exponentials_of(host), strict=True)):
        layers += _layer(layer, f"bert.encoder.layer.{index}", exponential)
    layers += [*pooling, linear(model.classifier, "classifier")]
    return Network(host.name, words.features, (2, len(words.places)), tuple(layers), classes_of(host)), words


def _check(host: Host) -> None:
    """UserError for a decoder, for positions that are not added to the words, and for parts of another class.

    The configuration alone tells of positions: transformers computes those of older models as if they were added.
    """
    settings: HostConfig = host.model.config
    for name, wanted in (
        ("is_decoder", False),
        ("add_cross_attention", False),
        ("position_embedding_type", "absolute"),
    ):
        if (has := getattr(settings, name, wanted)) != wanted:
            raise UserError(
                f"he.scope=network needs an encoder with positions added to its words, and model '{host.name}' has "
                f"{name}={has!r}"
            )
    for where, module, kind in _parts(host.model):
        if type(module) is not kind:
            raise UserError(
                f"he.scope=network reads transformers' {kind.__name__}, and {where} is {type(module).__name__}"
            )


def _parts(model: HostModule) -> Iterator[tuple[str, nn.Module, type[nn.Module]]]:
    """(place, module, the class whose forward a description follows) of every part that has parts of its own.

    UserError for an attention that is causal, and for a layer with an attention beside its own.
    """
    from transformers.models.bert import modeling_bert as parts

    yield "bert.embeddings", model.bert.embeddings, parts.BertEmbeddings
    yield "bert.encoder", model.bert.encoder, parts.BertEncoder
    if model.bert.pooler is not None:
        yield "bert.pooler", model.bert.pooler, parts.BertPooler
    for index, layer in enumerate(model.bert.encoder.layer):
        where = f"bert.encoder.layer.{index}"
        yield where, layer, parts.BertLayer
        if hasattr(layer, "crossattention"):
            raise UserError(f"he.scope=network needs an encoder alone, and the model has cross attention at {where}")
        attention = layer.attention
        yield f"{where}.attention", attention, parts.BertAttention
        yield f"{where}.attention.self", attention.self, parts.BertSelfAttention
        if attention.self.is_causal:
            raise UserError(f"he.scope=network needs attentions over all tokens, and {where}.attention.self is causal")
        yield f"{where}.attention.output", attention.output, parts.BertSelfOutput
        yield f"{where}.intermediate", layer.intermediate, parts.BertIntermediate
        yield f"{where}.output", layer.output, parts.BertOutput


def _embedding(embeddings: HostModule) -> tuple[Table, list[Layer]]:
    """The table with its positions and segment, and an exact norm of them, which come before encryption.

    A norm of fixed statistics is the first layer.
    """
    rows, places, segments = (
        numbers(table.weight)
        for table in (embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings)
    )
    own = embeddings.LayerNorm
    if type(own) is nn.LayerNorm:
        return Table(rows, places + segments[0], (numbers(own.weight), numbers(own.bias)), float(own.eps)), []
    return Table(rows, places + segments[0]), list(norm(own, "bert.embeddings.LayerNorm"))


def _layer(layer: HostModule, where: str, exponential: Exponential) -> list[Layer]:
    own, out, mlp = layer.attention.self, layer.attention.output, layer.intermediate
    parts = [linear(getattr(own, name), f"{where}.attention.self.{name}") for name in ("query", "key", "value")]
    attend = SelfAttention(parts[0], parts[1], parts[2], int(own.num_attention_heads), float(own.scaling), exponential)
    first = Residual((attend, linear(out.dense, f"{where}.attention.output.dense")))
    second = Residual(
        (
            linear(mlp.dense, f"{where}.intermediate.dense"),
            activation(mlp.intermediate_act_fn, f"{where}.intermediate.intermediate_act_fn"),
            linear(layer.output.dense, f"{where}.output.dense"),
        )
    )
    return [
        first,
        *norm(out.LayerNorm, f"{where}.attention.output.LayerNorm"),
        second,
        *norm(layer.output.LayerNorm, f"{where}.output.LayerNorm"),
    ]
