"""Training: fine-tuning and distillation of a model whose attention has another softmax."""
