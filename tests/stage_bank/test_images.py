import itertools

import numpy as np
import pytest

from common.errors import ConfigurationError
from stage_bank.images import SPLITS, public_images


@pytest.mark.parametrize("split", SPLITS)
def test_pictures_are_usable_and_varied(split):
    images = public_images(split)
    assert len({image.source for image in images}) >= 3
    for image in images:
        assert image.pixels.dtype == np.float32
        assert min(image.pixels.shape) >= 48
        assert max(image.pixels.shape) <= 512
        assert 0.0 <= image.pixels.min() < image.pixels.max() <= 1.0
        assert image.pixels.std() > 0.02
        assert len(image.source_digest) == 64
    assert len({image.pixels.tobytes() for image in images}) == len(images)


def test_the_same_call_gives_the_same_pictures():
    for first, second in zip(public_images("gate"), public_images("gate"), strict=True):
        assert first.source_digest == second.source_digest
        np.testing.assert_array_equal(first.pixels, second.pixels)


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(SPLITS, 2)))
def test_splits_share_no_source_no_file_and_no_picture(one, two):
    first, second = public_images(one), public_images(two)
    assert not {image.source for image in first} & {image.source for image in second}
    assert not {image.source_digest for image in first} & {image.source_digest for image in second}
    for a, b in itertools.product(first, second):
        if a.pixels.shape == b.pixels.shape:
            assert abs(np.corrcoef(a.pixels.ravel(), b.pixels.ravel())[0, 1]) < 0.95


def test_an_unknown_split_is_refused():
    with pytest.raises(ConfigurationError):
        public_images("training")  # type: ignore[arg-type]
