"""The algebra of a network: its program in float64 against the torch model that it was made of, and its files."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the models in the clear are tensors")
from friendly_hosts import bert, llama, vit, with_chain  # noqa: E402
from safetensors.torch import load_file as load_tensors  # noqa: E402
from safetensors.torch import save_file as save_tensors  # noqa: E402

from cgf.activation.polynomial import Square as SquareModule  # noqa: E402
from cgf.approx.chain import SquareChain  # noqa: E402
from cgf.approx.fit import chain, with_fit  # noqa: E402
from cgf.approx.head_chain import HeadChain  # noqa: E402
from cgf.errors import UserError  # noqa: E402
from cgf.he.engines.count import Counting  # noqa: E402
from cgf.he.engines.sim import SimEngine, SimOwner  # noqa: E402
from cgf.he.network_layout import TokenLayout  # noqa: E402
from cgf.he.network_maps import Maps  # noqa: E402
from cgf.models.network import network_of  # noqa: E402
from cgf.network.files import load_inputs, load_network, save_inputs, save_network  # noqa: E402
from cgf.network.form import Form  # noqa: E402
from cgf.network.layers import Affine, Gated, Linear, Network, Pool, Residual, Rotary, SelfAttention, Square  # noqa: E402
from cgf.network.program import Attend, program_of  # noqa: E402
from cgf.network.twin import Ranges, twin  # noqa: E402
from cgf.norm.batch import BatchNorm  # noqa: E402
from cgf.softmax.cgf import CGF  # noqa: E402

EXACT = 1e-9


def both(host, prepared, batch, tokens, streams=True):
    """Logits of the program and of the torch model, both in float64."""
    network, _ = network_of(host)
    with torch.inference_mode():
        expected = host.logits(batch).numpy()
    got = twin(program_of(network, tokens, streams), prepared)
    assert np.abs(expected).max() > 0.1  # the model does something
    return got, expected


def images(host, count=5):
    size = host.inputs.image.size
    return torch.from_numpy(np.random.default_rng(1).uniform(-1, 1, (count, *size)))


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_vit_of_random_weights(depth, streams):
    host = vit(depth)
    pixels = images(host)
    _, patches = network_of(host)
    got, expected = both(host, patches.prepared(pixels.numpy()), {"pixel_values": pixels}, 16, streams)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())


@pytest.mark.parametrize("options", [
    {"class_token": True, "global_pool": "token"},
    {"class_token": True, "global_pool": "token", "reg_tokens": 2, "no_embed_class": True},
    {"qkv_bias": False, "init_values": 0.3},
    {"in_chans": 3, "fc_norm": True},
])  # fmt: skip
def test_what_else_a_vit_may_have(options):
    host = vit(2, **options)
    pixels = images(host)
    network, patches = network_of(host)
    got, expected = both(host, patches.prepared(pixels.numpy()), {"pixel_values": pixels}, network.tokens[0])
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("tokens", [5, 8])
def test_a_bert_of_random_weights(depth, tokens):
    """Norms behind the sums, and a square behind the pooling."""
    host = bert(depth)
    ids = np.random.default_rng(2).integers(0, 30, (4, tokens))
    _, table = network_of(host)
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(4, tokens, dtype=torch.long)}
    got, expected = both(host, table.prepared(ids), batch, tokens)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("tokens", [5, 8])
def test_a_llama_of_random_weights(depth, tokens, streams):
    """Causal, rotary positions, two queries a key, a gated unit, logits of the last token."""
    host = llama(depth)
    ids = np.random.default_rng(2).integers(1, 30, (4, tokens))
    network, table = network_of(host)
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(4, tokens, dtype=torch.long)}
    got, expected = both(host, table.prepared(ids), batch, tokens, streams)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())
    assert program_of(network, tokens, streams).depth() == depth * (6 + 2 + 3) + 1


@pytest.mark.parametrize("options", [
    {"gate": SquareModule},  # the gate is squared before it is mapped again: two levels more
    {"num_key_value_heads": 4, "attention_bias": False, "mlp_bias": False},
    {"head_dim": 6},
    {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}},
])  # fmt: skip
def test_what_else_a_llama_may_have(options):
    host = llama(2, **options)
    ids = np.random.default_rng(3).integers(1, 30, (4, 7))
    network, table = network_of(host)
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(4, 7, dtype=torch.long)}
    got, expected = both(host, table.prepared(ids), batch, 7)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())
    assert program_of(network, 7).depth() == 2 * (11 + 2 * ("gate" in options)) + 1


def test_a_norm_of_embeddings_that_stays_the_hosts_own_comes_before_encryption(tmp_path):
    host = bert(1)
    norm = torch.nn.LayerNorm(16, eps=1e-3).double()
    torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    host.model.bert.embeddings.LayerNorm = norm
    ids = np.random.default_rng(2).integers(0, 30, (4, 6))
    save_inputs(tmp_path, network_of(host)[1])
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(4, 6, dtype=torch.long)}
    got, expected = both(host, load_inputs(tmp_path).prepared(ids), batch, 6)
    np.testing.assert_allclose(got, expected, rtol=0, atol=EXACT * np.abs(expected).max())


def test_ids_outside_a_table_are_refused():
    _, table = network_of(bert(1))
    for ids, message in ((np.array([[0, 30]]), "no row 30"), (np.array([[-1, 3]]), "no row -1"), (
        np.zeros((1, 17), dtype=int), "at most 16 tokens")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            table.prepared(ids)


def test_levels_are_six_and_the_squarings_a_block_and_one():
    for depth, k in ((1, 3), (2, 2), (3, 4)):
        network, _ = network_of(vit(depth, k=k))
        assert program_of(network, 16).depth() == depth * (6 + k) + 1
        assert program_of(network, 16, streams=False).depth() == depth * (6 + k) + 1
    assert program_of(network_of(bert(2, k=2))[0], 6).depth() == 2 * (6 + 2) + 3  # the pooler's map and square too


def test_a_state_of_many_sources_becomes_one_of_its_own_where_that_is_fewer():
    network, _ = network_of(vit(2))
    first, _, second, squares = program_of(network, 16).steps
    assert isinstance(first, Attend) and first.stream is None  # 4 pixels are fewer than 16 features
    assert second.stream is not None and second.stream[1].features == 4 + 16 + 32
    assert squares.form.features == 16 + 16  # the state, and the second attention's outputs
    alone = program_of(network, 16, streams=False)
    assert alone.steps[3].form.features == 4 + 16 + 32 + 16


def linear(rng, outputs, inputs):
    return Linear(rng.normal(size=(outputs, inputs)) * 0.5 / np.sqrt(inputs), 0.1 * rng.normal(size=outputs))


def layer_by_layer(layers, state):
    """The same layers without a program: no sources, no forms."""
    for layer in layers:
        if isinstance(layer, Linear):
            state = state @ layer.weight.T + layer.bias
        elif isinstance(layer, Affine):
            state = state * layer.scale + layer.shift
        elif isinstance(layer, Pool):
            state = state.mean(1)
        elif isinstance(layer, Residual):
            state = state + layer_by_layer(layer.layers, state)
        else:
            query, key, value = (state @ m.weight.T + m.bias for m in (layer.query, layer.key, layer.value))
            outputs = []
            for head, parts in enumerate(np.split(np.arange(query.shape[-1]), layer.heads)):
                scores = layer.scaling * query[..., parts] @ key[..., parts].swapaxes(1, 2)
                y = scores - scores.mean(-1, keepdims=True) - scores.var(-1, keepdims=True) / 2 - np.log(state.shape[1])
                outputs.append(layer.of_head(head)(y) @ value[..., parts])
            state = np.concatenate(outputs, -1)
    return state


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("nested", ["none", "inner", "bare", "both", "before", "behind"])
def test_sums_within_sums_add_the_state_of_their_own(nested, streams):
    """20 features and 8 beside them, so that a state becomes a stream wherever an attention is within a sum."""
    rng, width, features = np.random.default_rng(1), 8, 20
    exponential = chain(-10.0, 1.2, 2)

    def attention():
        query, key, value, out = (linear(rng, width, width) for _ in range(4))
        return SelfAttention(query, key, value, 2, 0.5, exponential), out

    scaled = Affine(np.full(width, 2.0), np.zeros(width))
    inside = {
        "none": (scaled, *attention()),
        "inner": (scaled, Residual(attention())),
        "bare": (Residual(attention()),),
        "both": (Residual((scaled, Residual(attention()))), *attention()),
        "before": (*attention(), Residual((scaled, *attention()))),
        "behind": (Residual(attention()), scaled, Residual(attention())),
    }[nested]
    layers = (linear(rng, width, features), Residual(inside), Pool("mean"), linear(rng, 3, width))
    network, x = Network("n", features, (4, 4), layers, ("a", "b", "c")), rng.normal(size=(2, 4, features))
    got = twin(program_of(network, 4, streams), x)
    np.testing.assert_allclose(got, layer_by_layer(layers, x), rtol=0, atol=1e-13)


def test_chains_by_head_count_what_is_beyond_their_guard_as_one_chain_does():
    rng, width, fitted = np.random.default_rng(1), 8, chain(-10.0, 1.2, 2)
    plain = SquareChain("chain", fitted.a, fitted.b, fitted.constants)
    one, by_head = (with_fit(e, (-10.0, 1.2)) for e in (plain, HeadChain("head_chain", (plain, plain))))
    query, key, value, out, last = (Linear(rng.normal(size=(width, width)), np.zeros(width)) for _ in range(5))
    x, counts = 6 * rng.normal(size=(2, 4, width)), []
    for exponential in (one, by_head):
        attention = SelfAttention(query, key, value, 2, 1.0, exponential)
        ranges = Ranges()
        layers = (attention, out, Pool("mean"), last)
        twin(program_of(Network("n", width, (4, 4), layers, tuple("abcdefgh")), 4), x, ranges)
        counts.append(ranges.beyond)
    assert counts[0] == counts[1] and min(counts[0].values()) > 0


def test_tokens_share_a_constant_but_for_rounding():
    """Products of matrices round the last row of an odd number of tokens otherwise: no vector is encoded for that."""
    constant = np.array([[1.0, 2.0, 1e-17], [1.0 + 2e-16, 2.0, -1e-17], [1.0, 2.1, 0.0]])
    form = Form({"x": np.eye(3)}, constant)
    assert form.same.tolist() == [True, False, True]
    assert Form({"x": np.eye(2)}, np.zeros((3, 2))).same.all()
    engine, owner = Counting(SimEngine(3)), SimOwner(3)
    cts = [owner.encrypt(np.zeros(6), 3) for _ in range(3)]
    list(Maps(engine, TokenLayout(3, 2, engine.slots)).rows(form, {"x": cts}))
    assert engine.by_level["add_vector", 2] == 1 and engine.by_level["add_float", 2] == 2


def test_a_completed_square_keeps_the_sign_of_its_factor():
    coefficients = np.array([[0.3, -1.0], [0.7, 2.0], [-0.5, 0.25]])
    layers = (Linear(np.eye(2), np.zeros(2)), Square(coefficients), Pool("mean"))
    program = program_of(Network("n", 2, (2, 2), layers, ("a", "b")), 2)
    u = np.random.default_rng(0).normal(size=(3, 2, 2))
    c, b, a = coefficients
    np.testing.assert_allclose(twin(program, u), (a * u * u + b * u + c).mean(1), rtol=0, atol=1e-14)


def test_ranges_of_a_run_in_the_clear():
    host = vit(2)
    network, patches = network_of(host)
    ranges = Ranges()
    twin(program_of(network, 16), patches.prepared(images(host).numpy()), ranges)
    assert set(ranges.exponents) == {"o1", "o2"} and set(ranges.squared) == {"s1", "s2"}
    low, high = ranges.exponents["o1"]
    assert low < -np.log(16) < high < 3 and ranges.beyond == {(a, h): 0 for a in (0, 1) for h in (0, 1)}


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "message"), [
    (lambda m: setattr(m.blocks[0], "norm1", torch.nn.LayerNorm(16)), "LayerNorm at blocks.0.norm1 stays exact"),
    (lambda m: setattr(m.blocks[1].mlp, "act", torch.nn.GELU()), "GELU at blocks.1.mlp.act is none"),
    (lambda m: setattr(m.blocks[1].attn, "q_norm", torch.nn.LayerNorm(8)), "blocks.1.attn.q_norm is one"),
    (lambda m: setattr(m, "global_pool", "max"), "not by 'max'"),
    (lambda m: setattr(m.blocks[0].attn, "gate", torch.nn.Linear(16, 16)), "blocks.0.attn has one"),
    (lambda m: setattr(m.blocks[0].attn, "norm", torch.nn.LayerNorm(16)), "blocks.0.attn.norm is one"),
    (lambda m: setattr(m.blocks[0].mlp, "norm", torch.nn.LayerNorm(32)), "blocks.0.mlp.norm is one"),
    (lambda m: setattr(m.patch_embed, "norm", torch.nn.LayerNorm(16)), "patch_embed.norm is one"),
    (lambda m: setattr(m.patch_embed.proj, "groups", 2), "patch_embed has others"),
    (lambda m: setattr(m, "dynamic_img_size", True), "patch_embed has others"),
])  # fmt: skip
def test_a_vit_that_does_not_stay_encrypted_is_refused_by_name(change, message):
    host = vit(2)
    change(host.model)
    with pytest.raises(UserError, match=message):
        network_of(host)


@pytest.mark.parametrize(("change", "message"), [
    (lambda m: setattr(m.model.layers[1].mlp, "act_fn", torch.nn.ReLU()), r"ReLU at model\.layers\.1\.mlp\.act_fn is"),
    (lambda m: setattr(m.model, "norm", torch.nn.RMSNorm(16)), r"RMSNorm at model\.norm stays exact"),
    (lambda m: setattr(m.model.layers[0].mlp, "up_proj", torch.nn.Identity()), r"at model\.layers\.0\.mlp\.up_proj"),
    (lambda m: setattr(m.model.rotary_emb, "rope_type", "dynamic"), "same for texts of any length, .* has 'dynamic'"),
])  # fmt: skip
def test_a_llama_that_does_not_stay_encrypted_is_refused_by_name(change, message):
    host = llama(2)
    change(host.model)
    with pytest.raises(UserError, match=message):
        network_of(host)


def test_another_decoder_and_a_window_are_refused_by_name():
    from transformers import MistralConfig, MistralForSequenceClassification

    host = llama(1)
    host.window = 4
    with pytest.raises(UserError, match="model 'small_llama' has a window of 4 tokens"):
        network_of(host)
    sizes = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32}
    host = llama(1)
    host.model = MistralForSequenceClassification(MistralConfig(vocab_size=30, num_hidden_layers=1, **sizes))
    with pytest.raises(UserError, match=r"reads transformers' LlamaForSequenceClassification, and .* is Mistral"):
        network_of(host)
    host = llama(1)
    host.model.model.layers[0].self_attn.__class__ = type("Another", (type(host.model.model.layers[0].self_attn),), {})
    with pytest.raises(UserError, match=r"LlamaAttention, and model\.layers\.0\.self_attn is Another"):
        network_of(host)


def test_parts_of_a_llama_that_do_not_fit_are_refused():
    turns = Rotary(np.ones((4, 2)), np.zeros((4, 2)))
    part = Linear(np.eye(2), np.zeros(2))
    with pytest.raises(UserError, match="pairs of features, and a head has 3"):
        Rotary(np.ones((4, 3)), np.ones((4, 3)))
    with pytest.raises(UserError, match="of 2 features need heads of as many, and 2 heads have 2 together"):
        SelfAttention(part, part, part, 2, 1.0, with_chain(2).exponential, rotary=turns)
    layer = SelfAttention(part, part, part, 1, 1.0, with_chain(2).exponential, rotary=turns)
    with pytest.raises(UserError, match="rotary positions of 4 tokens do not reach 5"):
        Network("n", 2, (2, 5), (layer, Pool("last")), ("a", "b"))
    with pytest.raises(UserError, match="linear maps, affine norms and squares alone"):
        Gated((Pool("last"),), part)
    with pytest.raises(UserError, match="a gated unit needs as many features inside as outside, and has 3 and 2"):
        Network("n", 2, (2, 4), (Gated((Linear(np.ones((3, 2)), np.zeros(3)),), part), Pool("last")), ("a", "b"))


def test_an_mlp_of_another_forward_is_refused():
    """One has the names of timm's Mlp and a norm of its hidden layer between them, the other lacks them."""
    from timm.layers import GlobalResponseNormMlp, SwiGLU

    for made in (GlobalResponseNormMlp(16, 32), SwiGLU(16, 32)):
        host = vit(1)
        made.act, made.norm = host.model.blocks[0].mlp.act, torch.nn.Identity()
        host.model.blocks[0].mlp = made
        with pytest.raises(UserError, match=rf"reads timm's Mlp, and blocks\.0\.mlp is {type(made).__name__}"):
            network_of(host)


def test_subclasses_that_compute_something_else_are_refused():
    class Clipped(SquareModule):
        def polynomial(self, u):
            return super().polynomial(u).clamp(-1, 1)

    class Halved(BatchNorm):
        def forward(self, x, *more):
            return super().forward(x, *more) / 2

    class Distances(CGF):
        def scores(self, query, key, scaling):
            return -0.5 * scaling * torch.cdist(query, key) ** 2

    host = vit(1)
    host.model.blocks[0].mlp.act = Clipped(32)
    with pytest.raises(UserError, match="needs a square for an activation"):
        network_of(host)
    host = vit(1)
    host.model.blocks[0].norm2 = Halved(16)
    with pytest.raises(UserError, match=r"at blocks\.0\.norm2"):
        network_of(host)
    softmax = Distances()
    softmax.exponential = with_chain(2).exponential
    with pytest.raises(UserError, match="knows CGF-softmax of two cumulants alone"):
        network_of(vit(1, softmax=softmax))


def test_other_softmaxes_are_refused_by_name():
    from cgf.softmax.published.gaussian import GaussianKernel

    with pytest.raises(UserError, match="layer 0 has none: approx=plan"):
        network_of(vit(1, softmax=CGF()))
    with pytest.raises(UserError, match="knows CGF-softmax of two cumulants alone"):
        network_of(vit(1, softmax=CGF(order=3)))
    with pytest.raises(UserError, match="knows CGF-softmax of two cumulants alone"):
        network_of(vit(1, softmax=GaussianKernel()))
    with pytest.raises(UserError, match="keeps its exact softmax"):
        network_of(vit(1, softmax=None))


def test_a_mean_beside_a_class_token_is_refused():
    with pytest.raises(UserError, match="leaves its class token out"):
        network_of(vit(1, class_token=True, global_pool="avg"))


def test_a_network_that_does_not_fit_itself_is_refused():
    with pytest.raises(UserError, match="takes 3 features, and is given 2"):
        Network("n", 2, (2, 2), (Linear(np.eye(3), np.zeros(3)), Pool("mean")), ("a",) * 3)
    with pytest.raises(UserError, match="needs one pooling, outside of sums, and has 0"):
        Network("n", 2, (2, 2), (Linear(np.eye(2), np.zeros(2)),), ("a", "b"))
    with pytest.raises(UserError, match="linear maps and squares alone behind its pooling"):
        Network("n", 2, (2, 2), (Pool("first"), Residual((Linear(np.eye(2), np.zeros(2)),))), ("a", "b"))
    with pytest.raises(UserError, match="takes samples of 16 to 16 tokens, and 8 were given"):
        program_of(network_of(vit(1))[0], 8)


# -- files -----------------------------------------------------------------------------------------


def test_a_network_comes_back_from_its_files_bit_for_bit(tmp_path):
    for host in (vit(2), bert(1), llama(2, gate=SquareModule)):
        network, inputs = network_of(host)
        save_network(tmp_path, network)
        save_inputs(tmp_path, inputs)
        again, prepares = load_network(tmp_path), load_inputs(tmp_path)
        features = np.random.default_rng(0).normal(size=(2, 16, network.features))
        np.testing.assert_array_equal(twin(program_of(again, 16), features), twin(program_of(network, 16), features))
        assert (again.name, again.tokens, again.classes) == (network.name, network.tokens, network.classes)
        assert type(prepares) is type(inputs)


@pytest.mark.parametrize(("change", "message"), [
    (lambda d: d.update(schema=2), "schema 1"),
    (lambda d: d.update(more=1), "no setting 'more'"),
    (lambda d: d.pop("classes"), "needs 'classes'"),
    (lambda d: d["layers"].append({"layer": "os.system"}), "needs a layer of linear, affine"),
    (lambda d: d["layers"].insert(0, {"layer": "linear"}), "needs the array 'layers.1.weight'"),
    (lambda d: d["layers"].pop(0), "takes|has no layer|needs the array"),
    (lambda d: d.update(tokens=[16]), "whole numbers for 'features' and two for 'tokens'"),
    (lambda d: next(x for x in d["layers"] if x["layer"] == "pool").update(pool="max"), "mean, first"),
    (lambda d: d["layers"][2]["layers"][1].update(heads="2"), "whole number of heads"),
    (lambda d: d["layers"][2]["layers"][1].update(exponential={"method": "os"}), "method must be one of"),
    (lambda d: d["layers"][2]["layers"][1].update(heads=3), "heads"),
    (lambda d: d.update(classes=d["classes"][:1]), "class"),
    (lambda d: d["layers"][2]["layers"][1]["exponential"].update(guard=[-1e9, 1e9]), "states a guard of"),
    (lambda d: d["layers"][2]["layers"][1]["exponential"].update(max_error=1e-30), "states an error of 1e-30"),
])  # fmt: skip
def test_a_changed_file_is_refused(tmp_path, change, message):
    save_network(tmp_path, network_of(vit(1))[0])
    data = json.loads((tmp_path / "network.json").read_text())
    change(data)
    (tmp_path / "network.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=message) as refused:
        load_network(tmp_path)
    assert str(tmp_path / "network.json") in str(refused.value)


@pytest.mark.parametrize(("change", "message"), [
    (lambda a: a.update(causal=1), "needs true for 'causal'"),
    (lambda a: a.pop("rotary"), "no layer for 'layers.0.1.cosines'"),
    (lambda a: a.update(window=3), "has no setting 'window'"),
])  # fmt: skip
def test_a_changed_file_of_a_llama_is_refused(tmp_path, change, message):
    save_network(tmp_path, network_of(llama(1))[0])
    data = json.loads((tmp_path / "network.json").read_text())
    change(data["layers"][0]["layers"][1])
    (tmp_path / "network.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=message):
        load_network(tmp_path)


def test_damaged_arrays_are_refused(tmp_path):
    save_network(tmp_path, network_of(vit(1))[0])
    (tmp_path / "network.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(UserError, match="cannot be read"):
        load_network(tmp_path)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_arrays_of_types_that_numpy_has_not_are_refused(tmp_path, kind):
    """They ended in an AttributeError, or in a TypeError, by the type; some are known once ml_dtypes is loaded."""
    pytest.importorskip("ml_dtypes")
    network, inputs = network_of(bert(1))
    for name, save, load in (("network", save_network, load_network), ("inputs", save_inputs, load_inputs)):
        save(tmp_path, network if name == "network" else inputs)
        path = tmp_path / f"{name}.safetensors"
        save_tensors({key: tensor.to(kind) for key, tensor in load_tensors(path).items()}, path)
        with pytest.raises(UserError, match=rf"{name}\.safetensors must hold numbers of a type that NumPy has"):
            load(tmp_path)


def test_the_random_hosts_leave_no_number_at_its_first_value():
    """Else the comparisons above would not see what is folded."""
    for host in (vit(1), bert(1)):
        values = [p.detach() for p in host.model.parameters()] + list(host.model.buffers())
        floats = [v for v in values if v.is_floating_point() and v.numel() > 1]
        assert all(float(v.std()) > 0.01 and float(v.abs().min()) > 0 for v in floats)
