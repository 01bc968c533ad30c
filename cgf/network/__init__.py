"""What is made of softmaxes: attentions, defined once with operators and read on tensors, numbers and ciphertexts."""
