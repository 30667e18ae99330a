"""What every tool starts from: a model with loss and data, a positive operator, a lattice, and disorder."""

import numpy as np
import scipy.sparse as sp
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3)).eval()
x, y = torch.randn(60, 12), torch.arange(60) % 3
loss = torch.nn.CrossEntropyLoss()
params = list(model.parameters())

line = sp.diags_array([-1.0, -1.0], offsets=[-1, 1], shape=(20, 20))
H = sp.csr_matrix(sp.kron(line, sp.eye_array(20)) + sp.kron(sp.eye_array(20), line))
A = H + 5 * sp.eye_array(400)  # positive
n, site = 400, 210
disorder = [sp.diags_array(np.random.default_rng(seed).uniform(-1, 1, n)) for seed in range(5)]
