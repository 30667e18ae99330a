"""
A pretrained transformer
========================

**Finding:** at a loss of 0.004 the largest eigenvalue of the Hessian comes from G, but H has not vanished: its
largest eigenvalue is a third as large, and it makes the bulk and all negative eigenvalues.
"""

import re
from pathlib import Path

import numpy as np
import specdens_torch as sdt
import torch
from torch import nn

import specdens as sd

# %%
# rxnmapper's ALBERT reads chemical reactions and fills in masked tokens. It has 735,567 parameters: its twelve layers
# share their weights. Here it is in plain torch, with the weights of the wheel (MIT licence) in float16.
folder = Path("../../data")  # docs/data, seen from the folder of this file


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(256, 256) for _ in range(4))
        self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256)
        self.norm1, self.norm2 = nn.LayerNorm(256, eps=1e-12), nn.LayerNorm(256, eps=1e-12)

    def forward(self, x, mask):
        heads = (part(x).unflatten(-1, (8, 32)).transpose(1, 2) for part in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask)
        x = self.norm1(x + self.out(mixed.transpose(1, 2).flatten(-2)))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Albert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.kinds = (nn.Embedding(size, 128) for size in (591, 512, 2))
        self.norm, self.last_norm = nn.LayerNorm(128, eps=1e-12), nn.LayerNorm(128, eps=1e-12)
        self.widen, self.narrow, self.layer = nn.Linear(128, 256), nn.Linear(256, 128), Layer()
        self.bias = nn.Parameter(torch.zeros(591))

    def forward(self, tokens):
        mask = (tokens != 0)[:, None, None, :]
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]] + self.kinds.weight[0]
        x = self.widen(self.norm(x))
        for _ in range(12):
            x = self.layer(x, mask)
        x = self.last_norm(nn.functional.gelu(self.narrow(x)))
        return x @ self.words.weight.T + self.bias


with np.load(folder / "rxnmapper_albert.npz") as file:
    vocabulary = {word: k for k, word in enumerate(str(file["words"]).split("\n"))}
    weights = {name: torch.tensor(file[name].astype("float32")) for name in file.files if name != "words"}
model = Albert().eval()
model.load_state_dict(weights)

# %%
# Two reactions from its README. Every fourth token is masked and has to be predicted.
reactions = (
    "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F",
    "C1COCCO1.CC(C)(C)OC(=O)CONC(=O)NCc1cccc2ccccc12.Cl>>O=C(O)CONC(=O)NCc1cccc2ccccc12",
)
token = re.compile(r"\[[^\]]+]|Br|Cl|>>|.")
rows = [["[CLS]", *token.findall(reaction), "[SEP]"] for reaction in reactions]
tokens = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.int64)
targets = torch.full_like(tokens, -100)
for k, row in enumerate(rows):
    tokens[k, : len(row)] = torch.tensor([vocabulary[word] for word in row])
    hidden = torch.arange(1, len(row) - 1, 4)
    targets[k, hidden] = tokens[k, hidden]
    tokens[k, hidden] = vocabulary["[MASK]"]
loss = nn.CrossEntropyLoss()
with torch.no_grad():
    print("loss of", int((targets >= 0).sum()), "tokens:", float(loss(model(tokens).flatten(0, 1), targets.flatten())))

# %%
# `CrossEntropyLoss` leaves out the targets of −100 and divides by the number of the others. Twenty products show the
# ends of the spectra; the bulk near zero is a smooth guess, which is why the picture has no band.
curv = sdt.Curvature(model, loss, (tokens, targets))
densities = curv.densities("Hess", "G", "H", num_steps=20)
for name, density in densities.items():
    nodes = density.measure.nodes[0]
    print(f"{name:5} from {nodes.min():8.3f} to {nodes.max():8.3f}")

# %%
axes = sd.plot_densities(densities, x="symlog", log_y=True, band=False)
axes.figure.set_size_inches(8, 4.5)
