"""A saved model as a service: JSON over HTTP, with a page to try it (`cbdl serve`, extra "serve").

`application` makes the FastAPI application of a model, `run` serves it until it is told to stop. Requests that come
together are answered together (`cbdl.serve.batches`). `of_images` is for models of pictures with other units.
"""

from cbdl.serve.app import application
from cbdl.serve.images import of_images
from cbdl.serve.limits import Limits
from cbdl.serve.server import run

__all__ = ["Limits", "application", "of_images", "run"]
