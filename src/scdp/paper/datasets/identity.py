"""Which author is which: author mentions of ACL Anthology metadata, with its person ids as clusters."""

from __future__ import annotations

import numpy as np

from scdp.datasets.task import Labelled, Task
from scdp.paper.datasets.locate import require
from scdp.paper.datasets.tables import labelled, without
from scdp.table.records import read_records


def load_identity() -> Task:
    """A sample of the size of the paper's: 1004 mentions of 232 persons to train, 381 of 96 to test."""
    records = read_records(require("acl-authors", "acl_authors_1400.csv"))
    test = np.array(records["part"] == "test")
    whole = labelled(without(records, "part"), entity="cluster_id", id="record_id")
    note = "Author mentions of the ACL Anthology; stands in for the researchers of the paper's identity task"
    return Task("identity", whole.take(~test), whole.take(test), note)


def load_identity_full() -> Labelled:
    """Every mention whose name could be another person's: 18011 mentions of 4553 persons."""
    records = read_records(require("acl-authors", "acl_authors_full.csv.gz"))
    return labelled(records, entity="cluster_id", id="record_id")
