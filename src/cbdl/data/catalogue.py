"""The data sets by name: which files, where their public homes are, and what their checksums are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One file to download: its address, its name in the folder of the data set, its sum as "algorithm:hex".

    members: for an archive, the files in it that are wanted, by their path inside
    """

    address: str
    name: str
    sum: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataSet:
    """One data set: what it is, and the files that it is made of.

    - `name`: by which it is asked for
    - `about`: what it is
    - `licence`: what may be done with it
    - `sources`: its files, where they are and their sums
    """

    name: str
    about: str
    licence: str
    sources: tuple[Source, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files after a download, without .gz."""
        names: list[str] = []
        for source in self.sources:
            names += [m.rsplit("/", 1)[-1] for m in source.members] or [source.name]
        return tuple(name.removesuffix(".gz") for name in names)


def _idx(home: str, sums: dict[str, str]) -> tuple[Source, ...]:
    return tuple(Source(f"{home}{name}.gz", f"{name}.gz", f"md5:{own}") for name, own in sums.items())


_BATCHES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")

CATALOGUE: dict[str, DataSet] = {
    one.name: one
    for one in (
        DataSet(
            "mnist",
            "handwritten digits, 60,000 + 10,000, grey, 28 x 28",
            "Y. LeCun, C. Cortes; CC BY-SA 3.0",
            _idx(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                {
                    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
                    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
                    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
                },
            ),
        ),
        DataSet(
            "fashion-mnist",
            "articles of clothing, 60,000 + 10,000, grey, 28 x 28",
            "Zalando SE, MIT",
            _idx(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                {
                    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
                    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
                    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
                },
            ),
        ),
        DataSet(
            "cifar-10",
            "photographs of ten things, 50,000 + 10,000, colour, 32 x 32",
            "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
            (
                Source(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    "cifar-10-binary.tar.gz",
                    "md5:c32a1d4ab5d03f1284b67883e8d87530",
                    tuple(f"cifar-10-batches-bin/{name}" for name in _BATCHES),
                ),
            ),
        ),
        DataSet(
            "svhn",
            "digits of house numbers, cropped, 73,257 + 26,032, colour, 32 x 32",
            "Netzer et al., 2011; non-commercial use only",
            (
                Source(
                    "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                    "train_32x32.mat",
                    "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
                ),
                Source(
                    "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                    "test_32x32.mat",
                    "md5:eb5a983be6a315427106f1b164d9cef3",
                ),
            ),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """The data set `name`; a ValueError that lists them.

    >>> data_set("mnist").name
    'mnist'
    """
    if name not in CATALOGUE:
        raise ValueError(f"{name!r} is no data set here; give one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
