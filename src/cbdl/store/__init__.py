"""Saved models: a folder with `manifest.json` and safetensors files. Never pickle, never code.

`write` and `read` know a `Saved`: the settings of a model and what it has learned. The manifest says what the model is;
the files hold numbers.
"""

from cbdl.store.folder import MANIFEST, fingerprint, read_manifest
from cbdl.store.saved import Saved, read, write
from cbdl.store.schema import ModelError

__all__ = ["MANIFEST", "ModelError", "Saved", "fingerprint", "read", "read_manifest", "write"]
