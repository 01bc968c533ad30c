"""Small hosts that stay encrypted whole: norms of fixed statistics, squares, chains; every number of them random."""

import timm
import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForSequenceClassification

from cgf.activation.polynomial import Linear as Product
from cgf.activation.polynomial import Square
from cgf.approx.chain import SquareChain
from cgf.approx.fit import chain
from cgf.data.task import ImageInput, Inputs
from cgf.models.host import Host
from cgf.models.install import install
from cgf.norm.batch import BatchNorm
from cgf.softmax.cgf import CGF

CHAIN = "chain"


def with_chain(k):
    """CGF-softmax with a chain of k whose constants are those of no other."""
    softmax = CGF()
    fitted = chain(-8.0, 1.0, k)
    softmax.exponential = SquareChain("chain", fitted.a, fitted.b, fitted.constants, fitted.fit)
    return softmax


def swapped(model, norms=(torch.nn.LayerNorm,), activations=(torch.nn.GELU, torch.nn.Tanh)):
    """Every LayerNorm by a BatchNorm, every activation by a Square of the width that reaches it."""
    width = None
    for _, parent in list(model.named_modules()):
        for child_name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear:
                width = child.out_features
            if isinstance(child, norms):
                setattr(parent, child_name, BatchNorm(child.normalized_shape[0], child.eps))
            elif isinstance(child, activations) or "activation" in type(child).__name__.lower():
                setattr(parent, child_name, Square(width))
    return model


def randomised(model, seed=0):
    """Every parameter and statistic drawn anew, of a size that keeps scores small and squares of both signs."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.running_mean.copy_(0.3 * torch.randn(module.running_mean.shape, generator=draw))
                module.running_var.copy_(0.5 + torch.rand(module.running_var.shape, generator=draw))
                module.weight.copy_(0.7 + 0.6 * torch.rand(module.weight.shape, generator=draw))
                module.bias.copy_(0.2 * torch.randn(module.bias.shape, generator=draw))
            elif isinstance(module, Square):
                sign = torch.where(torch.rand(module.a.shape, generator=draw) < 0.3, -1.0, 1.0)
                module.a.copy_(sign * (0.1 + 0.2 * torch.rand(module.a.shape, generator=draw)))
                module.b.copy_(0.5 + 0.1 * torch.randn(module.b.shape, generator=draw))
                module.c.copy_(0.1 * torch.randn(module.c.shape, generator=draw))
            elif isinstance(module, Product):
                module.b.copy_(0.7 + 0.3 * torch.rand(module.b.shape, generator=draw))
                module.c.copy_(0.2 * torch.randn(module.c.shape, generator=draw))
            else:
                for parameter in module.parameters(recurse=False):
                    size = 0.3 if parameter.dim() < 2 else (1.0 / parameter[0].numel()) ** 0.5
                    parameter.copy_(size * torch.randn(parameter.shape, generator=draw))
    return model.double().eval()


def vit(depth, k=3, softmax=CHAIN, dim=16, heads=2, seed=0, **options):
    """A ViT for 8 x 8 images of 16 patches, MLP of twice the width, 4 classes."""
    options = {"class_token": False, "global_pool": "avg", "in_chans": 1, **options}
    model = timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        num_classes=4,
        img_size=8,
        patch_size=2,
        embed_dim=dim,
        depth=depth,
        num_heads=heads,
        mlp_ratio=2.0,
        **options,
    )
    size = (options["in_chans"], 8, 8)
    host = Host(
        model=randomised(swapped(model), seed),
        name="small_vit",
        family="vit",
        forward=lambda m, batch: m(batch["pixel_values"]),
        inputs=Inputs(image=ImageInput(size, (0.5,) * size[0], (0.5,) * size[0], "bicubic", 1.0)),
        num_classes=4,
        head_trained=True,
        causal=False,
    )
    return _with(host, softmax, k)


def bert(depth, k=3, softmax=CHAIN, dim=16, heads=2, seed=0):
    """A BERT of 30 words and at most 16 tokens, 3 classes."""
    config = BertConfig(
        vocab_size=30,
        hidden_size=dim,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=2 * dim,
        max_position_embeddings=16,
        num_labels=3,
    )
    model = randomised(swapped(BertForSequenceClassification(config)), seed)
    host = Host(
        model=model,
        name="small_bert",
        family="bert",
        forward=lambda m, batch: m(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits,
        inputs=Inputs(tokenizer=None),
        num_classes=3,
        head_trained=True,
        class_names=["x", "y", "z"],
        causal=False,
    )
    return _with(host, softmax, k)


def llama(depth, k=2, softmax=CHAIN, dim=16, heads=4, gate=Product, seed=0, **options):
    """A LLaMA of 30 words and at most 16 tokens, two queries a key, MLP of twice the width, 3 classes."""
    config = LlamaConfig(
        vocab_size=30,
        hidden_size=dim,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=2 * dim,
        max_position_embeddings=16,
        num_labels=3,
        pad_token_id=0,
        **{"num_key_value_heads": heads // 2, "attention_bias": True, "mlp_bias": True, **options},
    )
    model = LlamaForSequenceClassification(config)
    for layer in model.model.layers:
        layer.mlp.act_fn = gate(2 * dim)
        for name in ("input_layernorm", "post_attention_layernorm"):
            setattr(layer, name, BatchNorm(dim, 1e-6))
    model.model.norm = BatchNorm(dim, 1e-6)
    host = Host(
        model=randomised(model, seed),
        name="small_llama",
        family="llama",
        forward=lambda m, batch: m(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits,
        inputs=Inputs(tokenizer=None),
        num_classes=3,
        head_trained=True,
        causal=True,
    )
    return _with(host, softmax, k)


def _with(host, softmax, k):
    if softmax is not None:
        install(host.model, lambda _: with_chain(k) if softmax == CHAIN else softmax)
    return host
