"""Names for values whose type no annotation can state: what a file or a setting holds, a vendor's object.

``Any`` is imported here alone, and each alias says whose value it is. Where a class, a protocol or a type variable says
more it stands instead, and ``object`` where a value is only looked at.
"""

from typing import Any

# ---------------------------------------------------------------- files

Json = dict[str, Any]  # an object of JSON: of a file before its schema has read it, or on its way into one
JsonValue = Any  # a value of JSON, or of a setting: a number, a text, a truth value, null, a list or an object of such

# ---------------------------------------------------------------- settings

Config = Any  # omegaconf.DictConfig; cgf.config has checked its keys and their types against configs/*.yaml
Built = Any  # what hydra.utils.instantiate makes of a node: an object of the class that the node names
Options = dict[str, Any]  # keyword arguments, as the function that takes them declares them

Unpickled = Any  # an object that this process has pickled for its own workers

# ---------------------------------------------------------------- values that circuits and models compute with

Operand = Any  # what an operator takes beside the value it belongs to: its own kind, a number, what its library adds
Ciphertext = Any  # an engine's own object: SimCiphertext, desilofhe.Ciphertext, openfhe.Ciphertext, a wrapper's
Item = dict[str, Any]  # a sample of a data set by the names of its inputs: tensors, token ids, its label

# ---------------------------------------------------------------- libraries that state no types, or are not loaded

HubDataset = Any  # datasets.Dataset
Tokenizer = Any  # transformers' PreTrainedTokenizerBase, or what stands in for it where no text is read
HostModule = Any  # a module of transformers or timm, taken apart by the attributes of its class
HostConfig = Any  # transformers' PreTrainedConfig of a family, timm's pretrained_cfg
AutoClass = Any  # AutoConfig or AutoModelFor... of transformers
VendorObject = Any  # an object of a library that states no types; the alias made of it says which
