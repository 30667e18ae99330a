"""Pictures in notebooks, without matplotlib."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")


import specdens as sd


@pytest.mark.parametrize("kind", ["density", "log_density"])
def test_a_notebook_shows_a_picture_and_the_text(measure, kind):
    density = getattr(measure, kind)()
    root = ET.fromstring(density._repr_html_())
    (svg,) = root.iter("{http://www.w3.org/2000/svg}svg")
    (curve,) = svg.iter("{http://www.w3.org/2000/svg}polyline")
    points = np.array([[float(c) for c in pair.split(",")] for pair in curve.get("points").split()])
    assert np.all(np.diff(points[:, 0]) > 0)
    assert points[:, 1].min() >= 0
    assert svg.get("stroke") == "currentColor"
    assert root.find("pre").text == repr(density)


def test_atoms_are_stems_in_a_notebook_too(deflated):
    root = ET.fromstring(deflated._repr_html_())
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 3
    only_atoms = sd.spectral_density(np.eye(3))
    assert ET.fromstring(only_atoms._repr_html_()).find("pre").text == repr(only_atoms)


def test_an_end_that_is_zero_to_rounding_is_written_as_0_in_notebooks(measure):
    density = measure.density()
    density = dataclasses.replace(density, edges=np.r_[2.604e-15, density.edges[1:]])
    words = [node.text for node in ET.fromstring(density._repr_html_()).iter() if node.tag.endswith("text")]
    assert words[0] == "0"
