"""The recorded machines that come with the package."""

import os
import time

import pytest

from rdmadiag.facts import Missing
from rdmadiag.host.recorded import open_snapshot
from rdmadiag.samples import FOLDER, NoSuchSample, folder, samples
from rdmadiag.sources.run import gather, sources_of


def test_every_folder_is_a_sample_and_says_what_it_is():
    folders = {entry.name for entry in os.scandir(FOLDER) if entry.is_dir()}
    assert set(samples()) == folders - {"__pycache__"}
    assert list(samples()) == sorted(samples())
    assert all(len(about) > 20 for about in samples().values())


@pytest.mark.parametrize("name", samples())
def test_every_sample_can_be_read_by_every_source(name):
    host = open_snapshot(folder(name))
    evidence = gather(host, time.monotonic() + 20)
    assert host.about == samples()[name]
    own = sources_of(host.identity.platform)
    unread = [source for source in own if isinstance(getattr(evidence, source), Missing)]
    assert unread == []
    assert "bug of rdmadiag" not in repr(evidence)


@pytest.mark.parametrize("name", ["nothing", "", "../samples", "__pycache__"])
def test_a_name_that_is_no_sample_is_refused_with_those_there_are(name):
    with pytest.raises(NoSuchSample, match="there are: ") as caught:
        folder(name)
    assert all(each in str(caught.value) for each in samples())
