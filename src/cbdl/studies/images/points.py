"""What a member without draws, one network, answers about all sets of rows."""

from __future__ import annotations

import numpy as np

import cbdl
from cbdl import constructions
from cbdl.studies.images import layers
from cbdl.studies.images.members import Scale
from cbdl.studies.images.sources import Rows
from cbdl.studies.shelf import Arrays


def answers(model: cbdl.CBDL, own: Rows, scale: Scale, seed: int) -> Arrays:
    """Log probabilities, and how known rows are to the network by what it sees of them."""
    network = layers.network_of(model)
    (_, train), (logits, held_out) = (
        layers.seen_by(network, scale(images)) for images in (own.train, own.validation)
    )
    ground = constructions.background(train, own.train.y, held_out, probs=logits.softmax(-1))
    said: Arrays = {}
    for name, make in own.sets(seed).items():
        logits, features = layers.seen_by(network, scale(make()))
        said[f"{name}/log_probs"] = logits.log_softmax(-1).numpy().astype(np.float32)
        said[f"{name}/known"] = np.asarray(ground.known(features, logits.softmax(-1)), dtype=np.float32)
    return said
